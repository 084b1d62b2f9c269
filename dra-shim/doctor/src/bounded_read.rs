//! The bytes of a file, up to a limit, whatever stands at its path: a document,
//! a pipe, something that never ends.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

const CHUNK: usize = 64 << 10;

/// Why a file's bytes were not returned.
#[derive(Debug)]
pub enum ReadError {
    /// The system refused to open or to read it.
    Io(io::Error),
    /// It is a directory.
    Directory,
    /// It is longer than the limit.
    TooLarge,
}

/// The content of the file at `path`, links followed, if it has at most `limit`
/// bytes.
///
/// Never holds more than `limit` bytes if that is a power of two: a buffer that
/// doubles from 64 KiB then does not outgrow it. Waits for the writer of a
/// named pipe; a caller that must not wait checks the file type first.
pub fn read_bounded(path: &Path, limit: usize) -> Result<Vec<u8>, ReadError> {
    read_open_bounded(File::open(path).map_err(ReadError::Io)?, limit)
}

/// As [`read_bounded`], for a file that is open already, such as standard input.
pub fn read_open_bounded(mut file: File, limit: usize) -> Result<Vec<u8>, ReadError> {
    let metadata = file.metadata().map_err(ReadError::Io)?;
    if metadata.is_dir() {
        return Err(ReadError::Directory);
    }
    // Pipes and devices report a length of 0, and are counted while they are read.
    let known_to_fit = usize::try_from(metadata.len()).is_ok_and(|len| len <= limit);
    if !known_to_fit {
        return Err(ReadError::TooLarge);
    }
    let bytes = read_to_limit(limit, &mut file).map_err(ReadError::Io)?;
    bytes.ok_or(ReadError::TooLarge)
}

/// `None` if there is more.
fn read_to_limit(limit: usize, file: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::with_capacity(CHUNK);
    let mut chunk = Vec::with_capacity(CHUNK);
    while file.take(CHUNK as u64).read_to_end(&mut chunk)? > 0 {
        if bytes.len() + chunk.len() > limit {
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
        for limit in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK] {
            let content = vec![b'7'; limit + 1];
            let fits = read_to_limit(limit, &mut content.get(..limit).unwrap());
            assert_eq!(fits.unwrap().map(|bytes| bytes.len()), Some(limit));
            let one_more = read_to_limit(limit, &mut content.as_slice());
            assert_eq!(one_more.unwrap(), None);
        }
    }

    #[test]
    fn the_buffer_grows_no_further_than_the_limit() {
        let limit = 16 * CHUNK;
        let bytes = read_to_limit(limit, &mut io::repeat(b'7').take(limit as u64));
        assert_eq!(bytes.unwrap().unwrap().capacity(), limit);
    }
}
