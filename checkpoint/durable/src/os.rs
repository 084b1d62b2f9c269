mod backend;
mod path;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use self::backend::OsBackend;
use self::path::{make_durable_dir, sync_parent};
use crate::dir::sealed::Sealed;
use crate::dir::{Dir, Lock, Version};
use crate::error::{Error, Op};
use crate::operations;

/// A directory on a disk.
///
/// It follows its path. If the directory was removed and created again, or replaced,
/// the next call opens the new one. Running calls and held locks keep the old one:
/// while a [`Lock`] is held, every call uses the directory of that lock.
///
/// While the path does not exist, the directory reads as empty, and creating a file
/// in it fails with `directory-missing`.
///
/// In a container the path is often a bind mount. If its source is removed on the
/// host, the mount keeps pointing at the removed directory until the container
/// restarts. A mount of the parent directory does not have this problem.
#[derive(Debug)]
pub struct OsDir {
    path: PathBuf,
    current: Mutex<Arc<OsBackend>>,
}

// === impl OsDir ===

impl OsDir {
    /// Opens an existing directory and removes the temp files of dead processes.
    /// Those of live processes stay.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        // The working directory may change before the path is used again.
        let path = std::path::absolute(&path).unwrap_or(path);
        let current = Mutex::new(Arc::new(OsBackend::open(&path)?));
        Ok(Self { path, current })
    }

    /// Like [`open`](Self::open), but first creates the directory and its missing
    /// parents with `mode` less the umask. An existing directory keeps its mode.
    pub fn create(path: impl Into<PathBuf>, mode: u32) -> Result<Self, Error> {
        let path = path.into();
        make_durable_dir(&path, mode).map_err(|source| Error::Io {
            op: Op::CreateDir,
            path: path.clone(),
            source,
        })?;
        Self::open(path)
    }

    /// The path that it was opened with, made absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory to use for one call.
    fn backend(&self) -> Result<Arc<OsBackend>, Error> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        // A held lock keeps the old directory in use: it does not lock the new one.
        let in_use = Arc::strong_count(&current) > 1;
        if !in_use && current.is_replaced() {
            *current = Arc::new(reopen(&self.path)?);
        }
        Ok(Arc::clone(&current))
    }
}

impl Sealed for OsDir {}

impl Dir for OsDir {
    fn read_version(&self, name: &str) -> Result<Option<(Vec<u8>, Version)>, Error> {
        operations::read(&*self.backend()?, name)
    }

    fn replace(&self, name: &str, bytes: &[u8], mode: u32) -> Result<Version, Error> {
        operations::replace(&*self.backend()?, name, bytes, mode)
    }

    fn ensure(&self, name: &str, bytes: &[u8], mode: u32) -> Result<bool, Error> {
        operations::ensure(&*self.backend()?, name, bytes, mode)
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        operations::remove(&*self.backend()?, name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        operations::rename(&*self.backend()?, from, to)
    }

    fn list(&self) -> Result<Vec<String>, Error> {
        operations::list(&*self.backend()?)
    }

    fn is_current(&self, name: &str, version: &Version) -> Result<bool, Error> {
        operations::is_current(&*self.backend()?, name, version)
    }

    fn sync(&self) -> Result<(), Error> {
        operations::sync(&*self.backend()?)
    }

    fn lock(&self, name: &str, timeout: Duration) -> Result<Lock, Error> {
        let backend = self.backend()?;
        let lock = operations::lock(&*backend, name, timeout)?;
        Ok(Lock::new((lock, backend)))
    }
}

/// Opens the directory that replaced another one.
fn reopen(path: &Path) -> Result<OsBackend, Error> {
    let backend = OsBackend::open(path)?;
    // Its creator may not have made its name durable.
    sync_parent(path).map_err(|source| Error::Io {
        op: Op::SyncDir,
        path: path.parent().unwrap_or(path).to_owned(),
        source,
    })?;
    Ok(backend)
}
