//! The major of the IMEX channel devices, from `/proc/devices`.
//!
//! The driver gets a dynamic major each time it is loaded, so the major can change
//! while a daemon runs: read it again for each use.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use dra_common::{Advice, FileKind, OneLine, ReadError, read_bounded};

/// Where the kernel lists device majors, and the drivers that have them.
pub const PROC_DEVICES: &str = "/proc/devices";

/// The driver's name in that list. `nvidia-caps`, whose name is a prefix of it, is
/// another driver with another major.
pub const CHANNEL_DRIVER: &str = "nvidia-caps-imex-channels";

/// The longest device list that is read, in bytes. For character and for block
/// devices the kernel lists at most 512 majors, on lines of up to 70 bytes.
const LIST_LIMIT: u64 = 128 * 1024;

/// A character device major in use: 1 to 4095 (12 bits). 0 is not a major: CDI
/// reads it as absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Major(u32);

/// A number that is not a device major.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a device major (1 to {limit})", limit = Major::MAX)]
pub struct MajorOutOfRange(u32);

/// Why a device list has no usable major of the IMEX channels.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Advice)]
#[non_exhaustive]
#[advice(hint = "pass the host's /proc/devices, or a file of the same format")]
pub enum MajorError {
    /// The list is valid, but the driver is not in it.
    #[error("no {CHANNEL_DRIVER} among the character devices")]
    #[advice(
        code = "imex-channel-major-missing",
        hint = "load the nvidia kernel module with NVreg_ImexChannelCount above 0 (the default \
                is 2048); drivers without IMEX do not have this option"
    )]
    Missing,
    /// The text is not a device list.
    #[error("no 'Character devices:' line")]
    #[advice(code = "device-list-malformed")]
    NoCharacterDevices,
    /// The driver's line has no usable number.
    #[error("line {line}: {found:?} is not a device major (1 to {limit})", limit = Major::MAX)]
    #[advice(code = "device-list-malformed")]
    BadMajor {
        /// Line number, from 1.
        line: usize,
        /// What precedes the name, truncated to 16 characters.
        found: String,
    },
    /// The driver is listed twice, with different majors.
    #[error("{CHANNEL_DRIVER} has two majors, {first} and {second}")]
    #[advice(
        code = "imex-channel-major-ambiguous",
        hint = "reload the nvidia kernel module"
    )]
    Ambiguous {
        /// The first in the list.
        first: Major,
        /// The next one that differs.
        second: Major,
    },
}

/// Why a file has no usable major of the IMEX channels.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
#[advice(hint = "pass the host's /proc/devices; this path is another file or device")]
pub enum ReadMajorError {
    /// The file cannot be read.
    #[error("cannot read the device list {}", OneLine(path.display()))]
    #[advice(
        code = "device-list-unreadable",
        hint = "check that the host's /proc/devices is mounted at this path and readable"
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The path, or the target of the link there, is not a regular file.
    #[error("device list {} is a {kind}, not a file", OneLine(path.display()))]
    #[advice(code = "device-list-malformed")]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What it is instead.
        kind: FileKind,
    },
    /// The file is longer than any device list.
    #[error("device list {} is longer than {LIST_LIMIT} bytes", OneLine(path.display()))]
    #[advice(code = "device-list-malformed")]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// The file was read, and has no usable major.
    #[error("device list {} has no usable IMEX channel major", OneLine(path.display()))]
    #[advice(from = source)]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: MajorError,
    },
}

/// The major of the IMEX channels in `list`, which has the format of `/proc/devices`:
///
/// ```text
/// Character devices:
///   1 mem
/// 235 nvidia-caps-imex-channels
///
/// Block devices:
///   8 sd
/// ```
///
/// Only the section `Character devices:` counts; it ends at `Block devices:`
/// or at the end of the text. The name must match exactly. Allocates only for an
/// error.
// req: CDI-28
pub fn channel_major(list: &str) -> Result<Major, MajorError> {
    let mut lines = (1..).zip(list.lines().map(str::trim));
    lines
        .find(|(_, line)| *line == "Character devices:")
        .ok_or(MajorError::NoCharacterDevices)?;
    let mut majors = lines
        .take_while(|(_, line)| *line != "Block devices:")
        .filter_map(|(number, line)| Some((number, channel_number(line)?)))
        .map(|(line, found)| parse_major(line, found));
    let first = majors.next().ok_or(MajorError::Missing)??;
    for second in majors {
        let second = second?;
        if second != first {
            return Err(MajorError::Ambiguous { first, second });
        }
    }
    Ok(first)
}

/// The major of the IMEX channels in the file `path`, usually [`PROC_DEVICES`].
/// Reads only a regular file of at most 128 KiB.
pub fn read_channel_major(path: impl AsRef<Path>) -> Result<Major, ReadMajorError> {
    let path = path.as_ref();
    let list = read_device_list(path)?;
    channel_major(&list).map_err(|source| ReadMajorError::Content {
        path: path.to_owned(),
        source,
    })
}

/// The device list in the file `path`: an argument for [`channel_major`], and for
/// callers that also look for other drivers. Reads only a regular file of at most
/// 128 KiB.
pub fn read_device_list(path: impl AsRef<Path>) -> Result<String, ReadMajorError> {
    let path = path.as_ref();
    let bytes = read_bounded(path, LIST_LIMIT).map_err(|error| {
        let path = path.to_owned();
        match error {
            ReadError::Io(source) => ReadMajorError::Unreadable { path, source },
            ReadError::NotAFile(kind) => ReadMajorError::NotAFile { path, kind },
            ReadError::TooLong(_) => ReadMajorError::TooLong { path },
        }
    })?;
    // A driver's name may be any bytes; it cannot hide that of another driver.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What precedes the IMEX driver's name, if the line has that name.
fn channel_number(line: &str) -> Option<&str> {
    let before = line.strip_suffix(CHANNEL_DRIVER)?;
    let number = before.trim_end();
    // `x-nvidia-caps-imex-channels` and `1 x nvidia-caps-imex-channels` are
    // other names.
    (number.len() < before.len() && !number.contains(char::is_whitespace)).then_some(number)
}

// req: CDI-30
fn parse_major(line: usize, found: &str) -> Result<Major, MajorError> {
    let digits = found.bytes().all(|b| b.is_ascii_digit());
    let number = found.parse().ok().filter(|_| digits);
    number
        .and_then(|number| Major::new(number).ok())
        .ok_or_else(|| MajorError::BadMajor {
            line,
            found: found.chars().take(16).collect(),
        })
}

// === impl Major ===

impl fmt::Display for Major {
    /// The number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Major {
    /// The highest major that the kernel has.
    pub const MAX: u32 = (1 << 12) - 1;

    /// The major `number`.
    pub fn new(number: u32) -> Result<Self, MajorOutOfRange> {
        if (1..=Self::MAX).contains(&number) {
            Ok(Self(number))
        } else {
            Err(MajorOutOfRange(number))
        }
    }

    /// The major as a number.
    pub fn get(self) -> u32 {
        self.0
    }
}
