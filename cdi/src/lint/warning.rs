//! A warning: a field of a spec, and what is probably wrong with it.

use std::fmt;

use dra_common::Advice;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum Lint {
    /// A higher version than the spec needs.
    #[error("is higher than needed, and older runtimes refuse the file")]
    #[advice(
        code = "cdi-version-too-high",
        hint = "state the lowest version that has what the spec uses"
    )]
    VersionTooHigh,
    /// A path that does not start with `/`.
    #[error("is not an absolute path")]
    #[advice(code = "relative-path", hint = "give the full path, from /")]
    RelativePath,
    /// A hook's timeout of 0 or less.
    #[error("is not above 0")]
    #[advice(
        code = "hook-without-time",
        hint = "give the hook seconds above 0, or leave the field out"
    )]
    TimeoutNotPositive,
    /// A number that the kernel cannot represent.
    #[error("is out of the kernel's range")]
    #[advice(
        code = "number-out-of-range",
        hint = "majors go from 1 to 4095, minors from 0 to 1048575, permission bits to 4095 \
                (0o7777), users and groups to 4294967294"
    )]
    OutOfRange,
    /// Permission bits such as 666, which is 0o1232.
    #[error("looks like octal digits, but JSON numbers are decimal")]
    #[advice(
        code = "mode-looks-octal",
        hint = "write 0666 as 438, 0660 as 432, 0644 as 420, 0600 as 384"
    )]
    ModeLooksOctal,
    /// A major without minor.
    #[error("has no minor beside it, which is read as 0")]
    #[advice(
        code = "major-without-minor",
        hint = "write the minor, also when it is 0"
    )]
    MissingMinor,
    /// A minor without major.
    #[error("has no major beside it and is ignored")]
    #[advice(code = "minor-without-major", hint = "write the major too, or neither")]
    MissingMajor,
    /// Numbers without type.
    #[error("has no type beside it, so the node on the host decides")]
    #[advice(
        code = "numbers-without-type",
        hint = "write type c or b, so that no node on the host is needed"
    )]
    MissingType,
    /// A fifo with a number.
    #[error("is meaningless for a fifo")]
    #[advice(code = "fifo-with-number", hint = "leave major and minor out")]
    NumberOfFifo,
    /// A NUL byte, which ends a string for the kernel.
    #[error("has a NUL, with which no container starts")]
    #[advice(code = "nul-in-text", hint = "leave the NUL out")]
    NulByte,
    /// A mount both read-only and writable.
    #[error("has both ro and rw, of which the last wins")]
    #[advice(code = "mount-ro-and-rw", hint = "keep the one that is meant")]
    ReadOnlyAndWritable,
    /// A device for which runtimes make no cgroup rule.
    #[error("gets no rule in the device cgroup, so nobody can open the node")]
    #[advice(code = "no-cgroup-rule", hint = "use type c")]
    NoCgroupRule,
    /// Two nodes, or two mounts, at one path of the container.
    #[error("is also that of an earlier entry, which this one replaces")]
    #[advice(code = "path-repeated", hint = "keep the entry that is meant")]
    RepeatedPath,
    /// A variable that is set twice.
    #[error("sets a variable that an earlier entry sets, and wins")]
    #[advice(code = "variable-repeated", hint = "keep the entry that is meant")]
    RepeatedVariable,
    /// A channel's node with the number of another channel.
    #[error("is not the number of the channel in the path")]
    #[advice(code = "other-channel", hint = "let the minor be the channel's number")]
    ChannelMismatch,
    /// Two devices for one channel.
    #[error("is also the channel of an earlier device")]
    #[advice(
        code = "channel-in-two-devices",
        hint = "give each device a channel of its own"
    )]
    SharedChannel,
    /// Group 0.
    #[error("is 0, which runtimes ignore")]
    #[advice(code = "group-0", hint = "leave it out")]
    RootGroup,
    /// A name longer than the kernel's 15 bytes.
    #[error("is longer than the 15 bytes of an interface's name")]
    #[advice(
        code = "interface-name-too-long",
        hint = "use the interface's name, at most 15 bytes"
    )]
    InterfaceTooLong,
    /// A key that is not a qualified name as Kubernetes defines it.
    #[error("has a key that is not a qualified name, which some readers refuse")]
    #[advice(code = "annotation-key", hint = "use a key like vendor.example/key")]
    AnnotationKey,
    /// More than 256 KiB of annotations.
    #[error("are longer than 256 KiB, which some readers refuse")]
    #[advice(code = "annotations-too-long", hint = "keep long texts elsewhere")]
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
