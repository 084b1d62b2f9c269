//! Tests the enumeration itself: with a step left out or moved, it must find a
//! violation.

use std::cell::RefCell;
use std::io;
use std::path::PathBuf;

use super::{Op, run, violation};
use crate::dir::{Lock, Version};
use crate::operations::{Backend, Comparison, Content};
use crate::sim::SimDir;
use crate::sim::image::Inode;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// The content is never synced.
    NoFileSync,
    /// The names are never synced.
    NoDirectorySync,
    /// The content is written after its fsync.
    WriteAfterFileSync,
    /// The content is synced after the rename.
    RenameBeforeFileSync,
    /// The names are synced before they change.
    DirectorySyncFirst,
    /// The old file is removed before the new one takes its name.
    RemoveBeforeRename,
    /// A failed fsync is retried on the same file.
    FileSyncRetried,
}

/// A directory with one flaw in its steps.
struct Flawed {
    dir: SimDir,
    flaw: Flaw,
    late_bytes: RefCell<Vec<u8>>,
    late_sync: RefCell<Option<Inode>>,
}

impl Flawed {
    fn new(dir: &SimDir, flaw: Flaw) -> Self {
        Self {
            dir: dir.clone(),
            flaw,
            late_bytes: RefCell::default(),
            late_sync: RefCell::default(),
        }
    }

    /// Called before a name changes.
    fn sync_dir_first(&self) -> io::Result<()> {
        match self.flaw {
            Flaw::DirectorySyncFirst => Backend::sync_dir(&self.dir),
            _ => Ok(()),
        }
    }
}

impl Backend for Flawed {
    type File = Inode;

    fn write(&self, file: &mut Inode, bytes: &[u8]) -> io::Result<()> {
        if self.flaw == Flaw::WriteAfterFileSync {
            *self.late_bytes.borrow_mut() = bytes.to_vec();
            return Ok(());
        }
        self.dir.write(file, bytes)
    }

    fn sync_file(&self, file: &Inode) -> io::Result<()> {
        match self.flaw {
            Flaw::NoFileSync => Ok(()),
            Flaw::WriteAfterFileSync => {
                self.dir.sync_file(file)?;
                self.dir.write(&mut file.clone(), &self.late_bytes.take())
            }
            Flaw::RenameBeforeFileSync => {
                *self.late_sync.borrow_mut() = Some(*file);
                Ok(())
            }
            Flaw::FileSyncRetried => {
                let again = |_| self.dir.sync_file(file);
                self.dir.sync_file(file).or_else(again)
            }
            _ => self.dir.sync_file(file),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.sync_dir_first()?;
        if self.flaw == Flaw::RemoveBeforeRename && Backend::list(self)?.iter().any(|n| n == to) {
            Backend::remove(&self.dir, to)?;
        }
        Backend::rename(&self.dir, from, to)?;
        match self.late_sync.take() {
            Some(file) => self.dir.sync_file(&file),
            None => Ok(()),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.sync_dir_first()?;
        Backend::remove(&self.dir, name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        match self.flaw {
            Flaw::NoDirectorySync | Flaw::DirectorySyncFirst => Ok(()),
            _ => Backend::sync_dir(&self.dir),
        }
    }

    // === without flaws ===

    fn create(&self, name: &str, mode: u32) -> io::Result<Inode> {
        self.dir.create(name, mode)
    }

    fn close(&self, file: Inode) -> io::Result<Version> {
        self.dir.close(file)
    }

    fn remove_stale_temp(&self, name: &str) -> io::Result<()> {
        self.dir.remove_stale_temp(name)
    }

    fn read(&self, name: &str) -> io::Result<Content> {
        Backend::read(&self.dir, name)
    }

    fn compare(&self, name: &str, bytes: &[u8], mode: u32) -> io::Result<Comparison> {
        self.dir.compare(name, bytes, mode)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Backend::list(&self.dir)
    }

    fn is_current(&self, name: &str, version: &Version) -> io::Result<bool> {
        Backend::is_current(&self.dir, name, version)
    }

    fn try_lock(&self, name: &str) -> io::Result<Option<Lock>> {
        self.dir.try_lock(name)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path(name)
    }
}

const NEW: Op = Op::Replace("a", 2, 7);
const REMOVED: Op = Op::Remove("a");
const RENAMED: Op = Op::Rename("a", "b");
/// The fsync is the third step of a replace.
const FAILING_FILE_SYNC: Op = Op::Fail(2);

/// The number of violations after `ops` with the flaw, in a directory with a durable
/// file `a`.
fn violations(flaw: Flaw, ops: &[Op]) -> usize {
    let dir = SimDir::new();
    Op::Replace("a", 1, 5).run(&dir).unwrap();
    let dir = dir.after_power_loss();
    let allowed = run(ops, &Flawed::new(&dir, flaw), &dir);
    let violations = dir
        .crashes()
        .filter_map(|crash| violation(&crash, &allowed));
    violations.count()
}

#[test]
fn each_step_left_out_or_moved_is_detected() {
    let flawed: &[(Flaw, &[Op])] = &[
        (Flaw::NoFileSync, &[NEW]),
        (Flaw::NoDirectorySync, &[NEW]),
        (Flaw::NoDirectorySync, &[REMOVED]),
        (Flaw::NoDirectorySync, &[RENAMED]),
        (Flaw::WriteAfterFileSync, &[NEW]),
        (Flaw::RenameBeforeFileSync, &[NEW]),
        (Flaw::DirectorySyncFirst, &[NEW]),
        (Flaw::DirectorySyncFirst, &[REMOVED]),
        (Flaw::DirectorySyncFirst, &[RENAMED]),
        (Flaw::RemoveBeforeRename, &[NEW]),
        (Flaw::FileSyncRetried, &[FAILING_FILE_SYNC, NEW]),
    ];
    for (flaw, ops) in flawed {
        let found = violations(*flaw, ops);
        println!("{flaw:?} in {ops:?}: {found} violations");
        assert!(found > 0, "{flaw:?} in {ops:?}");
        assert_eq!(violations(Flaw::None, ops), 0, "no flaw in {ops:?}");
    }
}
