//! Specs and configs that are named on the command line.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use imex_cdi::{MAX_SPEC_LEN, Spec, SpecError};
use serde::de::IgnoredAny;

use crate::input::{self, InputError};
use crate::outcome::{CommandError, Outcome};

/// The longest OCI config that is read, in bytes. One with 2 048 channels has
/// 0.5 MB.
const MAX_CONFIG_LEN: usize = 16 << 20;

pub(crate) const NOT_SPEC_HINT: &str = "pass a CDI spec";

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
    #[error("{} is not a CDI spec: it has ociVersion, as OCI configs do", path.display())]
    NotSpec { path: PathBuf },
}

/// The bytes of a file that should be a spec, if it is not too long for one.
pub(crate) fn read_spec(path: &Path) -> Result<Vec<u8>, DocumentError> {
    Ok(input::read(path, max_spec_len())?)
}

/// The bytes of a file that may be a config.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, DocumentError> {
    Ok(input::read(path, MAX_CONFIG_LEN)?)
}

/// A file that does not fit into the address space is too large anyway.
fn max_spec_len() -> usize {
    usize::try_from(MAX_SPEC_LEN).unwrap_or(usize::MAX)
}

/// The spec in `bytes`, which were read from `path`.
pub(crate) fn spec(path: &Path, bytes: &[u8]) -> Result<Spec, DocumentError> {
    if bytes.len() > max_spec_len() {
        return Err(InputError::TooLarge {
            path: path.to_owned(),
            limit: max_spec_len(),
            len: Some(bytes.len() as u64),
        }
        .into());
    }
    Spec::parse(bytes).map_err(|source| {
        let path = path.to_owned();
        if is_config(bytes) {
            DocumentError::NotSpec { path }
        } else {
            DocumentError::Spec { path, source }
        }
    })
}

/// Whether it is an OCI config: whether it has ociVersion. Keeps nothing else of it
/// in memory.
#[expect(
    clippy::zero_sized_map_values,
    reason = "a set is read from an array, a map only from an object"
)]
pub(crate) fn is_config(bytes: &[u8]) -> bool {
    let members: Option<BTreeMap<String, IgnoredAny>> = serde_json::from_slice(bytes).ok();
    members.is_some_and(|members| members.contains_key("ociVersion"))
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
            Self::Input(InputError::TooLarge { limit, .. }) if *limit == max_spec_len() => {
                "no device spec is that large: check the path, and what wrote the file; split a \
                 spec of so many devices into several files"
            }
            Self::Input(InputError::TooLarge { .. }) => {
                "no spec or config is that large: check the path"
            }
            Self::Spec { source, .. } => source.hint(),
            Self::NotSpec { .. } => NOT_SPEC_HINT,
            Self::Json { .. } => "pass the config.json of an OCI bundle",
        };
        Some(hint.into())
    }
}
