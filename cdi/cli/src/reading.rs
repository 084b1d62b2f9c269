//! A file's bytes, whatever has its name: a document, a pipe, something that
//! never ends.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;

use crate::args::STDIN;

const CHUNK: usize = 64 << 10;

/// Why there are no bytes.
#[derive(Debug)]
pub(crate) enum ReadError {
    Io(io::Error),
    Directory,
    TooLarge,
}

/// Reads to the end, holding at most `most` bytes: a power of two, so that a
/// buffer that doubles from [`CHUNK`] never outgrows it.
pub(crate) fn read(path: &Path, most: usize) -> Result<Vec<u8>, ReadError> {
    let mut file = open(path).map_err(ReadError::Io)?;
    let metadata = file.metadata().map_err(ReadError::Io)?;
    if metadata.is_dir() {
        return Err(ReadError::Directory);
    }
    // Pipes and devices say 0, and are counted while they are read.
    let known_to_fit = usize::try_from(metadata.len()).is_ok_and(|len| len <= most);
    if !known_to_fit {
        return Err(ReadError::TooLarge);
    }
    let bytes = read_at_most(most, &mut file).map_err(ReadError::Io)?;
    bytes.ok_or(ReadError::TooLarge)
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

/// The directory of a file, by a name that can be opened.
pub(crate) fn directory_of(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
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
