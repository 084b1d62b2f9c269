use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::disk::{Disk, Step};
use super::image::Image;
use super::loss;
use crate::dir::sealed::Sealed;
use crate::dir::{Dir, Lock, Version};
use crate::error::Error;
use crate::operations;

/// A directory in memory, for tests. It tracks which changes are durable, fails on
/// request, and can be reopened in the state after a crash.
///
/// Clones share one directory, like processes on one node.
///
/// It runs the same steps as [`OsDir`](crate::OsDir) and records them.
/// [`enumerate`](super::enumerate) and [`crashes`](Self::crashes) go through every
/// state that a crash of the recorded run could leave. To test a single crash or a
/// failing step, run the scenario once to count its [`steps`](Self::steps), and again
/// with [`fail_step`](Self::fail_step) or [`crash_after`](Self::crash_after).
///
/// ```
/// use durable_file::{Dir, SimDir};
///
/// let dir = SimDir::new();
/// dir.fail_step(0, 28); // ENOSPC of Linux
/// assert_eq!(dir.replace("state", b"{}", 0o600).unwrap_err().code(), "disk-full");
///
/// dir.crash_after(1); // the temp file is created, and nothing else
/// dir.replace("state", b"{}", 0o600).unwrap_err();
/// assert_eq!(dir.after_kill().read("state").unwrap(), None);
/// ```
///
/// Creating a lock's empty file is not a [`Step`]; the file may be lost.
#[derive(Clone, Default)]
pub struct SimDir(Arc<Mutex<Disk>>);

// === impl SimDir ===

impl SimDir {
    /// An empty directory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the steps done so far, in order, without the failed ones.
    pub fn steps(&self) -> Vec<Step> {
        self.disk().steps.clone()
    }

    /// Returns the permission bits of a file; `None` if there is none.
    pub fn mode(&self, name: &str) -> Option<u32> {
        let now = &self.disk().now;
        let file = now.live.get(name).and_then(|inode| now.files.get(inode));
        file.map(|file| file.mode)
    }

    /// Makes the step after the next `n` fail once with `errno`, without effect.
    /// Stays armed until a call reaches that step; a later `fail_step` replaces it.
    pub fn fail_step(&self, n: usize, errno: i32) {
        let mut disk = self.disk();
        disk.fault = Some((disk.steps.len() + n, errno));
    }

    /// Crashes after the next `n` steps: every later call fails, including those that
    /// only read.
    pub fn crash_after(&self, n: usize) {
        let mut disk = self.disk();
        disk.crash = Some(disk.steps.len() + n);
    }

    /// Whether the crash point is reached, so that every further call fails; true at
    /// once after `crash_after(0)`.
    pub fn has_crashed(&self) -> bool {
        self.disk().has_crashed()
    }

    /// Returns the directory that the next process finds after a kill: with every
    /// step, durable or not. Does not change this directory.
    ///
    /// The next process starts with no steps done, no failure or crash armed, no
    /// lock held, and temp files swept.
    #[must_use]
    pub fn after_kill(&self) -> Self {
        Self::opened(self.disk().now.clone())
    }

    /// Returns the directory that the next boot finds if all unsynced changes are
    /// lost. Does not change this directory.
    ///
    /// It starts like that of [`after_kill`](Self::after_kill).
    #[must_use]
    pub fn after_power_loss(&self) -> Self {
        Self::opened(loss::everything_unsynced(&self.disk().now))
    }

    /// The directory that the next process finds in `image`, swept as by
    /// `OsDir::open`. No other simulated process is alive.
    pub(super) fn opened(image: Image) -> Self {
        let found = Disk {
            now: image,
            ..Disk::default()
        };
        let dir = Self(Arc::new(Mutex::new(found)));
        // No failure is armed.
        let _ = operations::sweep(&dir);
        let start = dir.disk().now.clone();
        let disk = Disk {
            now: start.clone(),
            start,
            ..Disk::default()
        };
        Self(Arc::new(Mutex::new(disk)))
    }

    pub(super) fn disk(&self) -> MutexGuard<'_, Disk> {
        // A panic of another test thread leaves the maps intact.
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
        operations::read(self, name)
    }

    fn replace(&self, name: &str, bytes: &[u8], mode: u32) -> Result<Version, Error> {
        operations::replace(self, name, bytes, mode)
    }

    fn ensure(&self, name: &str, bytes: &[u8], mode: u32) -> Result<bool, Error> {
        operations::ensure(self, name, bytes, mode)
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        operations::remove(self, name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        operations::rename(self, from, to)
    }

    fn list(&self) -> Result<Vec<String>, Error> {
        operations::list(self)
    }

    fn is_current(&self, name: &str, version: &Version) -> Result<bool, Error> {
        operations::is_current(self, name, version)
    }

    fn sync(&self) -> Result<(), Error> {
        operations::sync(self)
    }

    fn lock(&self, name: &str, timeout: Duration) -> Result<Lock, Error> {
        operations::lock(self, name, timeout)
    }
}
