//! What may be wrong with a spec.

use crate::SpecVersion;
use crate::go_serde::KEY_LIMIT;

/// What is wrong with a spec.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecFault {
    /// The spec has no devices.
    #[error("has no devices")]
    NoDevices,
    /// A device that would change nothing in a container.
    #[error("has no edits")]
    NoEdits,
    /// Edits that Go's CDI library refuses, and the whole spec because of them.
    #[error(transparent)]
    Edit(EditFault),
    /// Two devices of one name.
    #[error("is defined twice")]
    DuplicateDevice,
    /// The declared version does not support a field of the spec.
    #[error("declares version {declared} but has {by}, which {needed} added")]
    VersionTooLow {
        /// Its `cdiVersion`.
        declared: SpecVersion,
        /// The lowest version that supports all fields.
        needed: SpecVersion,
        /// A field that needs it.
        by: String,
    },
    /// An annotation key that is too long, as written, for YAML readers.
    #[error("have a key longer than {KEY_LIMIT} bytes, escapes counted")]
    KeyTooLong,
    /// A version older than the first that Go's CDI library reads.
    #[error(
        "declares version {declared}, and none before {} is read",
        SpecVersion::FIRST
    )]
    VersionTooOld {
        /// Its `cdiVersion`.
        declared: SpecVersion,
    },
    /// Neither JSON nor YAML, or nothing at all.
    #[error("{0}")]
    Syntax(String),
    /// A field of an object that occurs twice.
    #[error("the field is repeated")]
    Repeated,
    /// A value that does not fit the model: an unknown field, a repeated annotation,
    /// a value of a wrong type, an invalid name or version.
    #[error("{0}")]
    Shape(String),
    /// What no spec needs: an anchor, an alias, a tag, too many values, too deep nesting.
    #[error("{0}")]
    TooComplex(&'static str),
    /// Not JSON, or JSON that does not fit the model.
    #[error("not a CDI spec in JSON")]
    Json(#[source] serde_json::Error),
}

/// What Go's CDI library refuses in a field of [`ContainerEdits`](crate::ContainerEdits).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditFault {
    /// An empty path.
    #[error("is empty")]
    EmptyPath,
    /// An environment variable without `=`, or without a name before it.
    #[error("is not NAME=value")]
    NotAnAssignment,
    /// A hook name that OCI does not define.
    #[error("is not an OCI hook")]
    UnknownHook,
    /// Permissions that allow nothing: written as an empty string, they would be read
    /// as absent, which allows everything.
    #[error("allows nothing")]
    NoPermissions,
    /// A class of service that is not the name of a directory.
    #[error("is not the name of a directory")]
    NotAFileName,
    /// A network device without a name.
    #[error("is empty")]
    EmptyName,
    /// A network device's name that an earlier one has.
    #[error("is that of an earlier network device")]
    RepeatedName,
}

// === impl EditFault ===

impl EditFault {
    pub(crate) fn hint(self) -> &'static str {
        match self {
            Self::EmptyPath => "give the full path",
            Self::NotAnAssignment => "write the variable as NAME=value",
            Self::UnknownHook => {
                "use prestart, createRuntime, createContainer, startContainer, poststart or \
                 poststop"
            }
            Self::NoPermissions => "name any of r, w and m, or leave the field out to allow all",
            Self::NotAFileName => {
                "use a name shorter than 4096 bytes without '/' and newline, other than '.' and \
                 '..'; only '/' alone is the root class"
            }
            Self::EmptyName => "give the interface's name on the host and in the container",
            Self::RepeatedName => "name each interface once, on the host and in the container",
        }
    }
}
