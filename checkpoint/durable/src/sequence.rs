//! The order of steps, for the real and the simulated directory alike.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::dir::{Lock, Version};
use crate::{Error, Op, name};

/// The single steps that a directory can do; each may fail, and after each the
/// process may be gone.
pub(crate) trait Steps {
    /// A file being written.
    type File;

    /// Creates `name`, which must not exist, and marks it as in use until the
    /// file is published or dropped, so that [`Self::remove_leftover`] of
    /// another process lets it be.
    fn create(&self, name: &str, mode: u32) -> io::Result<Self::File>;
    fn write(&self, file: &mut Self::File, bytes: &[u8]) -> io::Result<()>;
    fn sync_file(&self, file: &Self::File) -> io::Result<()>;
    /// Closes a file that has got its final name.
    fn publish(&self, file: Self::File) -> io::Result<Version>;
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Removes a temporary unless it is in use.
    fn remove_leftover(&self, name: &str) -> io::Result<()>;
    fn sync_dir(&self) -> io::Result<()>;
    fn read(&self, name: &str) -> io::Result<Content>;
    /// Whether `name` has this content and mode, at no more cost than it takes to
    /// know.
    fn compare(&self, name: &str, bytes: &[u8], mode: u32) -> io::Result<Comparison>;
    fn list(&self) -> io::Result<Vec<String>>;
    fn is_current(&self, name: &str, version: &Version) -> io::Result<bool>;
    /// `None` when someone else holds it.
    fn try_lock(&self, name: &str) -> io::Result<Option<Lock>>;
    /// For messages: the path of `name`, or of the directory if it is empty.
    fn path(&self, name: &str) -> PathBuf;
}

/// What a name leads to.
pub(crate) enum Content {
    File(Vec<u8>, Version),
    NotAFile,
}

/// How what a name leads to compares with a content and a mode.
pub(crate) enum Comparison {
    Same,
    Other,
    NotAFile,
}

/// Exclusive creation collides only with a leftover of the same process id;
/// more collisions than this are a fault of their own.
const CREATE_ATTEMPTS: usize = 64;

pub(crate) fn replace<S: Steps>(
    steps: &S,
    name: &str,
    bytes: &[u8],
    mode: u32,
) -> Result<Version, Error> {
    let file = put(steps, name, bytes, mode)?;
    let version = steps
        .publish(file)
        .map_err(|e| io_error(steps, Op::Read, name, e))?;
    sync(steps)?;
    Ok(version)
}

/// See [`Dir::ensure`](crate::Dir::ensure). Who needs no version is not made to
/// wait for one: on a tmpfs each system call counts.
pub(crate) fn ensure<S: Steps>(
    steps: &S,
    name: &str,
    bytes: &[u8],
    mode: u32,
) -> Result<bool, Error> {
    name::check(name)?;
    let is_same = match steps.compare(name, bytes, mode) {
        Ok(Comparison::Same) => true,
        Ok(Comparison::Other) => false,
        Ok(Comparison::NotAFile) => {
            return Err(Error::NotAFile {
                path: steps.path(name),
            });
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => false,
        Err(e) => return Err(io_error(steps, Op::Read, name, e)),
    };
    if !is_same {
        drop(put(steps, name, bytes, mode)?);
    }
    // Also of what was there: whoever wrote it may have died before this.
    sync(steps)?;
    Ok(!is_same)
}

/// All of a replace but that the new name is durable.
fn put<S: Steps>(steps: &S, name: &str, bytes: &[u8], mode: u32) -> Result<S::File, Error> {
    name::check(name)?;
    let (temp, file) = create_temporary(steps, name, mode)?;
    fill(steps, &temp, file, bytes, name).inspect_err(|_| {
        // What remains after a failure here is swept at the next open.
        let _ = steps.remove(&temp);
    })
}

/// Content first, then the name: a rename that outlives its content would
/// leave an empty file. Errors name the file, the temporary is nobody's concern.
fn fill<S: Steps>(
    steps: &S,
    temp: &str,
    mut file: S::File,
    bytes: &[u8],
    name: &str,
) -> Result<S::File, Error> {
    steps
        .write(&mut file, bytes)
        .map_err(|e| io_error(steps, Op::Write, name, e))?;
    steps
        .sync_file(&file)
        .map_err(|e| io_error(steps, Op::Sync, name, e))?;
    steps
        .rename(temp, name)
        .map_err(|e| io_error(steps, Op::Rename, name, e))?;
    Ok(file)
}

fn create_temporary<S: Steps>(
    steps: &S,
    name: &str,
    mode: u32,
) -> Result<(String, S::File), Error> {
    let mut attempt = 0;
    loop {
        let temp = name::temporary();
        attempt += 1;
        match steps.create(&temp, mode) {
            Ok(file) => return Ok((temp, file)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && attempt < CREATE_ATTEMPTS => {}
            Err(e) => return Err(io_error(steps, Op::Create, name, e)),
        }
    }
}

pub(crate) fn remove<S: Steps>(steps: &S, name: &str) -> Result<(), Error> {
    name::check(name)?;
    match steps.remove(name) {
        Ok(()) => {}
        // Absent, but perhaps only just: a predecessor may have died between
        // its unlink and its fsync of the directory.
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(io_error(steps, Op::Remove, name, e)),
    }
    sync(steps)
}

pub(crate) fn rename<S: Steps>(steps: &S, from: &str, to: &str) -> Result<(), Error> {
    name::check(from)?;
    name::check(to)?;
    steps.rename(from, to).map_err(|e| match e.kind() {
        io::ErrorKind::IsADirectory => io_error(steps, Op::Rename, to, e),
        _ => io_error(steps, Op::Rename, from, e),
    })?;
    sync(steps)
}

pub(crate) fn read<S: Steps>(steps: &S, name: &str) -> Result<Option<(Vec<u8>, Version)>, Error> {
    name::check(name)?;
    match steps.read(name) {
        Ok(Content::File(bytes, version)) => Ok(Some((bytes, version))),
        Ok(Content::NotAFile) => Err(Error::NotAFile {
            path: steps.path(name),
        }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(io_error(steps, Op::Read, name, e)),
    }
}

pub(crate) fn is_current<S: Steps>(
    steps: &S,
    name: &str,
    version: &Version,
) -> Result<bool, Error> {
    name::check(name)?;
    steps
        .is_current(name, version)
        .map_err(|e| io_error(steps, Op::Read, name, e))
}

pub(crate) fn list<S: Steps>(steps: &S) -> Result<Vec<String>, Error> {
    let mut names = steps.list().map_err(|e| io_error(steps, Op::List, "", e))?;
    names.retain(|name| !name::is_leftover(name));
    names.sort_unstable();
    Ok(names)
}

/// Removes what dead processes left. What cannot be removed stays for the next
/// open: it is invisible to every reader.
pub(crate) fn sweep<S: Steps>(steps: &S) -> Result<(), Error> {
    let names = steps.list().map_err(|e| io_error(steps, Op::List, "", e))?;
    for name in names.iter().filter(|name| name::is_leftover(name)) {
        let _ = steps.remove_leftover(name);
    }
    Ok(())
}

pub(crate) fn sync<S: Steps>(steps: &S) -> Result<(), Error> {
    steps
        .sync_dir()
        .map_err(|e| io_error(steps, Op::SyncDir, "", e))
}

/// Of a lock file that is created; less the umask.
pub(crate) const LOCK_MODE: u32 = 0o644;
/// First wait of a contended lock; doubled up to [`LOCK_POLL_MAX`]. A commit
/// takes a few milliseconds; Go's plugin polls every 100.
const LOCK_POLL_MIN: Duration = Duration::from_millis(1);
const LOCK_POLL_MAX: Duration = Duration::from_millis(32);

pub(crate) fn lock<S: Steps>(steps: &S, name: &str, timeout: Duration) -> Result<Lock, Error> {
    name::check(name)?;
    let started = Instant::now();
    let mut pause = LOCK_POLL_MIN;
    loop {
        match steps.try_lock(name) {
            Ok(Some(lock)) => return Ok(lock),
            Ok(None) => {}
            Err(e) => return Err(io_error(steps, Op::Lock, name, e)),
        }
        let waited = started.elapsed();
        let Some(left) = timeout.checked_sub(waited).filter(|left| !left.is_zero()) else {
            return Err(Error::LockTimeout {
                path: steps.path(name),
                waited,
            });
        };
        std::thread::sleep(pause.min(left));
        pause = (pause * 2).min(LOCK_POLL_MAX);
    }
}

fn io_error<S: Steps>(steps: &S, op: Op, name: &str, source: io::Error) -> Error {
    let path = steps.path(name);
    match source.kind() {
        io::ErrorKind::IsADirectory => Error::NotAFile { path },
        _ => Error::Io { op, path, source },
    }
}
