//! One spec file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dra_common::{Advice, FileKind, OneLine, ReadError, read_bounded};

use super::limits::Budget;
use super::unread::Unread;
use crate::{Spec, SpecError};

/// The longest spec file that is read, in bytes: 1 MiB. The longest that are known,
/// of 2 048 channels, have 0.3 to 0.4 MB; those of a host's GPUs, with every MIG
/// device, some 100 kB. A reader's memory is up to ten times a file's length: twenty files in one
/// directory must not use up the memory of the node's other programs.
pub const MAX_SPEC_LEN: u64 = 1 << 20;

/// A file that a runtime would try to read.
#[derive(Debug)]
#[non_exhaustive]
pub struct SpecFile {
    /// Its path, the directory's with the name.
    pub path: PathBuf,
    /// Its directory's index in [`Registry::dirs`](super::Registry::dirs); the
    /// higher wins.
    pub priority: usize,
    /// Its spec, or why it has none.
    pub spec: Result<Arc<Spec>, LoadError>,
    /// The kinds that another reader may find in the file, if it is not a valid spec here.
    pub(crate) unread: Unread,
}

/// Why a spec file was not loaded.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum LoadError {
    /// It cannot be read; `NotFound` means a dangling link.
    #[error("cannot read CDI spec {}", OneLine(path.display()))]
    #[advice(code = "cdi-spec-unreadable", hint = read_hint(source))]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file, or its target if it is a link, is not a regular file.
    #[error("CDI spec {} is a {kind}, not a file", OneLine(path.display()))]
    #[advice(
        code = "cdi-spec-not-a-file",
        hint = "move this path out of the CDI directory: runtimes read every path there whose name ends in .json or .yaml"
    )]
    NotAFile {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        kind: FileKind,
    },
    /// It is longer than [`MAX_SPEC_LEN`].
    /// Nothing of it was used.
    #[error("CDI spec {} has {len} bytes; the limit is {MAX_SPEC_LEN}", OneLine(path.display()))]
    #[advice(
        code = "cdi-spec-too-long",
        hint = "find out which program wrote this file, and move the file out of the CDI \
                directory; if the spec really has so many devices, split it into several files"
    )]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its length in bytes.
        len: u64,
    },
    /// Its content is not a valid spec.
    #[error("CDI spec {} is not valid", OneLine(path.display()))]
    #[advice(from = source)]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Why.
        source: SpecError,
    },
}

// === impl SpecFile ===

impl SpecFile {
    pub(super) fn load(path: PathBuf, priority: usize, budget: &mut Budget) -> Self {
        let text = read(&path);
        budget.spend(text.as_ref().map_or(0, Vec::len));
        let text = match text {
            Ok(text) => text,
            Err(error) => {
                // No reader reads a non-file to its end.
                let is_nothing = matches!(error, LoadError::NotAFile { .. });
                return Self {
                    path,
                    priority,
                    spec: Err(error),
                    unread: if is_nothing {
                        Unread::Nothing
                    } else {
                        Unread::Anything
                    },
                };
            }
        };
        let spec = Spec::parse(&text);
        let unread = match &spec {
            Ok(_) => Unread::Nothing,
            Err(error) => Unread::for_refused(&text, error),
        };
        Self {
            spec: match spec {
                Ok(spec) => Ok(Arc::new(spec)),
                Err(source) => Err(LoadError::Invalid {
                    path: path.clone(),
                    source,
                }),
            },
            path,
            priority,
            unread,
        }
    }

    /// Whether the file was deleted after its directory was listed and before it was read. It
    /// counts as absent, even if a writer has restored it since. (A dangling link is still there.)
    pub(super) fn was_deleted(&self) -> bool {
        matches!(&self.spec, Err(LoadError::Read { source, .. })
            if source.kind() == io::ErrorKind::NotFound && !self.path.is_symlink())
    }
}

/// The content of the file at `path`, links followed.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    read_bounded(path, MAX_SPEC_LEN).map_err(|error| {
        let path = path.to_owned();
        match error {
            ReadError::Io(source) => LoadError::Read { path, source },
            ReadError::NotAFile(kind) => LoadError::NotAFile { path, kind },
            ReadError::TooLong(_) => {
                // If the file has shrunk since, the least length that was read.
                let len = path.metadata().map_or(0, |found| found.len());
                let len = len.max(MAX_SPEC_LEN + 1);
                LoadError::TooLong { path, len }
            }
        }
    })
}

/// What to do about a file that cannot be read.
fn read_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "remove the link, or restore its target",
        io::ErrorKind::PermissionDenied => {
            "give the file mode 0644 and its directory mode 0755, or read the file as root"
        }
        _ if error.raw_os_error() == Some(nix::errno::Errno::ELOOP as i32) => {
            "remove the link, which points to itself"
        }
        _ => "check the file system that the file is on",
    }
}

// === impl LoadError ===

impl LoadError {
    /// The file.
    pub fn path(&self) -> &Path {
        match self {
            Self::Read { path, .. }
            | Self::NotAFile { path, .. }
            | Self::TooLong { path, .. }
            | Self::Invalid { path, .. } => path,
        }
    }

    /// The field of an invalid spec that is wrong, by its path in JSON, as in
    /// [`SpecError::field`].
    pub fn field(&self) -> Option<&str> {
        self.spec_error().and_then(SpecError::field)
    }

    /// Line and column, from 1, at which an invalid spec is wrong, as in
    /// [`SpecError::position`].
    pub fn position(&self) -> Option<(usize, usize)> {
        self.spec_error().and_then(SpecError::position)
    }

    fn spec_error(&self) -> Option<&SpecError> {
        match self {
            Self::Invalid { source, .. } => Some(source),
            Self::Read { .. } | Self::NotAFile { .. } | Self::TooLong { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn load(path: &Path) -> SpecFile {
        SpecFile::load(path.to_owned(), 0, &mut Budget::unlimited())
    }

    #[test]
    fn a_file_that_was_deleted_before_the_read_is_gone_even_if_it_is_restored() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("claim.yaml");
        let file = load(&path);
        assert!(file.was_deleted());

        fs::write(&path, "").unwrap();
        assert!(file.was_deleted());
    }

    #[test]
    fn a_dangling_link_is_still_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("claim.yaml");
        symlink("nowhere", &path).unwrap();
        assert!(!load(&path).was_deleted());
    }
}
