//! The device that a name resolves to, or why it does not resolve.

use std::path::PathBuf;
use std::sync::Arc;

use dra_common::{Advice, OneLine};

use super::file::SpecFile;
use crate::{Device, QualifiedName, Spec};

/// A device that a name resolves to, and the file that defines it.
#[derive(Debug, Clone, Copy)]
pub struct Resolved<'a> {
    /// The file that defines it.
    pub file: &'a SpecFile,
    /// The file's spec; the container gets its edits, too.
    pub spec: &'a Arc<Spec>,
    /// The device.
    pub device: &'a Device,
    /// Its index in the spec's devices.
    pub index: usize,
}

/// A device that more than one file of a directory defines. It does not resolve,
/// whatever other directories define.
#[derive(Debug, Clone, thiserror::Error, Advice)]
#[error("CDI device {name} is defined in more than one file of a directory: {}", list(files.iter().map(|file| &file.path)))]
#[advice(code = CONFLICT_CODE, hint = CONFLICT_HINT)]
pub struct Conflict<'a> {
    /// The device.
    pub name: QualifiedName,
    /// The files, two or more, of one priority.
    pub files: Vec<&'a SpecFile>,
}

/// Why a name does not resolve to a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum ResolveError {
    /// No valid file defines it.
    #[error("no valid CDI spec defines {name}")]
    #[advice(
        code = "cdi-device-unknown",
        hint = "check that the device's driver is running and has written a spec, and that \
                runtimes accept this spec"
    )]
    Unknown {
        /// The device.
        name: QualifiedName,
    },
    /// More than one file of a directory defines it.
    #[error(
        "CDI device {name} is defined in more than one file of a directory: {}",
        list(files)
    )]
    #[advice(code = CONFLICT_CODE, hint = CONFLICT_HINT)]
    Conflict {
        /// The device.
        name: QualifiedName,
        /// The files.
        files: Vec<PathBuf>,
    },
}

pub(super) const CONFLICT_CODE: &str = "cdi-device-conflict";
pub(super) const CONFLICT_HINT: &str = "keep the device in only one of these files; defining the device in another directory does not resolve the conflict";

// === impl Resolved ===

impl Resolved<'_> {
    /// The device's name among all kinds.
    pub fn name(&self) -> QualifiedName {
        QualifiedName::new(self.spec.kind().clone(), self.device.name.clone())
    }
}

// === impl ResolveError ===

impl ResolveError {
    /// The requested name.
    pub fn name(&self) -> &QualifiedName {
        match self {
            Self::Unknown { name } | Self::Conflict { name, .. } => name,
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
