//! One spec file, read within bounds.

use std::fmt;
use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::OFlag;

use crate::one_line::OneLine;
use crate::{Spec, SpecError};

/// Length in bytes of the longest spec file that is read, 16 MiB: a spec of
/// 2 048 channels has 0.34 MB, so this is 50 times what any host is known to
/// have, and what a file may make its reader hold.
pub const MAX_SPEC_LEN: u64 = 16 << 20;

/// A file that a runtime would try to read.
#[derive(Debug)]
#[non_exhaustive]
pub struct SpecFile {
    /// Its path, the directory's with the name.
    pub path: PathBuf,
    /// Its directory's index in [`Registry::dirs`](super::Registry::dirs); the
    /// higher wins.
    pub priority: usize,
    /// What it says, or why it says nothing.
    pub spec: Result<Arc<Spec>, LoadError>,
}

/// A spec file that defines nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// It cannot be read; as `NotFound`, it is a link to nothing.
    #[error("cannot read CDI spec {}", OneLine(path.display()))]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It, or what it links to, is no regular file, and was not opened.
    #[error("CDI spec {} is a {kind}, not a file", OneLine(path.display()))]
    NotAFile {
        /// The file.
        path: PathBuf,
        /// What it is.
        kind: FileKind,
    },
    /// It is longer than [`MAX_SPEC_LEN`].
    #[error("CDI spec {} is longer than {MAX_SPEC_LEN} bytes", OneLine(path.display()))]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// Its text is no valid spec.
    #[error("CDI spec {} is not valid", OneLine(path.display()))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Why.
        source: SpecError,
    },
}

/// What stands where a file should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum FileKind {
    Directory,
    NamedPipe,
    Socket,
    CharDevice,
    BlockDevice,
    Unknown,
}

// === impl SpecFile ===

impl SpecFile {
    pub(super) fn load(path: PathBuf, priority: usize) -> Self {
        let text = read(&path);
        let spec = text.and_then(|text| match Spec::parse(&text) {
            Ok(spec) => Ok(Arc::new(spec)),
            Err(source) => Err(LoadError::Invalid {
                path: path.clone(),
                source,
            }),
        });
        Self {
            path,
            priority,
            spec,
        }
    }

    /// Whether there was no such file after all: it went after its directory
    /// was listed, which is as good as before. (A link to nothing is there.)
    pub(super) fn is_gone(&self) -> bool {
        matches!(&self.spec, Err(LoadError::Read { source, .. })
            if source.kind() == io::ErrorKind::NotFound
                && self.path.symlink_metadata().is_err_and(|e| e.kind() == io::ErrorKind::NotFound))
    }
}

/// The text of the file at `path`, links followed.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    let failed = |source| LoadError::Read {
        path: path.to_owned(),
        source,
    };
    // Before opening, because opening a device may do something; after it,
    // because the path may lead elsewhere by then.
    regular(path, path.metadata().map_err(failed)?.file_type())?;
    let file = open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    regular(path, metadata.file_type())?;
    let too_long = || LoadError::TooLong {
        path: path.to_owned(),
    };
    if metadata.len() > MAX_SPEC_LEN {
        return Err(too_long());
    }
    let mut text = Vec::new();
    file.take(MAX_SPEC_LEN + 1)
        .read_to_end(&mut text)
        .map_err(failed)?;
    if text.len() as u64 > MAX_SPEC_LEN {
        return Err(too_long());
    }
    Ok(text)
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        // A pipe that has replaced the file would wait for its writer.
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)
}

fn regular(path: &Path, found: FileType) -> Result<(), LoadError> {
    if found.is_file() {
        return Ok(());
    }
    Err(LoadError::NotAFile {
        path: path.to_owned(),
        kind: FileKind::of(found),
    })
}

// === impl LoadError ===

impl LoadError {
    /// The file.
    pub fn path(&self) -> &Path {
        match self {
            Self::Read { path, .. }
            | Self::NotAFile { path, .. }
            | Self::TooLong { path }
            | Self::Invalid { path, .. } => path,
        }
    }

    /// The field of an invalid spec that is wrong, by its path in JSON, as in
    /// [`SpecError::field`].
    pub fn field(&self) -> Option<&str> {
        self.spec_error().and_then(SpecError::field)
    }

    /// Line and column, from 1, at which an invalid spec is wrong, as in
    /// [`SpecError::position`].
    pub fn position(&self) -> Option<(usize, usize)> {
        self.spec_error().and_then(SpecError::position)
    }

    /// A stable word for events and metrics.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Read { .. } => "cdi-spec-unreadable",
            Self::NotAFile { .. } => "cdi-spec-not-a-file",
            Self::TooLong { .. } => "cdi-spec-too-long",
            Self::Invalid { source, .. } => source.code(),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "remove the link, or restore what it leads to"
            }
            Self::Read { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "give the file mode 0644 and its directory 0755, or read it as root"
            }
            Self::Read { source, .. }
                if source.raw_os_error() == Some(nix::errno::Errno::ELOOP as i32) =>
            {
                "remove the link, which leads back to itself"
            }
            Self::Read { .. } => "see to the file system that holds the file",
            Self::NotAFile { .. } => "keep only spec files under names that end in .json or .yaml",
            Self::TooLong { .. } => "split the spec into files of fewer devices",
            Self::Invalid { source, .. } => source.hint(),
        }
    }

    fn spec_error(&self) -> Option<&SpecError> {
        match self {
            Self::Invalid { source, .. } => Some(source),
            Self::Read { .. } | Self::NotAFile { .. } | Self::TooLong { .. } => None,
        }
    }
}

// === impl FileKind ===

impl FileKind {
    fn of(found: FileType) -> Self {
        if found.is_dir() {
            Self::Directory
        } else if found.is_fifo() {
            Self::NamedPipe
        } else if found.is_socket() {
            Self::Socket
        } else if found.is_char_device() {
            Self::CharDevice
        } else if found.is_block_device() {
            Self::BlockDevice
        } else {
            Self::Unknown
        }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Directory => "directory",
            Self::NamedPipe => "named pipe",
            Self::Socket => "socket",
            Self::CharDevice => "character device",
            Self::BlockDevice => "block device",
            Self::Unknown => "thing of unknown type",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use nix::sys::stat::Mode;

    use super::*;

    /// As when the pipe takes the file's place after the file was looked at.
    #[test]
    fn opening_a_named_pipe_waits_for_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap();
        let (opened, when_opened) = mpsc::channel();
        std::thread::spawn(move || opened.send(open(&path).map(drop)));
        let opened = when_opened.recv_timeout(Duration::from_secs(10));
        opened.unwrap().unwrap();
    }
}
