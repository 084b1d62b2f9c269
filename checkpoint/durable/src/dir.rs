use std::any::Any;
use std::fmt;
use std::time::Duration;

use crate::error::Error;

/// One flat directory whose changes are durable when the call returns.
///
/// Two implementations: [`OsDir`](crate::OsDir) on a disk, and `SimDir` (feature
/// `sim`) in memory with faults and crashes. The trait is sealed, because only
/// these two can create a [`Version`] or a [`Lock`].
///
/// # For every method
///
/// Any thread and any process may call at any time. Each call blocks on the disk,
/// so an async program makes it where blocking is allowed. Calls do not exclude
/// each other: hold a [`lock`](Self::lock) from a read to the write that depends
/// on it.
///
/// Names are single path components. [`Error::InvalidName`] refuses an empty name,
/// `.`, `..`, a name with `/` or NUL, a name of more than 255 bytes, and a name
/// reserved for temp files. Calls fail with [`Error::NotAFile`] if the name belongs
/// to something other than a file, and with [`Error::Io`] if a system call fails.
///
/// # Guarantees
///
/// * A reader sees the old or the new content of a file, never a mixture, even
///   after a crash at any moment.
/// * After an error the file has its old content, or the new one if only the last
///   step failed, the fsync of the directory. Until a later call succeeds, neither
///   is sure to survive a power loss.
/// * No call retries a failed fsync on the same descriptor: the kernel may have
///   dropped the pages, and would report success.
pub trait Dir: sealed::Sealed + fmt::Debug + Send + Sync {
    /// Returns the content of `name`; `None` if there is no such file.
    ///
    /// The content may not be durable yet: the writer may be between rename and
    /// fsync. Call [`sync`](Self::sync) before acting on it.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.read_version(name)?.map(|(bytes, _)| bytes))
    }

    /// Like [`read`](Self::read), with a token with which
    /// [`is_current`](Self::is_current) detects later changes. For callers that
    /// cache the content.
    fn read_version(&self, name: &str) -> Result<Option<(Vec<u8>, Version)>, Error>;

    /// Creates or replaces the file `name` with `bytes`, and returns the token of
    /// the new content.
    ///
    /// The file gets exactly the permission bits in `mode` (0o600), with set-id and
    /// sticky bits and regardless of the umask. Other bits of an `st_mode` are
    /// ignored. Readers with the old file open keep the old content.
    fn replace(&self, name: &str, bytes: &[u8], mode: u32) -> Result<Version, Error>;

    /// Makes sure that `name` durably has the content `bytes` and the mode `mode`.
    /// Writes like [`replace`](Self::replace), but only if content or mode differ;
    /// returns whether it wrote.
    ///
    /// For files that are often written with the same content: programs that watch
    /// the directory are not woken.
    fn ensure(&self, name: &str, bytes: &[u8], mode: u32) -> Result<bool, Error>;

    /// Removes `name`. Idempotent: if the file is missing, makes its absence
    /// durable and succeeds.
    fn remove(&self, name: &str) -> Result<(), Error>;

    /// Renames a file. Replaces a file at `to`: a caller that must not lose one
    /// chooses a free name under a [`lock`](Self::lock).
    ///
    /// Not idempotent: if `from` is missing, fails with an [`Error::Io`] of code
    /// `file-missing`.
    fn rename(&self, from: &str, to: &str) -> Result<(), Error>;

    /// Returns the sorted names of all entries, without the temp files of replaces
    /// that were interrupted or are in progress.
    ///
    /// Without a lock the result may be stale on return.
    fn list(&self) -> Result<Vec<String>, Error>;

    /// Returns whether `name` still has the content of `version`: `false` after it
    /// was replaced, changed in place or removed by any process.
    ///
    /// Cheaper than another read: one `fstatat`. `version` must come from the same
    /// directory; one of another implementation is never current.
    fn is_current(&self, name: &str, version: &Version) -> Result<bool, Error>;

    /// Makes the changes of other processes to the directory durable. Call it after
    /// reading a file, before an action that relies on the content.
    fn sync(&self) -> Result<(), Error>;

    /// Takes an exclusive advisory lock (`flock`) on `name`. Creates the empty file
    /// if needed; it is never removed. Waits up to `timeout`, then fails with
    /// [`Error::LockTimeout`].
    ///
    /// Not fair and not reentrant: a second call in the same thread waits, too. The
    /// other methods ignore locks. Drop the lock right after the write, and do not
    /// hold it across calls that may hang.
    fn lock(&self, name: &str, timeout: Duration) -> Result<Lock, Error>;
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// An opaque token of a file's content, for [`Dir::is_current`].
///
/// On disk it keeps the file open, so that no later file gets the same inode
/// number. Drop it when the content no longer matters.
#[derive(Debug)]
pub struct Version(Box<dyn VersionData>);

/// The data of a [`Version`] in one implementation of [`Dir`].
trait VersionData: Any + fmt::Debug + Send + Sync {}

/// A held lock, released when it is dropped or the process dies.
#[must_use = "the lock is released when this value is dropped"]
pub struct Lock {
    _held: Box<dyn Any + Send + Sync>,
}

// === impl Version ===

impl Version {
    pub(crate) fn new(seen: impl Any + fmt::Debug + Send + Sync) -> Self {
        Self(Box::new(seen))
    }

    /// The data given to [`new`](Self::new); `None` if it has another type, that of
    /// another implementation.
    pub(crate) fn get<T: Any>(&self) -> Option<&T> {
        let seen: &dyn Any = &*self.0;
        seen.downcast_ref()
    }
}

impl<T: Any + fmt::Debug + Send + Sync> VersionData for T {}

// === impl Lock ===

impl Lock {
    /// A lock that is released when `held` is dropped.
    pub(crate) fn new(held: impl Any + Send + Sync) -> Self {
        Self {
            _held: Box::new(held),
        }
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").finish_non_exhaustive()
    }
}
