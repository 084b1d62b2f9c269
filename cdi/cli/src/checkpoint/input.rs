//! A checkpoint's bytes, or why there are none.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::reading::{self, ReadError};

/// More than any node's claims take: a thousand are 2.2 MB. A power of two, so
/// that the buffer never outgrows it.
pub(crate) const MOST_BYTES: usize = 256 << 20;

/// What the plugin puts between the name of a file that it set aside and the
/// reason.
pub(super) const SET_ASIDE: &str = ".damaged-";

/// Reads to the end, holding at most [`MOST_BYTES`].
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let path = path.to_owned();
    reading::read(&path, MOST_BYTES).map_err(|error| match error {
        ReadError::Io(source) if source.kind() == ErrorKind::NotFound => Failure::Missing {
            set_aside: set_aside(&path),
            path,
            source,
        },
        ReadError::Io(source) => Failure::Read { path, source },
        ReadError::Directory => Failure::Directory { path },
        ReadError::TooLarge => Failure::TooLarge { path },
    })
}

/// The damaged files that once had this name; none if nobody can tell.
fn set_aside(path: &Path) -> Vec<PathBuf> {
    let Some(name) = path.file_name() else {
        return vec![];
    };
    let beginning = [name.as_encoded_bytes(), SET_ASIDE.as_bytes()].concat();
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let mut found: Vec<PathBuf> = fs::read_dir(directory)
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
