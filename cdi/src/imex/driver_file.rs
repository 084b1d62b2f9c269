//! The NVIDIA driver's files of `Key: number` lines under `/proc/driver/nvidia`.

use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use dra_common::{Advice, FileKind, OneLine, ReadError, read_bounded};

/// The longest such file that is read, in bytes. They have some 40 lines; the
/// longest values are registry keys that an administrator set.
const LIMIT: u64 = 64 * 1024;

/// How many characters of an invalid value an error quotes.
const SHOWN: usize = 16;

/// Why the content of a driver file was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Advice)]
#[non_exhaustive]
#[advice(hint = "pass a file of the host's /proc/driver/nvidia, or a file in the same format")]
pub enum DriverTextError {
    /// The value is not a number, or out of range. It is not read as 0, which would
    /// name another device.
    #[error("line {line}: {key} is {found:?}, not a decimal number from {} to {}", range.start(), range.end())]
    #[advice(code = "driver-file-malformed")]
    InvalidValue {
        /// Line number, from 1.
        line: usize,
        /// The key, before the colon.
        key: &'static str,
        /// The value, truncated to 16 characters.
        found: String,
        /// The valid values.
        range: RangeInclusive<u32>,
    },
    /// The key occurs twice, with different values.
    #[error("line {line}: {key} occurs again with another value")]
    #[advice(code = "driver-file-ambiguous")]
    Ambiguous {
        /// Line number of the second one, from 1.
        line: usize,
        /// The key.
        key: &'static str,
    },
    /// The key does not occur.
    #[error("{key} is missing")]
    #[advice(
        code = "driver-file-incomplete",
        hint = "pass a capability's file below /proc/driver/nvidia/capabilities, or update the \
                NVIDIA driver"
    )]
    Missing {
        /// The key.
        key: &'static str,
    },
    /// No line is `Key: value`.
    #[error("no line has the form 'Key: value'")]
    #[advice(code = "driver-file-malformed")]
    NoKeys,
}

/// Why a driver file was not read.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
#[advice(
    hint = "pass a file of the host's /proc/driver/nvidia; this path is another file or \
                device"
)]
pub enum DriverFileError {
    /// The file cannot be read.
    #[error("cannot read the driver's file {}", OneLine(path.display()))]
    #[advice(
        code = "driver-file-unreadable",
        hint = "load the nvidia kernel module, and pass a path in the host's /proc/driver/nvidia"
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The path, or the target of the link there, is not a regular file.
    #[error("{} is a {kind}, not a file", OneLine(path.display()))]
    #[advice(code = "driver-file-malformed")]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What it is instead.
        kind: FileKind,
    },
    /// The file is longer than any of the driver's files.
    #[error("{} is longer than {LIMIT} bytes", OneLine(path.display()))]
    #[advice(code = "driver-file-malformed")]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// The content was not understood.
    #[error("{} is not in the format that the NVIDIA driver writes", OneLine(path.display()))]
    #[advice(from = source)]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: DriverTextError,
    },
}

/// Reads the file `path` with `parse`.
pub(crate) fn read<T>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, DriverTextError>,
) -> Result<T, DriverFileError> {
    let bytes = read_bounded(path, LIMIT).map_err(|error| {
        let path = path.to_owned();
        match error {
            ReadError::Io(source) => DriverFileError::Unreadable { path, source },
            ReadError::NotAFile(kind) => DriverFileError::NotAFile { path, kind },
            ReadError::TooLong(_) => DriverFileError::TooLong { path },
        }
    })?;
    // Values set by an administrator may be any bytes; they cannot hide a key.
    parse(&String::from_utf8_lossy(&bytes)).map_err(|source| DriverFileError::Content {
        path: path.to_owned(),
        source,
    })
}

/// A text of `Key: value` lines, searched at each request. Allocates only for an
/// error.
#[derive(Clone, Copy)]
pub(crate) struct DriverText<'a>(&'a str);

impl<'a> DriverText<'a> {
    pub(crate) fn new(text: &'a str) -> Result<Self, DriverTextError> {
        let this = Self(text);
        match this.lines().next() {
            Some(_) => Ok(this),
            None => Err(DriverTextError::NoKeys),
        }
    }

    /// The value of `key`, if the key occurs.
    // req: CDI-30
    pub(crate) fn number(
        self,
        key: &'static str,
        range: RangeInclusive<u32>,
    ) -> Result<Option<u32>, DriverTextError> {
        let mut first = None;
        for (line, _, found) in self.lines().filter(|(_, name, _)| *name == key) {
            // The driver writes no leading zeros; in a file written by hand, they may mean octal.
            let digits = found.bytes().all(|byte| byte.is_ascii_digit())
                && (found == "0" || !found.starts_with('0'));
            let number = found.parse().ok().filter(|n| digits && range.contains(n));
            let Some(number) = number else {
                let found = found.chars().take(SHOWN).collect();
                return Err(DriverTextError::InvalidValue {
                    line,
                    key,
                    found,
                    range,
                });
            };
            if *first.get_or_insert(number) != number {
                return Err(DriverTextError::Ambiguous { line, key });
            }
        }
        Ok(first)
    }

    /// The value of `key`, which must occur.
    pub(crate) fn required(
        self,
        key: &'static str,
        range: RangeInclusive<u32>,
    ) -> Result<u32, DriverTextError> {
        self.number(key, range)?
            .ok_or(DriverTextError::Missing { key })
    }

    fn lines(self) -> impl Iterator<Item = (usize, &'a str, &'a str)> {
        (1..).zip(self.0.lines()).filter_map(|(number, line)| {
            let (key, value) = line.split_once(':')?;
            Some((number, key.trim(), value.trim()))
        })
    }
}
