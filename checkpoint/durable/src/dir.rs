use std::any::Any;
use std::fmt;
use std::time::Duration;

use crate::error::Error;

/// One flat directory whose changes are durable when the call returns.
///
/// Two implementations: [`OsDir`](crate::OsDir) on a disk and
/// `SimDir` (feature `sim`) in memory with faults and crashes. Sealed: there
/// are no others, since only these can make a [`Version`] or a [`Lock`].
///
/// # For every method
///
/// Any thread may call at any time, and so may other processes; each call
/// blocks on the disk, so that an async program calls it where blocking is
/// allowed. Calls do not exclude each other: a caller that decides by what it
/// has read holds a [`lock`](Self::lock) from the read to the write.
///
/// Names are single path components. An empty name, `.`, `..`, a name with `/`
/// or NUL or of more than 255 bytes, and a name reserved for temp files are
/// refused with [`Error::InvalidName`]. Where something else than a file is in
/// the way, calls fail with [`Error::NotAFile`]; any failing system call is an
/// [`Error::Io`].
///
/// # Guarantees
///
/// * A reader sees the old or the new content of a file, never a mixture, also
///   after a crash at any moment.
/// * After an error the file has its old content, or (when only the last step,
///   the fsync of the directory, failed) the new one, and the caller must not
///   rely on either surviving a power loss before a later call succeeds.
/// * No call retries a failed fsync on the same descriptor: the kernel may
///   have dropped the pages and would report success.
pub trait Dir: sealed::Sealed + fmt::Debug + Send + Sync {
    /// Returns the content of `name`; `None` when there is no such file.
    ///
    /// The content need not be durable yet: its writer may be between its rename
    /// and its fsync. Call [`sync`](Self::sync) before acting on it.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.read_version(name)?.map(|(bytes, _)| bytes))
    }

    /// Like [`read`](Self::read), with the token that
    /// [`is_current`](Self::is_current) needs to notice a later change. For
    /// callers that keep the content in memory.
    fn read_version(&self, name: &str) -> Result<Option<(Vec<u8>, Version)>, Error>;

    /// Writes `bytes` to `name`, whether or not the file exists, and returns
    /// the token of what was written.
    ///
    /// The file gets exactly the permission bits in `mode` (0o600), set-id and
    /// sticky bits included, whatever the umask; other bits of an `st_mode` are
    /// ignored. Readers with the old file open keep the old content.
    fn replace(&self, name: &str, bytes: &[u8], mode: u32) -> Result<Version, Error>;

    /// Makes sure that `name` holds `bytes` with `mode`, and that this is
    /// durable. Writes, as [`replace`](Self::replace) does, only if content or
    /// mode differ; returns whether it wrote.
    ///
    /// For files that are written again and again with the same content: a
    /// program that watches the directory is not woken.
    fn ensure(&self, name: &str, bytes: &[u8], mode: u32) -> Result<bool, Error>;

    /// Removes `name`. Idempotent: a missing file is success, and makes its
    /// absence durable.
    fn remove(&self, name: &str) -> Result<(), Error>;

    /// Renames a file. A file at `to` is replaced: a caller that must not lose
    /// one chooses a free name under a [`lock`](Self::lock).
    ///
    /// Not idempotent: a missing `from` is an [`Error::Io`] with the code
    /// `file-missing`.
    fn rename(&self, from: &str, to: &str) -> Result<(), Error>;

    /// Returns the names of everything in the directory, sorted, without the
    /// temp files of replaces that were interrupted or are under way.
    ///
    /// Without a lock the answer may be outdated on return.
    fn list(&self) -> Result<Vec<String>, Error>;

    /// Returns whether `name` still holds what `version` was taken from:
    /// `false` once it was replaced, changed in place or removed, by anybody.
    ///
    /// Cheaper than reading again: one `fstatat`. `version` must come from the
    /// same directory; one of another implementation is never current.
    fn is_current(&self, name: &str, version: &Version) -> Result<bool, Error>;

    /// Makes durable what other processes did to the directory. Called after
    /// reading a file, before an action that relies on it.
    fn sync(&self) -> Result<(), Error>;

    /// Takes an exclusive advisory lock (`flock`) on `name`, creating the empty
    /// file if needed; it is never removed. Waits up to `timeout`, since the
    /// holder may be another process, then fails with [`Error::LockTimeout`].
    ///
    /// Not fair and not reentrant: a second call in the same thread waits too.
    /// The other methods do not look at locks. The caller drops the lock as soon
    /// as it has written, and holds it across nothing that may hang.
    fn lock(&self, name: &str, timeout: Duration) -> Result<Lock, Error>;
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// Which content of a file was seen: an opaque token for [`Dir::is_current`].
///
/// On disk it keeps the file open, so that the inode number cannot be given to
/// a successor; drop it when the content no longer matters.
#[derive(Debug)]
pub struct Version(Box<dyn Seen>);

/// What an implementation of [`Dir`] notes of a file.
trait Seen: Any + fmt::Debug + Send + Sync {}

/// A held lock; dropping it releases the lock, and so does the death of the
/// process.
#[must_use = "the lock is released when this is dropped"]
pub struct Lock {
    _held: Box<dyn Any + Send + Sync>,
}

// === impl Version ===

impl Version {
    pub(crate) fn new(seen: impl Any + fmt::Debug + Send + Sync) -> Self {
        Self(Box::new(seen))
    }

    /// What [`new`](Self::new) was given; `None` if that was another type, of
    /// another implementation.
    pub(crate) fn get<T: Any>(&self) -> Option<&T> {
        let seen: &dyn Any = &*self.0;
        seen.downcast_ref()
    }
}

impl<T: Any + fmt::Debug + Send + Sync> Seen for T {}

// === impl Lock ===

impl Lock {
    /// A lock that is held for as long as `held` lives.
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
