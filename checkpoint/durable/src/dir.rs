use std::any::Any;
use std::fmt;
use std::time::Duration;

use crate::Error;
use crate::os::OsVersion;

/// One flat directory whose changes are durable when the call returns.
///
/// Two implementations: [`OsDir`](crate::OsDir) on a disk and
/// `SimDir` (feature `sim`) in memory with faults and crashes. Sealed: there
/// are no others, since only these can make a [`Version`] or a [`Lock`].
///
/// Names are single path components. An empty name, `.`, `..`, a name with `/`
/// or NUL or of more than 255 bytes, and a name that a leftover temporary could
/// have are refused with [`Error::InvalidName`]. Where something else than a
/// file is in the way, calls fail with [`Error::NotAFile`].
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
    /// The content of `name`; `None` when there is no such file.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.read_version(name)?.map(|(bytes, _)| bytes))
    }

    /// Like [`read`](Self::read), with what [`is_current`](Self::is_current)
    /// needs to notice a later change.
    fn read_version(&self, name: &str) -> Result<Option<(Vec<u8>, Version)>, Error>;

    /// Puts `bytes` under `name`, whether or not the file exists.
    ///
    /// `mode` holds exactly these permission bits (0o600), whatever the umask.
    fn replace(&self, name: &str, bytes: &[u8], mode: u32) -> Result<Version, Error>;

    /// Has `name` hold `bytes` with `mode`: as [`replace`](Self::replace), unless
    /// it does already; then only makes durable that it does. Tells whether it was
    /// replaced.
    fn ensure(&self, name: &str, bytes: &[u8], mode: u32) -> Result<bool, Error>;

    /// Removes `name`. An absent file is success: calls may be repeated.
    fn remove(&self, name: &str) -> Result<(), Error>;

    /// Gives the file another name. A file already there is replaced: whoever
    /// must not lose one chooses a free name under a [`lock`](Self::lock).
    ///
    /// Unlike that of a remove, a repetition fails: an absent `from` is an
    /// [`Error::Io`] with the code `file-missing`.
    fn rename(&self, from: &str, to: &str) -> Result<(), Error>;

    /// The names of everything in the directory, sorted, without leftovers of
    /// interrupted replaces.
    fn list(&self) -> Result<Vec<String>, Error>;

    /// Whether `name` still holds what `version` was taken from. `false` when
    /// it was replaced, changed in place or removed, by whomever.
    fn is_current(&self, name: &str, version: &Version) -> Result<bool, Error>;

    /// Makes durable what other processes did to the directory: whoever acts
    /// on a file just read may need that it stays.
    fn sync(&self) -> Result<(), Error>;

    /// Takes an exclusive advisory lock (`flock`) on `name`, creating the empty
    /// file if needed; it is never removed. Waits up to `timeout`, since the
    /// holder may be another process, then fails with [`Error::LockTimeout`].
    ///
    /// Not fair and not reentrant: a second call in the same thread waits too.
    fn lock(&self, name: &str, timeout: Duration) -> Result<Lock, Error>;
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// Which content of a file was seen. See [`Dir::is_current`].
///
/// On disk it keeps the file open, so that the inode number cannot be given to
/// a successor; drop it when the content no longer matters.
pub struct Version(pub(crate) VersionKind);

pub(crate) enum VersionKind {
    Os(OsVersion),
    #[cfg(feature = "sim")]
    Sim(crate::sim::SimVersion),
}

/// A held lock; dropping it releases the lock, and so does the death of the
/// process.
#[must_use = "the lock is released when this is dropped"]
pub struct Lock {
    _held: Box<dyn Any + Send + Sync>,
}

// === impl Version ===

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            VersionKind::Os(version) => version.fmt(f),
            #[cfg(feature = "sim")]
            VersionKind::Sim(version) => version.fmt(f),
        }
    }
}

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
