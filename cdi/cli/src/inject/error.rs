//! Why a config is not changed.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use imex_cdi::PlanError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum InjectError {
    #[error("standard input cannot be changed in place")]
    StdinInPlace,
    #[error(transparent)]
    Plan(PlanError),
    #[error("cannot look at {}", path.display())]
    Look { path: PathBuf, source: io::Error },
    #[error("{} is no regular file", path.display())]
    NotAFile { path: PathBuf },
    #[error("cannot write {}", path.display())]
    Write {
        path: PathBuf,
        source: durable_file::Error,
    },
}

/// Where a config is, and whose.
pub(super) struct Place {
    pub(super) dir: PathBuf,
    pub(super) name: String,
    /// Permission bits.
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// The place of the file that `path` leads to: links stay what they are.
pub(super) fn place(path: &Path) -> Result<Place, InjectError> {
    let cannot_look = |source| InjectError::Look {
        path: path.to_owned(),
        source,
    };
    let real = fs::canonicalize(path).map_err(cannot_look)?;
    let metadata = fs::metadata(&real).map_err(cannot_look)?;
    let parts = (
        real.parent(),
        real.file_name().and_then(|name| name.to_str()),
    );
    match parts {
        (Some(parent), Some(name)) if metadata.is_file() => Ok(Place {
            dir: parent.to_owned(),
            name: name.to_owned(),
            mode: metadata.mode() & 0o7777,
            uid: metadata.uid(),
            gid: metadata.gid(),
        }),
        _ => Err(InjectError::NotAFile {
            path: path.to_owned(),
        }),
    }
}

// === impl InjectError ===

impl InjectError {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::StdinInPlace => 2,
            // The device's spec needs something of the host that is not there.
            Self::Plan(_) => 1,
            Self::Look { .. } | Self::NotAFile { .. } | Self::Write { .. } => 3,
        }
    }

    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::StdinInPlace => Some("leave --in-place out: the result is on stdout then"),
            Self::Plan(error) => Some(error.hint()),
            Self::Look { .. } => None,
            Self::NotAFile { .. } => Some("pass the file, or leave --in-place out"),
            Self::Write { source, .. } => Some(source.hint()),
        }
    }
}
