//! The NVIDIA driver's files of `Key: number` lines under `/proc/driver/nvidia`.

use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::bounded::{self, FileKind, ReadError};
use crate::one_line::OneLine;

/// Most bytes read of such a file. They have some 40 lines; the longest values
/// are registry keys that an administrator typed.
const LIMIT: u64 = 64 * 1024;

/// How much of a value that is no number an error shows.
const SHOWN: usize = 16;

/// A text of the driver that does not say what it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DriverTextError {
    /// The value is no number, or out of range. It is not taken for 0, which
    /// names another device.
    #[error("line {line}: {key} is {found:?}, not a decimal number from {} to {}", range.start(), range.end())]
    Value {
        /// Line number, from 1.
        line: usize,
        /// What stands before the colon.
        key: &'static str,
        /// What stands behind it, at most 16 characters.
        found: String,
        /// What it may be.
        range: RangeInclusive<u32>,
    },
    /// The key is there twice, with different values.
    #[error("line {line}: {key} has another value than before")]
    Ambiguous {
        /// The second's line number, from 1.
        line: usize,
        /// The key.
        key: &'static str,
    },
    /// The key is not there.
    #[error("there is no {key}")]
    Missing {
        /// The key.
        key: &'static str,
    },
    /// No line of the text is `Key: value`.
    #[error("no line is 'Key: value'")]
    NoKeys,
}

/// A file of the driver that does not say what it should.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverFileError {
    /// The file cannot be read.
    #[error("cannot read the driver's file {}", OneLine(path.display()))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It, or what it links to, is no regular file, and was not read.
    #[error("{} is a {kind}, not a file", OneLine(path.display()))]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What it is.
        kind: FileKind,
    },
    /// The file is longer than any of the driver's.
    #[error("{} is longer than {LIMIT} bytes", OneLine(path.display()))]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// The file was read.
    #[error("{} is not what the NVIDIA driver writes", OneLine(path.display()))]
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
    let bytes = bounded::read(path, LIMIT).map_err(|error| {
        let path = path.to_owned();
        match error {
            ReadError::Io(source) => DriverFileError::Unreadable { path, source },
            ReadError::NotAFile(kind) => DriverFileError::NotAFile { path, kind },
            ReadError::TooLong => DriverFileError::TooLong { path },
        }
    })?;
    // Registry keys may be any bytes; they cannot hide what is looked for.
    parse(&String::from_utf8_lossy(&bytes)).map_err(|source| DriverFileError::Content {
        path: path.to_owned(),
        source,
    })
}

/// A text of `Key: value` lines, taken apart as it is asked. Allocates only for
/// an error.
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

    /// The number behind `key`, if the key is there.
    pub(crate) fn number(
        self,
        key: &'static str,
        range: RangeInclusive<u32>,
    ) -> Result<Option<u32>, DriverTextError> {
        let mut first = None;
        for (line, _, found) in self.lines().filter(|(_, name, _)| *name == key) {
            // The driver writes no leading zeros; a person may mean octal digits.
            let digits = found.bytes().all(|byte| byte.is_ascii_digit())
                && (found == "0" || !found.starts_with('0'));
            let number = found.parse().ok().filter(|n| digits && range.contains(n));
            let Some(number) = number else {
                let found = found.chars().take(SHOWN).collect();
                return Err(DriverTextError::Value {
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

    /// The number behind `key`, which must be there.
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

// === impl DriverTextError ===

impl DriverTextError {
    /// A stable word for events and metrics.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Value { .. } | Self::NoKeys => "driver-file-malformed",
            Self::Ambiguous { .. } => "driver-file-ambiguous",
            Self::Missing { .. } => "driver-file-incomplete",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Value { .. } | Self::NoKeys | Self::Ambiguous { .. } => {
                "let the path name a file of the host's /proc/driver/nvidia, or one of the same form"
            }
            Self::Missing { .. } => {
                "let the path name the file of a capability, below \
                 /proc/driver/nvidia/capabilities, or update the NVIDIA driver"
            }
        }
    }
}

// === impl DriverFileError ===

impl DriverFileError {
    /// A stable word for events and metrics.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "driver-file-unreadable",
            Self::NotAFile { .. } | Self::TooLong { .. } => "driver-file-malformed",
            Self::Content { source, .. } => source.code(),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => {
                "load the nvidia kernel module, and let the path lie in the host's \
                 /proc/driver/nvidia"
            }
            Self::NotAFile { .. } | Self::TooLong { .. } => {
                "let the path name a file of the host's /proc/driver/nvidia; this is some other \
                 file or device"
            }
            Self::Content { source, .. } => source.hint(),
        }
    }
}
