//! A file's bytes, whatever has its name: a checkpoint, a pipe, something that
//! never ends.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use crate::args::STDIN;
use crate::failure::Failure;

/// More than any node's claims take: a thousand are 2.2 MB. A power of two, so
/// that a buffer that doubles from [`CHUNK`] never outgrows it.
pub(crate) const MOST_BYTES: usize = 256 << 20;

const CHUNK: usize = 64 << 10;

/// What the plugin puts between the name of a file that it set aside and the
/// reason.
const SET_ASIDE: &str = ".damaged-";

/// Reads to the end, holding at most [`MOST_BYTES`].
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let cannot_read = |source| Failure::Read {
        path: path.to_owned(),
        source,
    };
    let mut file = open(path).map_err(|source| match source.kind() {
        ErrorKind::NotFound => Failure::Missing {
            path: path.to_owned(),
            set_aside: set_aside(path),
            source,
        },
        _ => cannot_read(source),
    })?;
    let metadata = file.metadata().map_err(cannot_read)?;
    if metadata.is_dir() {
        return Err(Failure::Directory {
            path: path.to_owned(),
        });
    }
    // Pipes and devices say 0, and are counted while they are read.
    let known_to_fit = usize::try_from(metadata.len()).is_ok_and(|len| len <= MOST_BYTES);
    let bytes = if known_to_fit {
        read_at_most(MOST_BYTES, &mut file).map_err(cannot_read)?
    } else {
        None
    };
    bytes.ok_or_else(|| Failure::TooLarge {
        path: path.to_owned(),
    })
}

/// Standard input is taken as it was handed over: a socket, which is what some
/// remote shells give, cannot be opened by its name.
fn open(path: &Path) -> io::Result<File> {
    if path == Path::new(STDIN) {
        Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
    } else {
        File::open(path)
    }
}

/// `None` if there is more.
fn read_at_most(most: usize, file: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::with_capacity(CHUNK);
    let mut chunk = Vec::with_capacity(CHUNK);
    while file.take(CHUNK as u64).read_to_end(&mut chunk)? > 0 {
        if bytes.len() + chunk.len() > most {
            return Ok(None);
        }
        bytes.append(&mut chunk);
    }
    Ok(Some(bytes))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_just_fits_is_read_and_one_byte_more_is_not() {
        for most in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK] {
            let content = vec![b'7'; most + 1];
            let fits = read_at_most(most, &mut content.get(..most).unwrap());
            assert_eq!(fits.unwrap().map(|bytes| bytes.len()), Some(most));
            let one_more = read_at_most(most, &mut content.as_slice());
            assert_eq!(one_more.unwrap(), None);
        }
    }

    #[test]
    fn the_buffer_grows_no_further_than_what_may_be_read() {
        let most = 16 * CHUNK;
        let bytes = read_at_most(most, &mut io::repeat(b'7').take(most as u64));
        assert_eq!(bytes.unwrap().unwrap().capacity(), most);
    }
}
