//! What nobody checks of a spec and is probably a mistake.
//!
//! Every reader accepts these, and a container then starts without the device,
//! with another one, or not at all.

mod find;
mod numbers;

use std::collections::BTreeSet;
use std::fmt;

use crate::Spec;
use crate::spec::Field;
use find::{Warnings, only_channel};

/// Something in a [`Spec`] that is allowed and probably wrong. Display names
/// the field and what follows from it.
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
    #[error("is no absolute path")]
    RelativePath,
    /// A hook that is given no time.
    #[error("is not above 0")]
    NoTime,
    /// A number that the kernel has no place for.
    #[error("is out of the kernel's range")]
    OutOfRange,
    /// Permission bits such as 666, which is 0o1232.
    #[error("looks like octal digits, but JSON numbers are decimal")]
    ModeLooksOctal,
    /// A major without minor.
    #[error("has no minor beside it, which is read as 0")]
    NoMinor,
    /// A minor without major.
    #[error("has no major beside it and is passed over")]
    NoMajor,
    /// Numbers without type.
    #[error("has no type beside it, so the node on the host decides")]
    NoType,
    /// A fifo with a number.
    #[error("means nothing for a fifo")]
    FifoNumber,
    /// A NUL, which ends a text for the kernel.
    #[error("has a NUL, with which no container starts")]
    Nul,
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
    OtherChannel,
    /// Two devices for one channel.
    #[error("is the channel of an earlier device too")]
    SharedChannel,
    /// Group 0.
    #[error("is 0, which runtimes pass over")]
    GroupPassedOver,
    /// A name longer than the kernel's 15 bytes.
    #[error("is longer than the 15 bytes of an interface's name")]
    InterfaceTooLong,
    /// A key that is no qualified name of Kubernetes.
    #[error("has a key that is no qualified name, which some readers refuse")]
    AnnotationKey,
    /// More than 256 KiB of annotations.
    #[error("are longer than 256 KiB, which some readers refuse")]
    AnnotationsTooLong,
}

impl Spec {
    /// What is probably a mistake in the spec, in the order of its fields, the
    /// spec's own before those of its devices. Whether a path exists, or a
    /// major is that of the IMEX channels, only a host can say.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Warnings::default();
        if self.version() > self.needed_version() {
            warnings.add(Field::of_spec("cdiVersion"), Lint::VersionTooHigh);
        }
        warnings.annotations(Field::of_spec("annotations"), self.annotations());
        warnings.edits(None, self.container_edits());
        let mut channels = BTreeSet::new();
        for (at, device) in self.devices().iter().enumerate() {
            let field = Field::of_device(at, "annotations");
            warnings.annotations(field, &device.annotations);
            warnings.edits(Some(at), &device.container_edits);
            if let Some((node, channel)) = only_channel(device)
                && !channels.insert(channel)
            {
                let field = Field::of_spec("deviceNodes").at(node).leaf("path");
                warnings.add(field.in_edits_of(Some(at)), Lint::SharedChannel);
            }
        }
        warnings.found
    }
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
            Self::NoTime => "hook-without-time",
            Self::OutOfRange => "number-out-of-range",
            Self::ModeLooksOctal => "mode-looks-octal",
            Self::NoMinor => "major-without-minor",
            Self::NoMajor => "minor-without-major",
            Self::NoType => "numbers-without-type",
            Self::FifoNumber => "fifo-with-number",
            Self::Nul => "nul-in-text",
            Self::ReadOnlyAndWritable => "mount-ro-and-rw",
            Self::NoCgroupRule => "no-cgroup-rule",
            Self::RepeatedPath => "path-repeated",
            Self::RepeatedVariable => "variable-repeated",
            Self::OtherChannel => "other-channel",
            Self::SharedChannel => "channel-in-two-devices",
            Self::GroupPassedOver => "group-0",
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
            Self::NoTime => "give the hook seconds above 0, or leave the field out",
            Self::OutOfRange => {
                "majors go from 1 to 4095, minors from 0 to 1048575, permission bits to 4095 \
                 (0o7777), users and groups to 4294967294"
            }
            Self::ModeLooksOctal => "write 0666 as 438, 0660 as 432, 0644 as 420, 0600 as 384",
            Self::NoMinor => "write the minor, also when it is 0",
            Self::NoMajor => "write the major too, or neither",
            Self::NoType => "write type c or b, so that no node on the host is needed",
            Self::FifoNumber => "leave major and minor out",
            Self::Nul => "leave the NUL out",
            Self::ReadOnlyAndWritable => "keep the one that is meant",
            Self::NoCgroupRule => "use type c",
            Self::RepeatedPath | Self::RepeatedVariable => "keep the entry that is meant",
            Self::OtherChannel => "let the minor be the channel's number",
            Self::SharedChannel => "give each device a channel of its own",
            Self::GroupPassedOver => "leave it out",
            Self::InterfaceTooLong => "use the interface's name, at most 15 bytes",
            Self::AnnotationKey => "use a key like vendor.example/key",
            Self::AnnotationsTooLong => "keep long texts elsewhere",
        }
    }
}
