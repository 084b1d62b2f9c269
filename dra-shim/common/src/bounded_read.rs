//! Reads files of untrusted length and type.

use std::fmt;
use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Why [`read_bounded`] did not read a file.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be opened or read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The path, or the target of the link there, is not a regular file. Nothing was read.
    #[error("it is a {0}, not a file")]
    NotAFile(FileKind),
    /// The file is longer than the limit.
    #[error("it is longer than {0} bytes")]
    TooLong(u64),
}

/// The type of a file that is not regular.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants' names are self-explanatory")]
pub enum FileKind {
    Directory,
    NamedPipe,
    Socket,
    CharDevice,
    BlockDevice,
    Unknown,
}

/// Reads the regular file `path` if it has at most `limit` bytes. Follows links.
///
/// Never blocks, whatever the path leads to.
// req: CDI-19
pub fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
    // Check before opening, because opening a device can have effects, and after it,
    // because the path may have been replaced in between.
    check_regular(path.metadata()?.file_type())?;
    let file = open(path)?;
    let metadata = file.metadata()?;
    check_regular(metadata.file_type())?;
    if metadata.len() > limit {
        return Err(ReadError::TooLong(limit));
    }
    read_to_limit(file, limit)
}

/// Reads one byte beyond the limit to detect a file that is too long: files of /proc have
/// a length of 0, and others may grow while they are read.
fn read_to_limit(file: impl Read, limit: u64) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(ReadError::TooLong(limit));
    }
    Ok(bytes)
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        // Without it, opening a pipe in place of the file would wait for a writer.
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
}

fn check_regular(found: FileType) -> Result<(), ReadError> {
    if found.is_file() {
        Ok(())
    } else {
        Err(ReadError::NotAFile(FileKind::from_file_type(found)))
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
            Self::Unknown => "file of unknown type",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// The result of `read` for a named pipe without a writer; fails if it blocks.
    fn with_pipe<T: Send + 'static>(read: impl FnOnce(&Path) -> T + Send + 'static) -> T {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let (done, when_done) = mpsc::channel();
        std::thread::spawn(move || done.send(read(&path)));
        when_done.recv_timeout(Duration::from_secs(10)).unwrap()
    }

    /// The case that a pipe replaces the file after its type was checked.
    #[test]
    fn opening_a_named_pipe_does_not_block() {
        with_pipe(|path| open(path).map(drop)).unwrap();
    }

    // req: CDI-19
    #[test]
    fn a_named_pipe_is_not_read() {
        let error = with_pipe(|path| read_bounded(path, 1)).unwrap_err();
        assert_eq!(error.to_string(), "it is a named pipe, not a file");
    }

    // req: CDI-19
    #[test]
    fn a_file_longer_than_the_limit_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "four").unwrap();
        assert_eq!(read_bounded(&path, 4).unwrap(), b"four");
        let error = read_bounded(&path, 3).unwrap_err();
        assert_eq!(error.to_string(), "it is longer than 3 bytes");
        let endless = Path::new("/proc/self/stat");
        assert!(matches!(
            read_bounded(endless, 1),
            Err(ReadError::TooLong(1))
        ));
    }

    /// An endless file that counts the bytes read.
    struct Endless(u64);

    impl Read for &mut Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0 += buffer.len() as u64;
            buffer.fill(b'7');
            Ok(buffer.len())
        }
    }

    #[test]
    fn at_most_one_byte_beyond_the_limit_is_read() {
        for limit in [0, 1, 4096, 1 << 20] {
            let mut file = Endless(0);
            let read = read_to_limit(&mut file, limit);
            assert!(matches!(read, Err(ReadError::TooLong(_))));
            assert_eq!(file.0, limit + 1);
        }
    }
}
