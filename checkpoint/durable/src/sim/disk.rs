//! The simulated disk as one process has it: what is on it, what was done to it,
//! and what is to fail.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use super::image::{Change, File, Image, Inode};

/// One change to the simulated disk.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// An empty temp file was created.
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

/// What is on the disk, how it came there, and what is armed.
#[derive(Default)]
pub(super) struct Disk {
    /// As this process found it.
    pub(super) start: Image,
    /// Everything since, in order: `start` with all of it is `now`.
    pub(super) log: Vec<Event>,
    pub(super) now: Image,
    /// The steps among the log.
    pub(super) steps: Vec<Step>,
    /// The names of the locks that are held.
    pub(super) locked: Vec<String>,
    /// Before which step to fail, counted from the start, and with which errno.
    pub(super) fault: Option<(usize, i32)>,
    /// After how many steps the process is gone.
    pub(super) crash: Option<usize>,
}

/// What happened in a directory.
#[derive(Debug, Clone)]
pub(super) struct Event {
    /// When, on a logical clock that all directories of this process share.
    pub(super) at: u64,
    pub(super) kind: EventKind,
}

#[derive(Debug, Clone)]
pub(super) enum EventKind {
    /// A change that is a [`Step`].
    Step(Change),
    /// A change that no test counts: it is no [`Step`].
    Uncounted(Change),
    /// See [`SimDir::acknowledge`](super::SimDir::acknowledge).
    Acknowledged,
}

// === impl Disk ===

impl Disk {
    pub(super) fn has_crashed(&self) -> bool {
        self.crash.is_some_and(|limit| self.steps.len() >= limit)
    }

    pub(super) fn step(&mut self, step: Step, change: Change) {
        self.now.apply(&change);
        self.steps.push(step);
        self.record(EventKind::Step(change));
    }

    pub(super) fn change_uncounted(&mut self, change: Change) {
        self.now.apply(&change);
        self.record(EventKind::Uncounted(change));
    }

    pub(super) fn record(&mut self, kind: EventKind) {
        static CLOCK: AtomicU64 = AtomicU64::new(1);
        let at = CLOCK.fetch_add(1, Ordering::Relaxed);
        self.log.push(Event { at, kind });
    }

    pub(super) fn fail_if_armed(&mut self) -> io::Result<()> {
        match self.fault {
            Some((at, errno)) if self.steps.len() >= at => {
                self.fault = None;
                Err(io::Error::from_raw_os_error(errno))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn find(&self, name: &str) -> io::Result<Inode> {
        let found = self.now.live.get(name).copied();
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn file(&self, inode: Inode) -> io::Result<&File> {
        let found = self.now.files.get(&inode);
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
