//! Reading a file whose length and type cannot be trusted.

use std::fmt;
use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;

/// Why a file was not read.
#[derive(Debug)]
pub(crate) enum ReadError {
    Io(io::Error),
    /// The path, or the target of the link there, is not a regular file. Nothing
    /// was read.
    NotAFile(FileKind),
    TooLong,
}

/// What is at a path instead of a regular file.
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

/// The content of the regular file `path`, links followed, if it has at most
/// `limit` bytes. Never blocks, whatever is at the path.
// req: CDI-19
pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
    // Before opening, because opening a device can have effects; and after it,
    // because the path may have been replaced meanwhile.
    check_regular(path.metadata()?.file_type())?;
    let file = open(path)?;
    let metadata = file.metadata()?;
    check_regular(metadata.file_type())?;
    if metadata.len() > limit {
        return Err(ReadError::TooLong);
    }
    read_to_limit(file, limit)
}

/// Files of /proc have a length of 0, and others grow while they are read, so a file
/// that is too long is known by the one byte that is read beyond the limit.
fn read_to_limit(file: impl Read, limit: u64) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(ReadError::TooLong);
    }
    Ok(bytes)
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        // Opening a pipe that has replaced the file would wait for a writer.
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)
}

fn check_regular(found: FileType) -> Result<(), ReadError> {
    if found.is_file() {
        Ok(())
    } else {
        Err(ReadError::NotAFile(FileKind::from_file_type(found)))
    }
}

// === impl ReadError ===

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

// === impl FileKind ===

impl FileKind {
    fn from_file_type(found: FileType) -> Self {
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

    /// The result of `read` for a named pipe without a writer; fails if it blocks.
    fn with_pipe<T: Send + 'static>(read: impl FnOnce(&Path) -> T + Send + 'static) -> T {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap();
        let (done, when_done) = mpsc::channel();
        std::thread::spawn(move || done.send(read(&path)));
        when_done.recv_timeout(Duration::from_secs(10)).unwrap()
    }

    /// As when a pipe replaces the file after its type was checked.
    #[test]
    fn opening_a_named_pipe_does_not_block() {
        with_pipe(|path| open(path).map(drop)).unwrap();
    }

    #[test]
    fn files_of_the_kernel_and_the_driver_are_not_read_from_a_pipe() {
        let read = with_pipe(|path| read(path, 1));
        assert!(
            matches!(read, Err(ReadError::NotAFile(FileKind::NamedPipe))),
            "{read:?}"
        );
        let major = with_pipe(|path| crate::read_channel_major(path)).unwrap_err();
        assert_eq!(major.code(), "device-list-malformed");
        assert!(
            major
                .to_string()
                .ends_with("/pipe is a named pipe, not a file")
        );
        let params = with_pipe(|path| crate::DriverParams::read(path)).unwrap_err();
        assert_eq!(params.code(), "driver-file-malformed");
        assert!(
            params
                .to_string()
                .ends_with("/pipe is a named pipe, not a file")
        );
        let capability = with_pipe(|path| crate::Capability::read(path)).unwrap_err();
        assert_eq!(capability.code(), "driver-file-malformed");
    }

    #[test]
    fn a_file_longer_than_the_limit_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "four").unwrap();
        assert_eq!(read(&path, 4).unwrap(), b"four");
        assert!(matches!(read(&path, 3), Err(ReadError::TooLong)));
        let endless = Path::new("/proc/self/stat");
        assert!(matches!(read(endless, 1), Err(ReadError::TooLong)));
    }

    /// Has no end, and counts what was taken of it.
    struct Endless(u64);

    impl Read for &mut Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0 += buffer.len() as u64;
            buffer.fill(b'7');
            Ok(buffer.len())
        }
    }

    #[test]
    fn one_byte_beyond_the_limit_is_the_last_that_is_read() {
        for limit in [0, 1, 4096, 1 << 20] {
            let mut file = Endless(0);
            let read = read_to_limit(&mut file, limit);
            assert!(matches!(read, Err(ReadError::TooLong)));
            assert_eq!(file.0, limit + 1);
        }
    }
}
