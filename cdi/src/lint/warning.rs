//! A warning: a field of a spec, and what is probably wrong with it.

use std::fmt;

/// Something in a [`Spec`](crate::Spec) that is valid and probably wrong. Display
/// names the field and the consequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The field by its path in JSON, `devices[0].containerEdits.hooks[1].path`.
    pub field: String,
    /// What is wrong.
    pub lint: Lint,
}

/// What is probably wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Lint {
    /// A higher version than the spec needs.
    #[error("is higher than needed, and older runtimes refuse the file")]
    VersionTooHigh,
    /// A path that does not start with `/`.
    #[error("is not an absolute path")]
    RelativePath,
    /// A hook's timeout of 0 or less.
    #[error("is not above 0")]
    TimeoutNotPositive,
    /// A number that the kernel cannot represent.
    #[error("is out of the kernel's range")]
    OutOfRange,
    /// Permission bits such as 666, which is 0o1232.
    #[error("looks like octal digits, but JSON numbers are decimal")]
    ModeLooksOctal,
    /// A major without minor.
    #[error("has no minor beside it, which is read as 0")]
    MissingMinor,
    /// A minor without major.
    #[error("has no major beside it and is ignored")]
    MissingMajor,
    /// Numbers without type.
    #[error("has no type beside it, so the node on the host decides")]
    MissingType,
    /// A fifo with a number.
    #[error("is meaningless for a fifo")]
    NumberOfFifo,
    /// A NUL byte, which ends a string for the kernel.
    #[error("has a NUL, with which no container starts")]
    NulByte,
    /// A mount both read-only and writable.
    #[error("has both ro and rw, of which the last wins")]
    ReadOnlyAndWritable,
    /// A device for which runtimes make no cgroup rule.
    #[error("gets no rule in the device cgroup, so nobody can open the node")]
    NoCgroupRule,
    /// Two nodes, or two mounts, at one path of the container.
    #[error("is also that of an earlier entry, which this one replaces")]
    RepeatedPath,
    /// A variable that is set twice.
    #[error("sets a variable that an earlier entry sets, and wins")]
    RepeatedVariable,
    /// A channel's node with the number of another channel.
    #[error("is not the number of the channel in the path")]
    ChannelMismatch,
    /// Two devices for one channel.
    #[error("is also the channel of an earlier device")]
    SharedChannel,
    /// Group 0.
    #[error("is 0, which runtimes ignore")]
    RootGroup,
    /// A name longer than the kernel's 15 bytes.
    #[error("is longer than the 15 bytes of an interface's name")]
    InterfaceTooLong,
    /// A key that is not a qualified name as Kubernetes defines it.
    #[error("has a key that is not a qualified name, which some readers refuse")]
    AnnotationKey,
    /// More than 256 KiB of annotations.
    #[error("are longer than 256 KiB, which some readers refuse")]
    AnnotationsTooLong,
}

// === impl Warning ===

impl Warning {
    /// A stable word for reports.
    pub fn code(&self) -> &'static str {
        self.lint.code()
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        self.lint.hint()
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.field, self.lint)
    }
}

// === impl Lint ===

impl Lint {
    /// A stable word for reports.
    pub fn code(self) -> &'static str {
        match self {
            Self::VersionTooHigh => "cdi-version-too-high",
            Self::RelativePath => "relative-path",
            Self::TimeoutNotPositive => "hook-without-time",
            Self::OutOfRange => "number-out-of-range",
            Self::ModeLooksOctal => "mode-looks-octal",
            Self::MissingMinor => "major-without-minor",
            Self::MissingMajor => "minor-without-major",
            Self::MissingType => "numbers-without-type",
            Self::NumberOfFifo => "fifo-with-number",
            Self::NulByte => "nul-in-text",
            Self::ReadOnlyAndWritable => "mount-ro-and-rw",
            Self::NoCgroupRule => "no-cgroup-rule",
            Self::RepeatedPath => "path-repeated",
            Self::RepeatedVariable => "variable-repeated",
            Self::ChannelMismatch => "other-channel",
            Self::SharedChannel => "channel-in-two-devices",
            Self::RootGroup => "group-0",
            Self::InterfaceTooLong => "interface-name-too-long",
            Self::AnnotationKey => "annotation-key",
            Self::AnnotationsTooLong => "annotations-too-long",
        }
    }

    /// What to do about it.
    pub fn hint(self) -> &'static str {
        match self {
            Self::VersionTooHigh => "state the lowest version that has what the spec uses",
            Self::RelativePath => "give the full path, from /",
            Self::TimeoutNotPositive => "give the hook seconds above 0, or leave the field out",
            Self::OutOfRange => {
                "majors go from 1 to 4095, minors from 0 to 1048575, permission bits to 4095 \
                 (0o7777), users and groups to 4294967294"
            }
            Self::ModeLooksOctal => "write 0666 as 438, 0660 as 432, 0644 as 420, 0600 as 384",
            Self::MissingMinor => "write the minor, also when it is 0",
            Self::MissingMajor => "write the major too, or neither",
            Self::MissingType => "write type c or b, so that no node on the host is needed",
            Self::NumberOfFifo => "leave major and minor out",
            Self::NulByte => "leave the NUL out",
            Self::ReadOnlyAndWritable => "keep the one that is meant",
            Self::NoCgroupRule => "use type c",
            Self::RepeatedPath | Self::RepeatedVariable => "keep the entry that is meant",
            Self::ChannelMismatch => "let the minor be the channel's number",
            Self::SharedChannel => "give each device a channel of its own",
            Self::RootGroup => "leave it out",
            Self::InterfaceTooLong => "use the interface's name, at most 15 bytes",
            Self::AnnotationKey => "use a key like vendor.example/key",
            Self::AnnotationsTooLong => "keep long texts elsewhere",
        }
    }
}
