//! The backend calls of the simulated directory.

use std::io;
use std::path::PathBuf;
use std::sync::MutexGuard;

use super::dir::SimDir;
use super::disk::{Disk, Step};
use super::image::{Change, Inode};
use crate::dir::{Lock, Version};
use crate::operations::{Backend, Comparison, Content, LOCK_MODE};

/// The error of every step after the crash.
const CRASHED: &str = "the simulated process has crashed";

/// The data of a [`Version`].
#[derive(Debug)]
struct SimVersion {
    inode: Inode,
    bytes: Vec<u8>,
}

/// Releases the lock when dropped.
struct Held {
    dir: SimDir,
    name: String,
}

// === impl SimDir ===

impl Backend for SimDir {
    type File = Inode;

    fn create(&self, name: &str, mode: u32) -> io::Result<Inode> {
        let mut disk = self.ready()?;
        if disk.now.live.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = disk.now.next_inode();
        let name = name.to_owned();
        let create = Change::Create {
            name: name.clone(),
            mode,
        };
        disk.step(Step::Create(name), create);
        Ok(inode)
    }

    fn write(&self, file: &mut Inode, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.ready()?;
        disk.file(*file)?;
        let (file, bytes) = (*file, bytes.to_vec());
        disk.step(Step::Write, Change::Write { file, bytes });
        Ok(())
    }

    fn sync_file(&self, file: &Inode) -> io::Result<()> {
        let mut disk = self.running()?;
        disk.file(*file)?;
        if let Err(error) = disk.fail_if_armed() {
            disk.change_uncounted(Change::LosePages(*file));
            return Err(error);
        }
        disk.step(Step::SyncFile, Change::SyncFile(*file));
        Ok(())
    }

    fn close(&self, file: Inode) -> io::Result<Version> {
        let disk = self.running()?;
        Ok(disk.version(file)?.1)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.ready()?;
        disk.find(from)?;
        let (from, to) = (from.to_owned(), to.to_owned());
        let step = Step::Rename(from.clone(), to.clone());
        disk.step(step, Change::Rename { from, to });
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut disk = self.ready()?;
        disk.find(name)?;
        let name = name.to_owned();
        disk.step(Step::Remove(name.clone()), Change::Remove { name });
        Ok(())
    }

    fn remove_stale_temp(&self, name: &str) -> io::Result<()> {
        Backend::remove(self, name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.ready()?.step(Step::SyncDir, Change::SyncDir);
        Ok(())
    }

    fn read(&self, name: &str) -> io::Result<Content> {
        let disk = self.running()?;
        let (bytes, version) = disk.version(disk.find(name)?)?;
        Ok(Content::File(bytes, version))
    }

    fn compare(&self, name: &str, bytes: &[u8], mode: u32) -> io::Result<Comparison> {
        let disk = self.running()?;
        let file = disk.file(disk.find(name)?)?;
        Ok(if file.bytes == bytes && file.mode == mode {
            Comparison::Same
        } else {
            Comparison::Different
        })
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.running()?.now.live.keys().cloned().collect())
    }

    fn is_current(&self, name: &str, version: &Version) -> io::Result<bool> {
        let disk = self.running()?;
        let Some(inode) = disk.now.live.get(name).copied() else {
            return Ok(false);
        };
        let Some(known) = version.get::<SimVersion>() else {
            return Ok(false);
        };
        Ok(known.inode == inode && known.bytes == disk.file(inode)?.bytes)
    }

    fn try_lock(&self, name: &str) -> io::Result<Option<Lock>> {
        let mut disk = self.running()?;
        if disk.locked.iter().any(|held| held == name) {
            return Ok(None);
        }
        if !disk.now.live.contains_key(name) {
            disk.change_uncounted(Change::Create {
                name: name.to_owned(),
                mode: LOCK_MODE,
            });
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

impl SimDir {
    /// The disk; an error after the crash.
    fn running(&self) -> io::Result<MutexGuard<'_, Disk>> {
        let disk = self.disk();
        if disk.has_crashed() {
            return Err(io::Error::other(CRASHED));
        }
        Ok(disk)
    }

    /// The disk before the next step; an error after the crash, or the armed one.
    fn ready(&self) -> io::Result<MutexGuard<'_, Disk>> {
        let mut disk = self.running()?;
        disk.fail_if_armed()?;
        Ok(disk)
    }
}

// === impl Disk ===

impl Disk {
    fn version(&self, inode: Inode) -> io::Result<(Vec<u8>, Version)> {
        let bytes = self.file(inode)?.bytes.clone();
        let version = SimVersion {
            inode,
            bytes: bytes.clone(),
        };
        Ok((bytes, Version::new(version)))
    }
}

// === impl Held ===

impl Drop for Held {
    fn drop(&mut self) {
        self.dir.disk().locked.retain(|held| *held != self.name);
    }
}
