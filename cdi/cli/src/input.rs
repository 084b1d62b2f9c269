//! Reads files that are named on the command line; `-` is standard input.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use host_doctor::{ReadError, read_bounded, read_open_bounded};

use crate::args::STDIN;

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    #[error("cannot read {}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("cannot read {}: it is a directory", path.display())]
    Directory { path: PathBuf },
    #[error(
        "cannot read {}: it is larger than {} MiB{}",
        path.display(),
        limit >> 20,
        len.map_or_else(String::new, |len| format!(" ({len} bytes)"))
    )]
    TooLarge {
        path: PathBuf,
        /// In bytes.
        limit: usize,
        /// In bytes, if the file tells it.
        len: Option<u64>,
    },
}

/// The content of the file, if it has at most `limit` bytes.
pub(crate) fn read(path: &Path, limit: usize) -> Result<Vec<u8>, InputError> {
    let bytes = if path == Path::new(STDIN) {
        read_stdin(limit)
    } else {
        read_bounded(path, limit)
    };
    bytes.map_err(|error| {
        let path = path.to_owned();
        match error {
            ReadError::Io(source) => InputError::Io { path, source },
            ReadError::Directory => InputError::Directory { path },
            ReadError::TooLarge => {
                let len = path.metadata().map(|found| found.len());
                let len = len.ok().filter(|len| *len > limit as u64);
                InputError::TooLarge { path, limit, len }
            }
        }
    })
}

/// By its descriptor: a socket, which some remote shells pass, cannot be opened by
/// name.
fn read_stdin(limit: usize) -> Result<Vec<u8>, ReadError> {
    let stdin = io::stdin().as_fd().try_clone_to_owned();
    read_open_bounded(stdin.map_err(ReadError::Io)?.into(), limit)
}

/// The directory of a file, by a name that can be opened.
pub(crate) fn directory_of(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}
