use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::dir::sealed::Sealed;
use crate::dir::{Dir, Lock, Version, VersionKind};
use crate::sequence::{self, Content, LOCK_MODE, Steps};
use crate::{Error, name};

/// A directory in memory that knows what is durable, fails on request, and can
/// be reopened as a crash would have left it.
///
/// Clones share one directory, as processes on one node do.
///
/// It runs the same order of steps as [`OsDir`](crate::OsDir). Every change to
/// the disk is a [`Step`]; [`steps`](Self::steps) tells which were done, so a
/// test can run its scenario once to count them and then once per step with
/// [`fail_step`](Self::fail_step) or [`crash_after`](Self::crash_after).
///
/// ```
/// use durable_file::{Dir, SimDir};
///
/// let dir = SimDir::new();
/// dir.fail_step(0, 28); // ENOSPC of Linux
/// assert_eq!(dir.replace("state", b"{}", 0o600).unwrap_err().code(), "disk-full");
///
/// dir.crash_after(1); // the temporary is created, and nothing else
/// dir.replace("state", b"{}", 0o600).unwrap_err();
/// assert_eq!(dir.after_kill().read("state").unwrap(), None);
/// ```
///
/// Creating the empty file of a lock is no step, and it may be lost. Everything
/// in here is a regular file: [`Error::NotAFile`] cannot be simulated, nor can
/// the directory's own removal.
#[derive(Clone, Default)]
pub struct SimDir(Arc<Mutex<Disk>>);

/// One change to the simulated disk.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// An empty temporary was created.
    Create(String),
    /// Bytes were written to a file, not yet durable.
    Write,
    /// A file's content was made durable.
    SyncFile,
    /// The first name was changed to the second.
    Rename(String, String),
    /// A name was removed.
    Remove(String),
    /// The names were made durable.
    SyncDir,
}

#[derive(Default)]
struct Disk {
    inodes: BTreeMap<Inode, File>,
    next_inode: Inode,
    /// What a process sees.
    live: BTreeMap<String, Inode>,
    /// What a power loss leaves.
    durable: BTreeMap<String, Inode>,
    locked: Vec<String>,
    steps: Vec<Step>,
    fault: Option<(usize, i32)>,
    crash: Option<usize>,
}

type Inode = u64;

#[derive(Debug, Clone, Default)]
struct File {
    live: Vec<u8>,
    /// `None`: nothing of it has reached the disk.
    durable: Option<Vec<u8>>,
    mode: u32,
}

#[derive(Debug)]
pub(crate) struct SimVersion {
    inode: Inode,
    bytes: Vec<u8>,
}

/// The error of every step after the crash: the process that would see it is
/// gone.
const CRASHED: &str = "the simulated process has crashed";

// === impl SimDir ===

impl SimDir {
    /// An empty directory.
    pub fn new() -> Self {
        Self::default()
    }

    /// The steps done so far, in order. Failed ones are not among them.
    pub fn steps(&self) -> Vec<Step> {
        self.disk().steps.clone()
    }

    /// The permission bits of a file.
    pub fn mode(&self, name: &str) -> Option<u32> {
        let disk = self.disk();
        disk.live
            .get(name)
            .and_then(|inode| disk.inodes.get(inode))
            .map(|file| file.mode)
    }

    /// Makes the step after the next `n` fail once with `errno`, undone. Stays
    /// armed until a call comes to that step; a later `fail_step` replaces it.
    pub fn fail_step(&self, n: usize, errno: i32) {
        let mut disk = self.disk();
        disk.fault = Some((disk.steps.len() + n, errno));
    }

    /// Lets the next `n` steps happen and nothing after them: every later call
    /// fails, also those that only read.
    pub fn crash_after(&self, n: usize) {
        let mut disk = self.disk();
        disk.crash = Some(disk.steps.len() + n);
    }

    /// Whether the steps before the crash point are done, so that every further
    /// call fails; true at once after `crash_after(0)`.
    pub fn has_crashed(&self) -> bool {
        let disk = self.disk();
        disk.crash.is_some_and(|limit| disk.steps.len() >= limit)
    }

    /// The directory as the next process finds it after a kill: every step
    /// counts, whether or not it is durable. This directory stays as it is.
    ///
    /// The next process starts with no steps done, no failure or crash armed,
    /// no lock held, and leftovers swept.
    #[must_use]
    pub fn after_kill(&self) -> Self {
        let disk = self.disk();
        Self::with(disk.inodes.clone(), disk.live.clone(), disk.durable.clone())
    }

    /// The directory as the next boot finds it when everything that was not
    /// synced is lost. This directory stays as it is.
    ///
    /// It starts as after [`after_kill`](Self::after_kill).
    #[must_use]
    pub fn after_power_loss(&self) -> Self {
        let disk = self.disk();
        let mut inodes = disk.inodes.clone();
        for file in inodes.values_mut() {
            file.live = file.durable.clone().unwrap_or_default();
            file.durable = Some(file.live.clone());
        }
        Self::with(inodes, disk.durable.clone(), disk.durable.clone())
    }

    fn with(
        inodes: BTreeMap<Inode, File>,
        live: BTreeMap<String, Inode>,
        durable: BTreeMap<String, Inode>,
    ) -> Self {
        let next_inode = inodes.keys().next_back().map_or(0, |last| last + 1);
        let disk = Disk {
            inodes,
            next_inode,
            live,
            durable,
            ..Disk::default()
        };
        let dir = Self(Arc::new(Mutex::new(disk)));
        dir.sweep();
        dir
    }

    /// What `OsDir::open` does; a simulated process has no live neighbour.
    fn sweep(&self) {
        self.disk().live.retain(|name, _| !name::is_leftover(name));
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        // A panic of another test thread leaves the maps whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A disk that still answers, or the crash.
    fn running(&self) -> io::Result<MutexGuard<'_, Disk>> {
        let disk = self.disk();
        if disk.crash.is_some_and(|limit| disk.steps.len() >= limit) {
            return Err(io::Error::other(CRASHED));
        }
        Ok(disk)
    }

    /// A disk that lets the next step happen, or the error it is to fail with.
    fn step(&self) -> io::Result<MutexGuard<'_, Disk>> {
        let mut disk = self.running()?;
        if let Some((at, errno)) = disk.fault
            && disk.steps.len() >= at
        {
            disk.fault = None;
            return Err(io::Error::from_raw_os_error(errno));
        }
        Ok(disk)
    }
}

impl fmt::Debug for SimDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimDir")
            .field("steps", &self.disk().steps)
            .finish_non_exhaustive()
    }
}

impl Sealed for SimDir {}

impl Dir for SimDir {
    fn read_version(&self, name: &str) -> Result<Option<(Vec<u8>, Version)>, Error> {
        sequence::read(self, name)
    }

    fn replace(&self, name: &str, bytes: &[u8], mode: u32) -> Result<Version, Error> {
        sequence::replace(self, name, bytes, mode)
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        sequence::remove(self, name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        sequence::rename(self, from, to)
    }

    fn list(&self) -> Result<Vec<String>, Error> {
        sequence::list(self)
    }

    fn is_current(&self, name: &str, version: &Version) -> Result<bool, Error> {
        sequence::is_current(self, name, version)
    }

    fn sync(&self) -> Result<(), Error> {
        sequence::sync(self)
    }

    fn lock(&self, name: &str, timeout: Duration) -> Result<Lock, Error> {
        sequence::lock(self, name, timeout)
    }
}

impl Steps for SimDir {
    type File = Inode;

    fn create(&self, name: &str, mode: u32) -> io::Result<Inode> {
        let mut disk = self.step()?;
        if disk.live.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = disk.create(name, mode);
        disk.steps.push(Step::Create(name.to_owned()));
        Ok(inode)
    }

    fn write(&self, file: &mut Inode, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.step()?;
        disk.file(*file)?.live.extend_from_slice(bytes);
        disk.steps.push(Step::Write);
        Ok(())
    }

    fn sync_file(&self, file: &Inode) -> io::Result<()> {
        let mut disk = self.step()?;
        let file = disk.file(*file)?;
        file.durable = Some(file.live.clone());
        disk.steps.push(Step::SyncFile);
        Ok(())
    }

    fn publish(&self, file: Inode) -> io::Result<Version> {
        let mut disk = self.running()?;
        let bytes = disk.file(file)?.live.clone();
        Ok(Version(VersionKind::Sim(SimVersion { inode: file, bytes })))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.step()?;
        let inode = disk.live.remove(from).ok_or(io::ErrorKind::NotFound)?;
        disk.live.insert(to.to_owned(), inode);
        disk.steps
            .push(Step::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut disk = self.step()?;
        disk.live.remove(name).ok_or(io::ErrorKind::NotFound)?;
        disk.steps.push(Step::Remove(name.to_owned()));
        Ok(())
    }

    fn remove_leftover(&self, name: &str) -> io::Result<()> {
        Steps::remove(self, name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut disk = self.step()?;
        disk.durable = disk.live.clone();
        disk.steps.push(Step::SyncDir);
        Ok(())
    }

    fn read(&self, name: &str) -> io::Result<Content> {
        let mut disk = self.running()?;
        let inode = *disk.live.get(name).ok_or(io::ErrorKind::NotFound)?;
        let bytes = disk.file(inode)?.live.clone();
        let version = Version(VersionKind::Sim(SimVersion {
            inode,
            bytes: bytes.clone(),
        }));
        Ok(Content::File(bytes, version))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.running()?.live.keys().cloned().collect())
    }

    fn is_current(&self, name: &str, version: &Version) -> io::Result<bool> {
        let mut disk = self.running()?;
        let Some(inode) = disk.live.get(name).copied() else {
            return Ok(false);
        };
        let VersionKind::Sim(known) = &version.0 else {
            return Ok(false);
        };
        Ok(known.inode == inode && known.bytes == disk.file(inode)?.live)
    }

    fn try_lock(&self, name: &str) -> io::Result<Option<Lock>> {
        let mut disk = self.running()?;
        if disk.locked.iter().any(|held| held == name) {
            return Ok(None);
        }
        if !disk.live.contains_key(name) {
            disk.create(name, LOCK_MODE);
        }
        disk.locked.push(name.to_owned());
        Ok(Some(Lock::new(Held {
            dir: self.clone(),
            name: name.to_owned(),
        })))
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from("/simulated").join(name)
    }
}

// === impl Disk ===

impl Disk {
    fn create(&mut self, name: &str, mode: u32) -> Inode {
        let inode = self.next_inode;
        self.next_inode += 1;
        let file = File {
            mode,
            ..File::default()
        };
        self.inodes.insert(inode, file);
        self.live.insert(name.to_owned(), inode);
        inode
    }

    fn file(&mut self, inode: Inode) -> io::Result<&mut File> {
        self.inodes
            .get_mut(&inode)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Gives the lock back when dropped.
struct Held {
    dir: SimDir,
    name: String,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.dir.disk().locked.retain(|held| *held != self.name);
    }
}
