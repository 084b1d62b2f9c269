//! The simulated disk of one process: its content, its recording, and armed failures.

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

/// The disk's content, the recording of its changes, and the armed failures.
#[derive(Default)]
pub(super) struct Disk {
    /// The disk that this process found.
    pub(super) start: Image,
    /// All events since, in order: `start` with all of them applied is `now`.
    pub(super) log: Vec<Event>,
    pub(super) now: Image,
    /// The steps among the log.
    pub(super) steps: Vec<Step>,
    /// The names of the locks that are held.
    pub(super) locked: Vec<String>,
    /// The number of steps before the failing one, and its errno.
    pub(super) fault: Option<(usize, i32)>,
    /// The number of steps before the crash.
    pub(super) crash: Option<usize>,
}

/// One entry of a directory's recording.
#[derive(Debug, Clone)]
pub(super) struct Event {
    /// The time of a logical clock that all directories of this process share.
    pub(super) at: u64,
    pub(super) kind: EventKind,
}

#[derive(Debug, Clone)]
pub(super) enum EventKind {
    /// A change that is a [`Step`].
    Step(Change),
    /// A change that is not a [`Step`], so that tests do not count it.
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
