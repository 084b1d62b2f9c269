//! The faults of a spec.

use dra_common::Advice;

use crate::SpecVersion;
use crate::go_serde::KEY_LIMIT;

/// What is wrong with a spec.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
#[advice(
    hint = "correct the text at this position, or let the driver that owns the file rewrite it",
    vis = "pub(super)"
)]
pub enum SpecFault {
    /// The spec has no devices.
    #[error("has no devices")]
    #[advice(
        code = "cdi-spec-no-devices",
        hint = "define at least one device, or write no spec"
    )]
    NoDevices,
    /// A device that would change nothing in a container.
    #[error("has no edits")]
    #[advice(
        code = "cdi-device-no-edits",
        hint = "give the device an environment variable, node, hook or mount"
    )]
    NoEdits,
    /// Edits that Go's CDI library refuses, and the whole spec because of them.
    #[error(transparent)]
    #[advice(code = "cdi-edits-invalid", from)]
    Edit(EditFault),
    /// Two devices of one name.
    #[error("is defined twice")]
    #[advice(
        code = "cdi-device-duplicate",
        hint = "give each device its own name; define a shared device only once"
    )]
    DuplicateDevice,
    /// The declared version does not support a field of the spec.
    #[error("declares version {declared}, but {by} needs version {needed}")]
    #[advice(code = "cdi-version-too-low", hint = raise_to(*needed))]
    VersionTooLow {
        /// Its `cdiVersion`.
        declared: SpecVersion,
        /// The lowest version that supports all fields.
        needed: SpecVersion,
        /// A field that needs it.
        by: String,
    },
    /// An annotation key that is too long, as written, for YAML readers.
    #[error("have a key longer than {KEY_LIMIT} bytes, including escapes")]
    #[advice(
        code = "cdi-annotation-key-too-long",
        hint = "use a short key like vendor.example/key, and move the rest into the value"
    )]
    KeyTooLong,
    /// A version older than the first that Go's CDI library reads.
    #[error(
        "declares version {declared}, but the lowest supported version is {}",
        SpecVersion::FIRST
    )]
    #[advice(code = "cdi-version-too-low", hint = raise_to(SpecVersion::FIRST))]
    VersionTooOld {
        /// Its `cdiVersion`.
        declared: SpecVersion,
    },
    /// Neither JSON nor YAML, or nothing at all.
    #[error("{0}")]
    #[advice(code = "cdi-spec-malformed")]
    Syntax(String),
    /// A field of an object that occurs twice.
    #[error("the field is repeated")]
    #[advice(
        code = "cdi-spec-malformed",
        hint = "keep only one of the two fields; readers that accept both use the last one"
    )]
    Repeated,
    /// A value that does not fit the model: an unknown field, a repeated annotation,
    /// a value of a wrong type, an invalid name or version.
    #[error("{0}")]
    #[advice(
        code = "cdi-spec-malformed",
        hint = "correct the field, or leave it out if it may be absent"
    )]
    Shape(String),
    /// YAML that no spec needs: an anchor, an alias, a tag, too many values, too deep nesting.
    #[error("{0}")]
    #[advice(
        code = "cdi-spec-too-complex",
        hint = "write every value in full, without anchors, aliases, tags or needless nesting; split \
                a spec with many devices into several files"
    )]
    TooComplex(&'static str),
    /// Not JSON, or JSON that does not fit the model.
    #[error("not a CDI spec in JSON")]
    #[advice(code = "cdi-spec-malformed")]
    Json(#[source] serde_json::Error),
}

/// What Go's CDI library refuses in a field of [`ContainerEdits`](crate::ContainerEdits).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Advice)]
#[non_exhaustive]
#[advice(vis = "pub(crate)")]
pub enum EditFault {
    /// An empty path.
    #[error("is empty")]
    #[advice(hint = "give the full path")]
    EmptyPath,
    /// An environment variable without `=`, or without a name before it.
    #[error("is not NAME=value")]
    #[advice(hint = "write the variable as NAME=value")]
    NotAnAssignment,
    /// A hook name that OCI does not define.
    #[error("is not an OCI hook")]
    #[advice(
        hint = "use prestart, createRuntime, createContainer, startContainer, poststart or \
                poststop"
    )]
    UnknownHook,
    /// Permissions that allow nothing: written as an empty string, they would be read
    /// as absent, which allows everything.
    #[error("allows nothing")]
    #[advice(hint = "give one or more of r, w and m, or leave the field out to allow all three")]
    NoPermissions,
    /// A class of service that is not the name of a directory.
    #[error("is not the name of a directory")]
    #[advice(
        hint = "use a name under 4096 bytes, without '/' and newline; '.' and '..' are not \
                allowed; for the root class, use '/' alone"
    )]
    NotAFileName,
    /// A network device without a name.
    #[error("is empty")]
    #[advice(hint = "give the interface's name on the host and in the container")]
    EmptyName,
    /// A network device's name that an earlier one has.
    #[error("is also the name of an earlier network device")]
    #[advice(hint = "name each interface once, on the host and in the container")]
    RepeatedName,
}

fn raise_to(needed: SpecVersion) -> &'static str {
    match needed {
        SpecVersion::V0_1_0 | SpecVersion::V0_2_0 | SpecVersion::V0_3_0 => {
            "raise cdiVersion to 0.3.0"
        }
        SpecVersion::V0_4_0 => "raise cdiVersion to 0.4.0",
        SpecVersion::V0_5_0 => "raise cdiVersion to 0.5.0",
        SpecVersion::V0_6_0 => "raise cdiVersion to 0.6.0",
        SpecVersion::V0_7_0 => "raise cdiVersion to 0.7.0",
        SpecVersion::V0_8_0 => "raise cdiVersion to 0.8.0",
        SpecVersion::V1_0_0 => "raise cdiVersion to 1.0.0",
        SpecVersion::V1_1_0 => "raise cdiVersion to 1.1.0",
    }
}
