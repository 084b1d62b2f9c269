//! A warning: a field of a spec, and its probable mistake.

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
        hint = "declare the lowest version that supports every field in use"
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
        hint = "set the timeout to more than 0 seconds, or leave the field out"
    )]
    TimeoutNotPositive,
    /// A number that the kernel cannot represent.
    #[error("is out of the kernel's range")]
    #[advice(
        code = "number-out-of-range",
        hint = "use a major from 1 to 4095, a minor from 0 to 1048575, permission bits from 0 \
                to 4095 (0o7777), or a user or group id from 0 to 4294967294"
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
    #[error("has no minor, so runtimes use minor 0")]
    #[advice(
        code = "major-without-minor",
        hint = "write the minor, even if it is 0"
    )]
    MissingMinor,
    /// A minor without major.
    #[error("has no major and is ignored")]
    #[advice(
        code = "minor-without-major",
        hint = "set major as well, or leave out both numbers"
    )]
    MissingMajor,
    /// Numbers without type.
    #[error("has no type, so the type of the host's device node applies")]
    #[advice(
        code = "numbers-without-type",
        hint = "set type to c or b, so that runtimes need no device node on the host"
    )]
    MissingType,
    /// A fifo with a number.
    #[error("is meaningless for a fifo")]
    #[advice(code = "fifo-with-number", hint = "leave out major and minor")]
    NumberOfFifo,
    /// A NUL byte, which ends a string for the kernel.
    #[error("has a NUL byte, so no container can start")]
    #[advice(code = "nul-in-text", hint = "remove the NUL byte")]
    NulByte,
    /// A mount both read-only and writable.
    #[error("has both ro and rw; the last one wins")]
    #[advice(code = "mount-ro-and-rw", hint = "keep only the intended option")]
    ReadOnlyAndWritable,
    /// A device for which runtimes make no cgroup rule.
    #[error("gets no rule in the device cgroup, so the container cannot open the node")]
    #[advice(code = "no-cgroup-rule", hint = "use type c")]
    NoCgroupRule,
    /// Two nodes, or two mounts, at one path of the container.
    #[error("is also the path of an earlier entry; this entry replaces the earlier one")]
    #[advice(code = "path-repeated", hint = "keep only the intended entry")]
    RepeatedPath,
    /// A variable that is set twice.
    #[error("sets the same variable as an earlier entry, and overrides that entry")]
    #[advice(code = "variable-repeated", hint = "keep only the intended entry")]
    RepeatedVariable,
    /// A channel's node with the number of another channel.
    #[error("is not the channel number in the path")]
    #[advice(code = "other-channel", hint = "set the minor to the channel's number")]
    ChannelMismatch,
    /// Two devices for one channel.
    #[error("is also the channel of an earlier device")]
    #[advice(
        code = "channel-in-two-devices",
        hint = "give each device its own channel"
    )]
    SharedChannel,
    /// Group 0.
    #[error("is 0, which runtimes ignore")]
    #[advice(code = "group-0", hint = "leave it out")]
    RootGroup,
    /// A name longer than the kernel's 15 bytes.
    #[error("is longer than 15 bytes, the limit for interface names")]
    #[advice(
        code = "interface-name-too-long",
        hint = "use the interface's name, at most 15 bytes"
    )]
    InterfaceTooLong,
    /// A key that is not a qualified name as Kubernetes defines it.
    #[error("has a key that is not a qualified name; some readers refuse such keys")]
    #[advice(code = "annotation-key", hint = "use a key like vendor.example/key")]
    AnnotationKey,
    /// More than 256 KiB of annotations.
    #[error("are longer than 256 KiB; some readers refuse such long annotations")]
    #[advice(code = "annotations-too-long", hint = "store long texts elsewhere")]
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
