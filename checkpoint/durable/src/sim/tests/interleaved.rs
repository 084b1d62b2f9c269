//! Two processes in one directory without a lock.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use super::{FIRST, Files, Op, SCRIPTED, found};
use crate::dir::{Lock, Version};
use crate::operations::{Backend, Comparison, Content};
use crate::sim::SimDir;
use crate::sim::image::Inode;

/// A process that is preempted before one of its calls by a whole operation of another.
struct Preempted {
    dir: SimDir,
    /// The number of calls before the other operation.
    calls_before: Cell<usize>,
    other: Cell<Option<Op>>,
    other_succeeded: Cell<bool>,
    /// The files that a reader would have seen at each call.
    seen: RefCell<BTreeSet<Files>>,
}

impl Preempted {
    fn new(dir: &SimDir, calls_before: usize, other: Op) -> Self {
        Self {
            dir: dir.clone(),
            calls_before: Cell::new(calls_before),
            other: Cell::new(Some(other)),
            other_succeeded: Cell::default(),
            seen: RefCell::default(),
        }
    }

    /// The directory for the next call.
    fn dir(&self) -> &SimDir {
        let calls = self.calls_before.get();
        if calls == 0
            && let Some(other) = self.other.take()
        {
            // Fails if it renames a file that is gone.
            if other.run(&self.dir).is_ok() {
                self.other_succeeded.set(true);
                self.dir.acknowledge();
            }
        }
        self.calls_before.set(calls.saturating_sub(1));
        self.seen.borrow_mut().insert(found(&self.dir));
        &self.dir
    }
}

impl Backend for Preempted {
    type File = Inode;

    fn create(&self, name: &str, mode: u32) -> io::Result<Inode> {
        self.dir().create(name, mode)
    }

    fn write(&self, file: &mut Inode, bytes: &[u8]) -> io::Result<()> {
        self.dir().write(file, bytes)
    }

    fn sync_file(&self, file: &Inode) -> io::Result<()> {
        self.dir().sync_file(file)
    }

    fn close(&self, file: Inode) -> io::Result<Version> {
        // A replaced file stays readable while open; the simulated disk drops it.
        let closed = self.dir.close(file);
        Ok(closed.unwrap_or_else(|_| Version::new("replaced")))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Backend::rename(self.dir(), from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Backend::remove(self.dir(), name)
    }

    fn remove_stale_temp(&self, name: &str) -> io::Result<()> {
        self.dir().remove_stale_temp(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.dir().sync_dir()
    }

    fn read(&self, name: &str) -> io::Result<Content> {
        Backend::read(self.dir(), name)
    }

    fn compare(&self, name: &str, bytes: &[u8], mode: u32) -> io::Result<Comparison> {
        self.dir().compare(name, bytes, mode)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Backend::list(self.dir())
    }

    fn is_current(&self, name: &str, version: &Version) -> io::Result<bool> {
        Backend::is_current(self.dir(), name, version)
    }

    fn try_lock(&self, name: &str) -> io::Result<Option<Lock>> {
        self.dir().try_lock(name)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path(name)
    }
}

/// The allowed states before any acknowledgement, after that of the other operation, and
/// after both.
fn allowed(start: &Files, op: Op, other: Op) -> [BTreeSet<Files>; 3] {
    let (alone, second) = (other.apply(start), other.apply(&op.apply(start)));
    let both = BTreeSet::from([op.apply(&alone), second]);
    let with_other = &both | &BTreeSet::from([alone]);
    let any = &with_other | &BTreeSet::from([start.clone(), op.apply(start)]);
    [any, with_other, both]
}

/// Scope: every two of [`SCRIPTED`] except the lock, in a directory with one file. The
/// second runs completely before each call of the first (schedules with two switches);
/// then every crash of each. Each file is old or new to every reader, and acknowledged
/// changes of both processes survive the crash.
#[test]
fn an_operation_between_any_two_calls_of_another_process_mixes_no_content() {
    // A comparison, and a replace.
    const CALLS: usize = 6;
    let ops = SCRIPTED.into_iter().filter(|op| !matches!(op, Op::Lock));
    let mut states = 0;
    for (op, other) in ops
        .clone()
        .flat_map(|op| ops.clone().map(move |other| (op, other)))
    {
        for calls_before in 0..CALLS {
            let dir = SimDir::new();
            FIRST.run(&dir).unwrap();
            let dir = dir.after_power_loss();
            let [any, with_other, both] = allowed(&found(&dir), op, other);
            let process = Preempted::new(&dir, calls_before, other);
            let done = op.run(&process).is_ok();
            let context = format!("{other:?} before call {calls_before} of {op:?}");
            assert!(process.seen.borrow().is_subset(&any), "{context}");
            if done {
                dir.acknowledge();
            }
            let mut allowed = vec![&any];
            allowed.extend(process.other_succeeded.get().then_some(&with_other));
            // One of two renames of the same file fails and changes nothing.
            let is_last = process.other.take().is_none() && process.other_succeeded.get();
            allowed.extend(done.then_some(if is_last { &both } else { &any }));
            for crash in dir.crashes() {
                states += 1;
                let files = found(&crash.dir);
                assert!(
                    allowed[crash.acknowledged].contains(&files),
                    "{context}, {crash}: {files:?}"
                );
            }
            if done {
                assert_eq!(found(&dir.after_power_loss()), found(&dir), "{context}");
            }
        }
    }
    println!("{states} states of two processes, 0 violations");
}
