//! A file's bytes, up to a limit; `-` on the command line is standard input.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use host_doctor::{ReadError, read_bounded, read_open_bounded};

use crate::args::STDIN;

/// Reads to the end, holding at most `limit` bytes if that is a power of two.
pub(crate) fn read(path: &Path, limit: usize) -> Result<Vec<u8>, ReadError> {
    if path != Path::new(STDIN) {
        return read_bounded(path, limit);
    }
    // Standard input is taken as it was handed over: a socket, which is what
    // some remote shells give, cannot be opened by its name.
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
