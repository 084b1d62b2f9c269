use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use dra_common::Advice;

/// Why a directory operation failed.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum Error {
    /// The name is not a single path component, or is reserved for temp files.
    #[error("invalid file name {name:?}: {rule}")]
    #[advice(
        code = "invalid-file-name",
        hint = "use one path component that is not reserved for temp files",
        permanent
    )]
    InvalidName {
        /// The requested name.
        name: String,
        /// The violated rule: "it is empty".
        rule: &'static str,
    },
    /// The name belongs to something other than a regular file, usually a directory.
    #[error("{} is not a regular file", path.display())]
    #[advice(
        code = "not-a-file",
        hint = "rename or remove the object at this path: only a regular file is allowed here",
        retry
    )]
    NotAFile {
        /// Its path.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("cannot {op} {}", path.display())]
    #[advice(code = io_code(*op, source), hint = io_hint(io_code(*op, source)), retry)]
    Io {
        /// The step that failed.
        op: Op,
        /// The file that the caller named, or the directory. For a temp file, the
        /// file that it was to replace.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Another holder, in this or another process, kept the lock.
    #[error("{} is still locked by another holder after {} ms", path.display(), waited.as_millis())]
    #[advice(
        code = "lock-timeout",
        hint = "find the process that holds the lock, for example with lslocks; this process itself may hold the lock",
        retry
    )]
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

/// The code of a failed system call.
fn io_code(op: Op, source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "disk-full",
        io::ErrorKind::ReadOnlyFilesystem => "read-only-filesystem",
        io::ErrorKind::PermissionDenied => "permission-denied",
        io::ErrorKind::NotADirectory if matches!(op, Op::OpenDir | Op::CreateDir) => {
            "not-a-directory"
        }
        io::ErrorKind::NotFound if op == Op::Rename => "file-missing",
        io::ErrorKind::NotFound => "directory-missing",
        _ => "io-error",
    }
}

/// The hint for a failed system call with this code.
fn io_hint(code: &str) -> &'static str {
    match code {
        "disk-full" => "free up space on the file system of this path",
        "read-only-filesystem" => "remount the file system of this path writable",
        "permission-denied" => "give this process read and write permission for this path",
        "not-a-directory" => "a part of the directory's path is a file: rename or remove that file",
        "file-missing" => "find the program that removes files from the directory",
        "directory-missing" => {
            "create the directory; if the host already has the directory, restart the container that mounts it"
        }
        _ => "check the kernel log for disk errors",
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
