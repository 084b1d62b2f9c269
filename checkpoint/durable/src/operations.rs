//! The operations of a directory, each a fixed sequence of backend calls, for the
//! real and the simulated directory.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::dir::{Lock, Version};
use crate::error::{Error, Op};
use crate::name;

/// The single calls of an operation. Each may fail, and the process may die after
/// each.
///
/// Names have been checked. Threads may call concurrently.
pub(crate) trait Backend {
    /// A file being written.
    type File;

    /// Creates `name`, which must not exist. Marks it as in use until the file is
    /// closed or dropped, so that [`Self::remove_stale_temp`] of another process
    /// does not remove it.
    fn create(&self, name: &str, mode: u32) -> io::Result<Self::File>;
    fn write(&self, file: &mut Self::File, bytes: &[u8]) -> io::Result<()>;
    fn sync_file(&self, file: &Self::File) -> io::Result<()>;
    /// Ends the writing of a file that has its final name.
    fn close(&self, file: Self::File) -> io::Result<Version>;
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Removes a temp file unless it is in use.
    fn remove_stale_temp(&self, name: &str) -> io::Result<()>;
    fn sync_dir(&self) -> io::Result<()>;
    fn read(&self, name: &str) -> io::Result<Content>;
    /// Compares the file with a content and a mode, reading as little as possible.
    fn compare(&self, name: &str, bytes: &[u8], mode: u32) -> io::Result<Comparison>;
    fn list(&self) -> io::Result<Vec<String>>;
    fn is_current(&self, name: &str, version: &Version) -> io::Result<bool>;
    /// `None` if another holder has the lock.
    fn try_lock(&self, name: &str) -> io::Result<Option<Lock>>;
    /// For messages: the path of `name`, or of the directory if it is empty.
    fn path(&self, name: &str) -> PathBuf;
}

/// The entry with a name.
pub(crate) enum Content {
    File(Vec<u8>, Version),
    NotAFile,
}

/// The result of comparing a file with a content and a mode.
pub(crate) enum Comparison {
    Same,
    Different,
    NotAFile,
}

/// The limit of retries. Exclusive creation only collides with leftovers of the same
/// process id, so more collisions mean another fault.
const CREATE_ATTEMPTS: usize = 64;

/// The bits of an `st_mode` that are a file's mode; the others are its type.
const MODE_BITS: u32 = 0o7777;

/// Mode of a new lock file, before the umask.
pub(crate) const LOCK_MODE: u32 = 0o644;
/// First pause while a lock is held; doubled up to [`LOCK_POLL_MAX`]. A commit takes
/// a few milliseconds; Go's plugin polls every 100 ms.
const LOCK_POLL_MIN: Duration = Duration::from_millis(1);
const LOCK_POLL_MAX: Duration = Duration::from_millis(32);

// req: CKPT-6
pub(crate) fn replace<B: Backend>(
    backend: &B,
    name: &str,
    bytes: &[u8],
    mode: u32,
) -> Result<Version, Error> {
    let file = write_and_rename(backend, name, bytes, mode & MODE_BITS)?;
    let version = backend
        .close(file)
        .map_err(|e| io_error(backend, Op::Read, name, e))?;
    sync(backend)?;
    Ok(version)
}

/// See [`Dir::ensure`](crate::Dir::ensure). Skips the `fstat` of [`replace`], which
/// is for the version: on a tmpfs each system call counts.
pub(crate) fn ensure<B: Backend>(
    backend: &B,
    name: &str,
    bytes: &[u8],
    mode: u32,
) -> Result<bool, Error> {
    name::check(name)?;
    let mode = mode & MODE_BITS;
    let is_same = match backend.compare(name, bytes, mode) {
        Ok(Comparison::Same) => true,
        Ok(Comparison::Different) => false,
        Ok(Comparison::NotAFile) => {
            return Err(Error::NotAFile {
                path: backend.path(name),
            });
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => false,
        Err(e) => return Err(io_error(backend, Op::Read, name, e)),
    };
    if !is_same {
        drop(write_and_rename(backend, name, bytes, mode)?);
    }
    // Also if nothing was written: the file's writer may have died before its fsync
    // of the directory.
    sync(backend)?;
    Ok(!is_same)
}

/// A replace without the final fsync of the directory.
fn write_and_rename<B: Backend>(
    backend: &B,
    name: &str,
    bytes: &[u8],
    mode: u32,
) -> Result<B::File, Error> {
    name::check(name)?;
    let (temp, mut file) = create_temp(backend, name, mode)?;
    fill_and_rename(backend, &temp, &mut file, bytes, name).inspect_err(|_| {
        // If this fails, the next open removes the temp file.
        let _ = backend.remove(&temp);
    })?;
    Ok(file)
}

/// Syncs the content before the rename: a rename that is durable before its content
/// would leave an empty file. Errors name the file, because callers do not know the
/// temp file.
fn fill_and_rename<B: Backend>(
    backend: &B,
    temp: &str,
    file: &mut B::File,
    bytes: &[u8],
    name: &str,
) -> Result<(), Error> {
    backend
        .write(file, bytes)
        .map_err(|e| io_error(backend, Op::Write, name, e))?;
    backend
        .sync_file(file)
        .map_err(|e| io_error(backend, Op::Sync, name, e))?;
    backend
        .rename(temp, name)
        .map_err(|e| io_error(backend, Op::Rename, name, e))
}

fn create_temp<B: Backend>(backend: &B, name: &str, mode: u32) -> Result<(String, B::File), Error> {
    let mut attempt = 0;
    loop {
        let temp = name::next_temp();
        attempt += 1;
        match backend.create(&temp, mode) {
            Ok(file) => return Ok((temp, file)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && attempt < CREATE_ATTEMPTS => {}
            Err(e) => return Err(io_error(backend, Op::Create, name, e)),
        }
    }
}

pub(crate) fn remove<B: Backend>(backend: &B, name: &str) -> Result<(), Error> {
    name::check(name)?;
    match backend.remove(name) {
        Ok(()) => {}
        // Its absence may not be durable: another process may have died between its
        // unlink and its fsync of the directory.
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(io_error(backend, Op::Remove, name, e)),
    }
    sync(backend)
}

pub(crate) fn rename<B: Backend>(backend: &B, from: &str, to: &str) -> Result<(), Error> {
    name::check(from)?;
    name::check(to)?;
    backend.rename(from, to).map_err(|e| match e.kind() {
        io::ErrorKind::IsADirectory => io_error(backend, Op::Rename, to, e),
        _ => io_error(backend, Op::Rename, from, e),
    })?;
    sync(backend)
}

pub(crate) fn read<B: Backend>(
    backend: &B,
    name: &str,
) -> Result<Option<(Vec<u8>, Version)>, Error> {
    name::check(name)?;
    match backend.read(name) {
        Ok(Content::File(bytes, version)) => Ok(Some((bytes, version))),
        Ok(Content::NotAFile) => Err(Error::NotAFile {
            path: backend.path(name),
        }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(io_error(backend, Op::Read, name, e)),
    }
}

pub(crate) fn is_current<B: Backend>(
    backend: &B,
    name: &str,
    version: &Version,
) -> Result<bool, Error> {
    name::check(name)?;
    backend
        .is_current(name, version)
        .map_err(|e| io_error(backend, Op::Read, name, e))
}

pub(crate) fn list<B: Backend>(backend: &B) -> Result<Vec<String>, Error> {
    let mut names = backend
        .list()
        .map_err(|e| io_error(backend, Op::List, "", e))?;
    names.retain(|name| !name::is_temp_file(name));
    names.sort_unstable();
    Ok(names)
}

/// Removes the temp files of dead processes. Files that cannot be removed stay until
/// the next open; no reader sees them.
pub(crate) fn sweep<B: Backend>(backend: &B) -> Result<(), Error> {
    let names = backend
        .list()
        .map_err(|e| io_error(backend, Op::List, "", e))?;
    for name in names.iter().filter(|name| name::is_temp_file(name)) {
        let _ = backend.remove_stale_temp(name);
    }
    Ok(())
}

pub(crate) fn sync<B: Backend>(backend: &B) -> Result<(), Error> {
    backend
        .sync_dir()
        .map_err(|e| io_error(backend, Op::SyncDir, "", e))
}

pub(crate) fn lock<B: Backend>(backend: &B, name: &str, timeout: Duration) -> Result<Lock, Error> {
    name::check(name)?;
    let started = Instant::now();
    let mut pause = LOCK_POLL_MIN;
    loop {
        match backend.try_lock(name) {
            Ok(Some(lock)) => return Ok(lock),
            Ok(None) => {}
            Err(e) => return Err(io_error(backend, Op::Lock, name, e)),
        }
        let waited = started.elapsed();
        let remaining = timeout.checked_sub(waited);
        let Some(remaining) = remaining.filter(|time| !time.is_zero()) else {
            return Err(Error::LockTimeout {
                path: backend.path(name),
                waited,
            });
        };
        std::thread::sleep(pause.min(remaining));
        pause = (pause * 2).min(LOCK_POLL_MAX);
    }
}

fn io_error<B: Backend>(backend: &B, op: Op, name: &str, source: io::Error) -> Error {
    let path = backend.path(name);
    match source.kind() {
        io::ErrorKind::IsADirectory => Error::NotAFile { path },
        _ => Error::Io { op, path, source },
    }
}
