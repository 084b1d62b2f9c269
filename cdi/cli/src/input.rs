//! Reads files that are named on the command line; `-` is standard input.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::Path;

use imex_cdi::{MAX_SPEC_LEN, Spec};
use serde::de::IgnoredAny;

use crate::args::STDIN;
use crate::outcome::{Failure, Outcome};

/// The longest OCI config that is read, in bytes. One with 2 048 channels has
/// 0.5 MB.
const MAX_CONFIG_LEN: usize = 16 << 20;

pub(crate) const NOT_SPEC_HINT: &str = "pass a CDI spec";

/// How much is read at once, in bytes.
const CHUNK: usize = 64 << 10;

/// Why a file's bytes were not returned.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The system refused to open or to read it.
    Io(io::Error),
    /// It is a directory.
    Directory,
    /// It is longer than the limit.
    TooLarge,
}

/// The content of the file, if it has at most `limit` bytes. `hint` says what to do if it
/// cannot be read.
pub(crate) fn read(
    path: &Path,
    limit: usize,
    hint: impl FnOnce(&ReadError) -> Option<Cow<'static, str>>,
) -> Result<Vec<u8>, Failure> {
    read_file(path, limit).map_err(|error| {
        let what = format!("cannot read {}", path.display());
        let failure = match &error {
            ReadError::Io(source) => Failure::caused_by(Outcome::Io, what, source),
            ReadError::Directory => {
                Failure::new(Outcome::Io, format!("{what}: the path is a directory"))
            }
            ReadError::TooLarge => {
                let len = path.metadata().map_or(0, |found| found.len());
                let len = (len > limit as u64).then(|| format!(" ({len} bytes)"));
                let (limit, len) = (limit >> 20, len.unwrap_or_default());
                let message = format!("{what}: the file is larger than {limit} MiB{len}");
                Failure::new(Outcome::Io, message)
            }
        };
        Failure {
            hint: hint(&error),
            ..failure
        }
    })
}

fn read_file(path: &Path, limit: usize) -> Result<Vec<u8>, ReadError> {
    let mut file = open(path).map_err(ReadError::Io)?;
    let metadata = file.metadata().map_err(ReadError::Io)?;
    if metadata.is_dir() {
        return Err(ReadError::Directory);
    }
    // Pipes and devices report a length of 0, and are counted while they are read.
    if metadata.len() > limit as u64 {
        return Err(ReadError::TooLarge);
    }
    let bytes = read_to_limit(limit, &mut file).map_err(ReadError::Io)?;
    bytes.ok_or(ReadError::TooLarge)
}

/// Standard input by its descriptor: a socket, which some remote shells pass, cannot be
/// opened by name.
fn open(path: &Path) -> io::Result<File> {
    if path == Path::new(STDIN) {
        Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
    } else {
        File::open(path)
    }
}

/// `None` if there is more. Never holds more than `limit` bytes if that is a power of two: a
/// buffer that doubles from 64 KiB then does not outgrow it.
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

/// The bytes of a file that should be a spec, if it is not too long for one.
pub(crate) fn read_spec(path: &Path) -> Result<Vec<u8>, Failure> {
    // A file that does not fit into the address space is too large anyway.
    let limit = usize::try_from(MAX_SPEC_LEN).unwrap_or(usize::MAX);
    read(path, limit, |error| {
        document_hint(
            error,
            "device specs are not that large: check the path, and find out which program wrote \
             the file; if the spec really has so many devices, split it into several files",
        )
    })
}

/// The bytes of a file that may be an OCI config.
pub(crate) fn read_config(path: &Path) -> Result<Vec<u8>, Failure> {
    read(path, MAX_CONFIG_LEN, |error| {
        document_hint(error, "no spec or config is that large: check the path")
    })
}

fn document_hint(error: &ReadError, too_large: &'static str) -> Option<Cow<'static, str>> {
    let hint = match error {
        ReadError::Io(source) => match source.kind() {
            ErrorKind::NotFound => "check the path",
            ErrorKind::PermissionDenied => {
                "give the file mode 0644 and its directory mode 0755, or run cdi-gen as root"
            }
            _ => return None,
        },
        ReadError::Directory => "pass a file in this directory",
        ReadError::TooLarge => too_large,
    };
    Some(hint.into())
}

/// The spec in a file.
pub(crate) fn spec(path: &Path) -> Result<Spec, Failure> {
    let bytes = read_spec(path)?;
    let path = path.display();
    Spec::parse(&bytes).map_err(|error| {
        if is_config(&bytes) {
            let what = format!("{path} is not a CDI spec but an OCI config (ociVersion is set)");
            Failure::new(Outcome::Io, what).hint(NOT_SPEC_HINT)
        } else {
            let what = format!("{path} is not a valid CDI spec");
            Failure::caused_by(Outcome::Io, what, &error).hint(error.hint())
        }
    })
}

/// Whether this is an OCI config, that is, has ociVersion. Keeps no values in memory.
#[expect(
    clippy::zero_sized_map_values,
    reason = "serde_json reads a set from an array; only a map is read from an object"
)]
pub(crate) fn is_config(bytes: &[u8]) -> bool {
    let members: Option<BTreeMap<String, IgnoredAny>> = serde_json::from_slice(bytes).ok();
    members.is_some_and(|members| members.contains_key("ociVersion"))
}

/// The directory of a file, by a name that can be opened.
pub(crate) fn directory_of(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
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
