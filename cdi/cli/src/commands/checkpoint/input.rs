//! Reads a checkpoint.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use dra_checkpoint::DAMAGED_MARK;
use host_doctor::MAX_CHECKPOINT_LEN;

use super::error::CheckpointError;
use crate::input::{self, InputError, directory_of};

pub(super) fn read(path: &Path) -> Result<Vec<u8>, CheckpointError> {
    input::read(path, MAX_CHECKPOINT_LEN).map_err(|error| match error {
        InputError::Io { path, source } if source.kind() == ErrorKind::NotFound => {
            CheckpointError::Missing {
                set_aside: set_aside(&path),
                path,
                source,
            }
        }
        error => CheckpointError::Input(error),
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
