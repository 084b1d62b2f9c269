//! A directory in memory, its faults, and its crashes.
//!
//! ```text
//!  Dir calls ──► sequence.rs ──► steps.rs ──► Event ──► image.rs   the disk now
//!                                              │ recorded
//!                                              ▼
//!                      crash.rs: each moment of the record ──► loss.rs   what may be left
//! ```

mod crash;
mod image;
mod loss;
mod steps;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use self::crash::{Cause, Counts, Crash, enumerate};
use self::image::{Change, Image, Inode};
use crate::dir::sealed::Sealed;
use crate::dir::{Dir, Lock, Version};
use crate::{Error, sequence};

/// A directory in memory that knows what is durable, fails on request, and can
/// be reopened as a crash would have left it.
///
/// Clones share one directory, as processes on one node do.
///
/// It runs the same order of steps as [`OsDir`](crate::OsDir) and records them.
/// [`enumerate`] and [`crashes`](Self::crashes) go through every state that a
/// crash of the recorded run could leave. For a single one, or a step that
/// fails, a test runs its scenario once to count the [`steps`](Self::steps) and
/// then with [`fail_step`](Self::fail_step) or [`crash_after`](Self::crash_after).
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
/// Creating the empty file of a lock is no [`Step`], and it may be lost.
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
    /// What this process found, and what it did to it: `now` is the sum.
    start: Image,
    log: Vec<Event>,
    now: Image,
    steps: Vec<Step>,
    locked: Vec<String>,
    fault: Option<(usize, i32)>,
    crash: Option<usize>,
}

/// What happened in a directory, and when on a clock that all directories of
/// this process share.
#[derive(Debug, Clone)]
struct Event {
    at: u64,
    what: What,
}

#[derive(Debug, Clone)]
enum What {
    /// A change that is a [`Step`].
    Step(Change),
    /// One that is none.
    Aside(Change),
    Acknowledged,
}

#[derive(Debug)]
pub(crate) struct SimVersion {
    inode: Inode,
    bytes: Vec<u8>,
}

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
        let now = &self.disk().now;
        let file = now.live.get(name).and_then(|inode| now.files.get(inode));
        file.map(|file| file.mode)
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
        self.disk().has_crashed()
    }

    /// The directory as the next process finds it after a kill: every step
    /// counts, whether or not it is durable. This directory stays as it is.
    ///
    /// The next process starts with no steps done, no failure or crash armed,
    /// no lock held, and leftovers swept.
    #[must_use]
    pub fn after_kill(&self) -> Self {
        Self::opened(self.disk().now.clone())
    }

    /// The directory as the next boot finds it when everything that was not
    /// synced is lost. This directory stays as it is.
    ///
    /// It starts as after [`after_kill`](Self::after_kill).
    #[must_use]
    pub fn after_power_loss(&self) -> Self {
        Self::opened(loss::everything_unsynced(&self.disk().now))
    }

    /// What the next process finds in `image` once `OsDir::open` has swept it;
    /// a simulated process has no live neighbour.
    fn opened(image: Image) -> Self {
        let found = Disk {
            now: image,
            ..Disk::default()
        };
        let dir = Self(Arc::new(Mutex::new(found)));
        // Nothing is armed that could fail.
        let _ = sequence::sweep(&dir);
        let start = dir.disk().now.clone();
        let disk = Disk {
            now: start.clone(),
            start,
            ..Disk::default()
        };
        Self(Arc::new(Mutex::new(disk)))
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        // A panic of another test thread leaves the maps whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn ensure(&self, name: &str, bytes: &[u8], mode: u32) -> Result<bool, Error> {
        sequence::ensure(self, name, bytes, mode)
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

// === impl Disk ===

impl Disk {
    fn has_crashed(&self) -> bool {
        self.crash.is_some_and(|limit| self.steps.len() >= limit)
    }

    fn step(&mut self, step: Step, change: Change) {
        self.now.apply(&change);
        self.steps.push(step);
        self.record(What::Step(change));
    }

    /// A change that no test counts.
    fn change(&mut self, change: Change) {
        self.now.apply(&change);
        self.record(What::Aside(change));
    }

    fn record(&mut self, what: What) {
        static CLOCK: AtomicU64 = AtomicU64::new(1);
        let at = CLOCK.fetch_add(1, Ordering::Relaxed);
        self.log.push(Event { at, what });
    }
}
