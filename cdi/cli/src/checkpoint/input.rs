//! Reads a checkpoint.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use dra_checkpoint::DAMAGED_MARK;

use super::error::CheckpointError;
use crate::reading::{self, directory_of};
use host_doctor::ReadError;

/// More than any node's claims take: a thousand are 2.2 MB. A power of two, so
/// that the buffer never outgrows it.
pub(crate) const MOST_BYTES: usize = 256 << 20;

/// Reads to the end, holding at most [`MOST_BYTES`].
pub(super) fn read(path: &Path) -> Result<Vec<u8>, CheckpointError> {
    let path = path.to_owned();
    reading::read(&path, MOST_BYTES).map_err(|error| match error {
        ReadError::Io(source) if source.kind() == ErrorKind::NotFound => CheckpointError::Missing {
            set_aside: set_aside(&path),
            path,
            source,
        },
        ReadError::Io(source) => CheckpointError::Read { path, source },
        ReadError::Directory => CheckpointError::Directory { path },
        ReadError::TooLarge => CheckpointError::TooLarge {
            path,
            limit: MOST_BYTES,
        },
    })
}

/// The damaged files that once had this name; none if the directory cannot be
/// listed.
fn set_aside(path: &Path) -> Vec<PathBuf> {
    let Some(name) = path.file_name() else {
        return vec![];
    };
    let beginning = [name.as_encoded_bytes(), DAMAGED_MARK.as_bytes()].concat();
    let mut found: Vec<PathBuf> = fs::read_dir(directory_of(path))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name())
        .filter(|sibling| sibling.as_encoded_bytes().starts_with(&beginning))
        .map(|sibling| path.with_file_name(sibling))
        .collect();
    found.sort();
    found
}
