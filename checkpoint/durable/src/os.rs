mod steps;

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{self, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use self::steps::OsSteps;
pub(crate) use self::steps::OsVersion;
use crate::dir::sealed::Sealed;
use crate::dir::{Dir, Lock, Version};
use crate::sequence;
use crate::{Error, Op};

/// A directory on a disk.
///
/// It follows its path. If someone removes the directory and creates it anew,
/// or puts another in its place, the next call happens in the new one, as if it
/// had been opened then. Calls under way and locks held keep the old one: all
/// that happens under one [`Lock`] happens in the directory of that lock.
///
/// As long as nothing has the path, a removed directory is an empty one, and
/// creating a file in it fails as `directory-missing`.
///
/// In a container the path is often a bind mount of its own. If its source is
/// removed on the host, the mount goes on leading to the removed directory
/// until the container is restarted; a mount of the parent follows.
#[derive(Debug)]
pub struct OsDir {
    path: PathBuf,
    current: Mutex<Arc<OsSteps>>,
}

// === impl OsDir ===

impl OsDir {
    /// Opens an existing directory and removes what died processes left of
    /// their replaces. Temporaries of live processes are left alone.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        // The working directory may change before the path is looked at again.
        let path = path::absolute(&path).unwrap_or(path);
        let current = Mutex::new(Arc::new(OsSteps::open(&path)?));
        Ok(Self { path, current })
    }

    /// Like [`open`](Self::open), after creating the directory and its parents
    /// where they are missing, with `mode` less the umask. An existing
    /// directory keeps its mode.
    pub fn create(path: impl Into<PathBuf>, mode: u32) -> Result<Self, Error> {
        let path = path.into();
        make_durable_dir(&path, mode).map_err(|source| Error::Io {
            op: Op::CreateDir,
            path: path.clone(),
            source,
        })?;
        Self::open(path)
    }

    /// The path that it was opened with, made absolute then.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory of one call.
    fn steps(&self) -> Result<Arc<OsSteps>, Error> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        // A lock in the old directory, which holds it, excludes nobody in the new one.
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
        sequence::read(&*self.steps()?, name)
    }

    fn replace(&self, name: &str, bytes: &[u8], mode: u32) -> Result<Version, Error> {
        sequence::replace(&*self.steps()?, name, bytes, mode)
    }

    fn ensure(&self, name: &str, bytes: &[u8], mode: u32) -> Result<bool, Error> {
        sequence::ensure(&*self.steps()?, name, bytes, mode)
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        sequence::remove(&*self.steps()?, name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        sequence::rename(&*self.steps()?, from, to)
    }

    fn list(&self) -> Result<Vec<String>, Error> {
        sequence::list(&*self.steps()?)
    }

    fn is_current(&self, name: &str, version: &Version) -> Result<bool, Error> {
        sequence::is_current(&*self.steps()?, name, version)
    }

    fn sync(&self) -> Result<(), Error> {
        sequence::sync(&*self.steps()?)
    }

    fn lock(&self, name: &str, timeout: Duration) -> Result<Lock, Error> {
        let steps = self.steps()?;
        let lock = sequence::lock(&*steps, name, timeout)?;
        Ok(Lock::new((lock, steps)))
    }
}

/// Opens the directory that has taken another's place.
fn reopen(path: &Path) -> Result<OsSteps, Error> {
    let steps = OsSteps::open(path)?;
    // Whoever created it need not have made its name durable.
    sync_parent(path).map_err(|source| Error::Io {
        op: Op::SyncDir,
        path: path.parent().unwrap_or(path).to_owned(),
        source,
    })?;
    Ok(steps)
}

fn open_dir(path: &Path) -> io::Result<File> {
    let dir = File::open(path)?;
    if dir.metadata()?.is_dir() {
        Ok(dir)
    } else {
        Err(io::ErrorKind::NotADirectory.into())
    }
}

/// Creates what is missing of `path` and makes the new names durable. The last
/// name is synced even if it was there: a predecessor may have died before.
fn make_durable_dir(path: &Path, mode: u32) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|p| !is_dir(p)).collect();
    for dir in missing.iter().rev() {
        match DirBuilder::new().mode(mode).create(dir) {
            Err(err) if err.kind() != io::ErrorKind::AlreadyExists => return Err(err),
            _ => sync_parent(dir)?,
        }
    }
    if missing.is_empty() {
        sync_parent(path)
    } else {
        Ok(())
    }
}

fn is_dir(path: &Path) -> bool {
    path.as_os_str().is_empty() || fs::metadata(path).is_ok_and(|meta| meta.is_dir())
}

fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        None => Ok(()),
        Some(parent) if parent.as_os_str().is_empty() => open_dir(Path::new("."))?.sync_all(),
        Some(parent) => open_dir(parent)?.sync_all(),
    }
}
