use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a directory operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name is not a single path component, or is reserved for temp files.
    #[error("{name:?} cannot name a file here: {rule}")]
    InvalidName {
        /// The name that was asked for.
        name: String,
        /// What is wrong with it: "it is empty".
        rule: &'static str,
    },
    /// Something that is not a regular file, usually a directory, has the name.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// Where it is.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("cannot {op} {}", path.display())]
    Io {
        /// The step that failed.
        op: Op,
        /// The file that the caller named, or the directory. If the step was
        /// on a temp file, the file that it was for.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Another holder, in this process or another, kept the lock.
    #[error("{} was locked by another holder for {} ms", path.display(), waited.as_millis())]
    LockTimeout {
        /// The lock file.
        path: PathBuf,
        /// How long this call waited.
        waited: Duration,
    },
}

/// The step of an operation that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Op {
    /// Opening the directory.
    OpenDir,
    /// Creating the directory.
    CreateDir,
    /// Creating the temp file that is to replace a file.
    Create,
    /// Reading a file or its attributes.
    Read,
    /// Writing a file or its attributes.
    Write,
    /// Making a file's content durable.
    Sync,
    /// Making the directory's names durable.
    SyncDir,
    /// Renaming a file.
    Rename,
    /// Removing a file.
    Remove,
    /// Listing the directory.
    List,
    /// Locking a file.
    Lock,
}

/// Whether a caller should try again after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The same call fails again.
    Permanent,
    /// The same call may succeed later: once the disk, the directory or another
    /// holder of the lock allows it.
    Retry,
}

// === impl Error ===

impl Error {
    /// A stable word for metrics and events.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidName { .. } => "invalid-file-name",
            Self::NotAFile { .. } => "not-a-file",
            Self::LockTimeout { .. } => "lock-timeout",
            Self::Io { op, source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "disk-full",
                io::ErrorKind::ReadOnlyFilesystem => "read-only-filesystem",
                io::ErrorKind::PermissionDenied => "permission-denied",
                io::ErrorKind::NotADirectory if matches!(op, Op::OpenDir | Op::CreateDir) => {
                    "not-a-directory"
                }
                io::ErrorKind::NotFound if *op == Op::Rename => "file-missing",
                io::ErrorKind::NotFound => "directory-missing",
                _ => "io-error",
            },
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self.code() {
            "invalid-file-name" => "use one path component that is not reserved for temp files",
            "not-a-file" => "move what is there out of the way: a regular file belongs there",
            "lock-timeout" => {
                "find who holds the lock: another process, or a Lock that this one keeps"
            }
            "disk-full" => "free space on the file system of this path",
            "read-only-filesystem" => "remount the file system of this path writable",
            "permission-denied" => "let this process write there",
            "not-a-directory" => "move the file on the directory's path out of the way",
            "file-missing" => "see who else removes files from the directory",
            "directory-missing" => {
                "create the directory; if it exists on the host, restart the container that mounts it"
            }
            _ => "look for disk errors in the kernel log",
        }
    }

    /// Whether repeating the call can help.
    pub fn class(&self) -> Class {
        match self {
            Self::InvalidName { .. } => Class::Permanent,
            Self::NotAFile { .. } | Self::LockTimeout { .. } | Self::Io { .. } => Class::Retry,
        }
    }
}

// === impl Op ===

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenDir => "open directory",
            Self::CreateDir => "create directory",
            Self::Create => "create a temp file for",
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "fsync",
            Self::SyncDir => "fsync directory",
            Self::Rename => "rename",
            Self::Remove => "remove",
            Self::List => "list",
            Self::Lock => "lock",
        })
    }
}
