//! What a name resolves to, and why it does not.

use std::path::PathBuf;
use std::sync::Arc;

use super::file::SpecFile;
use crate::one_line::OneLine;
use crate::{Device, QualifiedName, Spec};

/// A device that a name resolves to, and the file that defines it.
#[derive(Debug, Clone, Copy)]
pub struct Resolved<'a> {
    /// The file that defines it.
    pub file: &'a SpecFile,
    /// The file's spec, of which the container gets the edits too.
    pub spec: &'a Arc<Spec>,
    /// The device.
    pub device: &'a Device,
    /// Its index in the spec's devices.
    pub index: usize,
}

/// A device that more than one file of a directory defines. It does not resolve,
/// whatever other directories define.
#[derive(Debug, Clone, thiserror::Error)]
#[error("CDI device {name} is defined in more than one file of a directory: {}", list(files.iter().map(|file| &file.path)))]
pub struct Conflict<'a> {
    /// The device.
    pub name: QualifiedName,
    /// The files, two or more, of one priority.
    pub files: Vec<&'a SpecFile>,
}

/// Why a name does not resolve to a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// No valid file defines it.
    #[error("no valid CDI spec defines {name}")]
    Unknown {
        /// The device.
        name: QualifiedName,
    },
    /// More than one file of a directory defines it.
    #[error(
        "CDI device {name} is defined in more than one file of a directory: {}",
        list(files)
    )]
    Conflict {
        /// The device.
        name: QualifiedName,
        /// The files.
        files: Vec<PathBuf>,
    },
}

pub(super) const CONFLICT_CODE: &str = "cdi-device-conflict";
pub(super) const CONFLICT_HINT: &str =
    "leave the device in one of the files; a file in a later directory does not settle it";

// === impl Resolved ===

impl Resolved<'_> {
    /// The device's name among all kinds.
    pub fn name(&self) -> QualifiedName {
        QualifiedName::new(self.spec.kind().clone(), self.device.name.clone())
    }
}

// === impl Conflict ===

impl Conflict<'_> {
    /// A stable word for events and metrics.
    pub fn code(&self) -> &'static str {
        CONFLICT_CODE
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        CONFLICT_HINT
    }
}

// === impl ResolveError ===

impl ResolveError {
    /// The name that was asked for.
    pub fn name(&self) -> &QualifiedName {
        match self {
            Self::Unknown { name } | Self::Conflict { name, .. } => name,
        }
    }

    /// A stable word for events and metrics.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "cdi-device-unknown",
            Self::Conflict { .. } => CONFLICT_CODE,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => {
                "see that its driver runs and has written a spec, and that no file which should \
                 define the device was refused"
            }
            Self::Conflict { .. } => CONFLICT_HINT,
        }
    }
}

fn list<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> String {
    let paths: Vec<String> = paths
        .into_iter()
        .map(|p| OneLine(p.display()).to_string())
        .collect();
    paths.join(", ")
}
