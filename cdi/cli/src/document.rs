//! Specs and configs that are named on the command line.

use std::io;
use std::path::{Path, PathBuf};

use imex_cdi::{ConfigError, MAX_SPEC_LEN, Spec, SpecError};

use crate::reading::{self, ReadError};

/// Why a file is not the document that a command needs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DocumentError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot read {}: it is a directory", path.display())]
    Directory { path: PathBuf },
    #[error("cannot read {}: it is larger than {} MiB", path.display(), MAX_SPEC_LEN >> 20)]
    TooLarge { path: PathBuf },
    #[error("cannot look into the root {}", path.display())]
    Root { path: PathBuf, source: io::Error },
    #[error("{} is no valid CDI spec", path.display())]
    Spec { path: PathBuf, source: SpecError },
    #[error("{} is not JSON", path.display())]
    Json {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("{} is no OCI config", path.display())]
    Config { path: PathBuf, source: ConfigError },
    #[error("{} and {} are not of one sort: an OCI config has ociVersion, a CDI spec cdiVersion", old.display(), new.display())]
    Different { old: PathBuf, new: PathBuf },
}

/// The bytes of a document, at most as many as a runtime would take.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, DocumentError> {
    let path = path.to_owned();
    // A file that is longer than memory has addresses is too large in any case.
    let most = usize::try_from(MAX_SPEC_LEN).unwrap_or(usize::MAX);
    reading::read(&path, most).map_err(|error| match error {
        ReadError::Io(source) => DocumentError::Read { path, source },
        ReadError::Directory => DocumentError::Directory { path },
        ReadError::TooLarge => DocumentError::TooLarge { path },
    })
}

/// The spec in `bytes`, which were read from `path`.
pub(crate) fn spec(path: &Path, bytes: &[u8]) -> Result<Spec, DocumentError> {
    Spec::parse(bytes).map_err(|source| DocumentError::Spec {
        path: path.to_owned(),
        source,
    })
}

// === impl DocumentError ===

impl DocumentError {
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Read { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => Some("check the path"),
                io::ErrorKind::PermissionDenied => {
                    Some("give the file mode 0644 and its directory 0755, or run this as root")
                }
                _ => None,
            },
            Self::Directory { .. } => Some("pass a file in it"),
            Self::Root { .. } => {
                Some("pass to --root the directory where the host's root is mounted")
            }
            Self::TooLarge { .. } => Some("no spec or config is: check the path"),
            Self::Spec { source, .. } => Some(source.hint()),
            Self::Json { .. } => Some("pass the config.json of an OCI bundle, or a CDI spec"),
            Self::Config { source, .. } => Some(source.hint()),
            Self::Different { .. } => Some("pass two CDI specs, or two OCI configs"),
        }
    }
}
