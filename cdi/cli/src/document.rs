//! Specs and configs that are named on the command line.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use imex_cdi::{ConfigError, MAX_SPEC_LEN, Spec, SpecError};
use serde_json::Value;

use crate::input::{self, InputError};
use crate::outcome::{CommandError, Outcome};

pub(crate) const NOT_SPEC_HINT: &str =
    "pass a CDI spec; `cdi-gen inject` and `cdi-gen diff` are for configs";

/// Why a file is not the document that a command needs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DocumentError {
    #[error(transparent)]
    Input(#[from] InputError),
    #[error("{} is not a valid CDI spec", path.display())]
    Spec { path: PathBuf, source: SpecError },
    #[error("{} is not JSON", path.display())]
    Json {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("{} is not an OCI config", path.display())]
    Config { path: PathBuf, source: ConfigError },
    #[error("{} is not an OCI config: {what}", path.display())]
    NotConfig { path: PathBuf, what: &'static str },
    #[error("{} is not a CDI spec: it has ociVersion, as OCI configs do", path.display())]
    NotSpec { path: PathBuf },
    #[error("{} and {} are not of the same kind: an OCI config has ociVersion, a CDI spec cdiVersion", old.display(), new.display())]
    Different { old: PathBuf, new: PathBuf },
}

/// The bytes of a document, at most as many as runtimes read of a spec.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, DocumentError> {
    // A file that does not fit into the address space is too large anyway.
    let limit = usize::try_from(MAX_SPEC_LEN).unwrap_or(usize::MAX);
    Ok(input::read(path, limit)?)
}

/// The spec in `bytes`, which were read from `path`.
pub(crate) fn spec(path: &Path, bytes: &[u8]) -> Result<Spec, DocumentError> {
    Spec::parse(bytes).map_err(|source| {
        let path = path.to_owned();
        if is_config(bytes) {
            DocumentError::NotSpec { path }
        } else {
            DocumentError::Spec { path, source }
        }
    })
}

/// Whether it is an OCI config: whether it has ociVersion.
pub(crate) fn is_config(bytes: &[u8]) -> bool {
    let value: Option<Value> = serde_json::from_slice(bytes).ok();
    value.is_some_and(|value| value.get("ociVersion").is_some())
}

// === impl DocumentError ===

impl CommandError for DocumentError {
    fn outcome(&self) -> Outcome {
        Outcome::Io
    }

    fn hint(&self) -> Option<Cow<'static, str>> {
        let hint = match self {
            Self::Input(InputError::Io { source, .. }) => match source.kind() {
                io::ErrorKind::NotFound => "check the path",
                io::ErrorKind::PermissionDenied => {
                    "give the file mode 0644 and its directory 0755, or run this as root"
                }
                _ => return None,
            },
            Self::Input(InputError::Directory { .. }) => "pass a file in it",
            Self::Input(InputError::TooLarge { .. }) => {
                "no spec or config is that large: check the path"
            }
            Self::NotConfig { .. } => {
                "pass the config.json of an OCI bundle (`runc spec` writes one)"
            }
            Self::Spec { source, .. } => source.hint(),
            Self::NotSpec { .. } => NOT_SPEC_HINT,
            Self::Json { .. } => "pass the config.json of an OCI bundle",
            Self::Config { source, .. } => source.hint(),
            Self::Different { .. } => "pass two CDI specs, or two OCI configs",
        };
        Some(hint.into())
    }
}
