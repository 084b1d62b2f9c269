//! The system calls of [`OsDir`](super::OsDir), all on one directory descriptor.

use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::dir::Dir as Entries;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::path::open_dir;
use crate::dir::{Lock, Version};
use crate::error::{Error, Op};
use crate::operations::{self, Backend, Comparison, Content, LOCK_MODE};

/// Permission bits of a mode, with set-id and sticky bits.
const PERMISSIONS: u32 = 0o7777;

/// One open directory, even if its path later leads to another one.
#[derive(Debug)]
pub(super) struct OsBackend {
    dir: File,
    /// Device and inode of `dir`.
    id: (u64, u64),
    path: PathBuf,
}

/// The data of a [`Version`]. The file stays open so that no other file gets its inode
/// number.
#[derive(Debug)]
struct OsVersion {
    _file: File,
    stamp: Stamp,
}

/// Identifies a file's content: a replaced file differs in its inode, a file changed in
/// place in size or time.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: i64,
    modified: (i64, i64),
}

// === impl OsBackend ===

impl OsBackend {
    /// Opens the directory at `path` and sweeps it.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let opened = open_dir(path).and_then(|dir| {
            let found = dir.metadata()?;
            Ok(Self {
                dir,
                id: (found.dev(), found.ino()),
                path: path.to_owned(),
            })
        });
        let backend = opened.map_err(|source| Error::Io {
            op: Op::OpenDir,
            path: path.to_owned(),
            source,
        })?;
        operations::sweep(&backend)?;
        Ok(backend)
    }

    /// Whether the path now leads to another directory. The inode number of a removed
    /// directory is not reused while it is open here.
    pub(super) fn is_replaced(&self) -> bool {
        fs::metadata(&self.path)
            .is_ok_and(|found| found.is_dir() && (found.dev(), found.ino()) != self.id)
    }

    fn open_at(&self, name: &str, flags: OFlag, mode: u32) -> io::Result<File> {
        // Child processes must not inherit and keep a lock.
        let flags = flags | OFlag::O_CLOEXEC;
        let fd = openat(
            self.dir.as_fd(),
            name,
            flags,
            Mode::from_bits_truncate(mode),
        )?;
        Ok(File::from(fd))
    }

    /// Creates a file and calls `claim` on it. If `claim` fails, removes the file, which
    /// would otherwise stay until the next open of the directory.
    fn create_with(
        &self,
        name: &str,
        mode: u32,
        claim: impl FnOnce(&File, u32) -> io::Result<()>,
    ) -> io::Result<File> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL;
        let file = self.open_at(name, flags, mode)?;
        match claim(&file, mode) {
            Ok(()) => Ok(file),
            // The sweeper of another process removes it or already has: the name may
            // belong to another file by now.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            Err(error) => {
                let _ = self.unlink(name);
                Err(error)
            }
        }
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(
            self.dir.as_fd(),
            name,
            UnlinkatFlags::NoRemoveDir,
        )?)
    }
}

impl Backend for OsBackend {
    type File = File;

    fn create(&self, name: &str, mode: u32) -> io::Result<File> {
        self.create_with(name, mode, claim)
    }

    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn sync_file(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn close(&self, file: File) -> io::Result<Version> {
        file.unlock()?;
        version(file)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(self.dir.as_fd(), from, self.dir.as_fd(), to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.unlink(name)
    }

    fn remove_stale_temp(&self, name: &str) -> io::Result<()> {
        let file = self.open_at(name, OFlag::O_RDONLY | OFlag::O_NONBLOCK, 0)?;
        match file.try_lock() {
            Ok(()) => self.unlink(name),
            Err(TryLockError::WouldBlock) => Ok(()),
            Err(TryLockError::Error(err)) => Err(err),
        }
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.dir.sync_all()
    }

    fn read(&self, name: &str) -> io::Result<Content> {
        // Without O_NONBLOCK, opening a FIFO of that name would block for ever.
        let mut file = self.open_at(name, OFlag::O_RDONLY | OFlag::O_NONBLOCK, 0)?;
        if !file.metadata()?.is_file() {
            return Ok(Content::NotAFile);
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Content::File(bytes, version(file)?))
    }

    fn compare(&self, name: &str, bytes: &[u8], mode: u32) -> io::Result<Comparison> {
        let file = self.open_at(name, OFlag::O_RDONLY | OFlag::O_NONBLOCK, 0)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Ok(Comparison::NotAFile);
        }
        if found.len() != bytes.len() as u64 || found.mode() & PERMISSIONS != mode {
            return Ok(Comparison::Different);
        }
        // One byte more, to detect a file that grew.
        let mut content = Vec::with_capacity(bytes.len() + 1);
        file.take(bytes.len() as u64 + 1)
            .read_to_end(&mut content)?;
        Ok(if content == bytes {
            Comparison::Same
        } else {
            Comparison::Different
        })
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut entries = Entries::openat(self.dir.as_fd(), ".", flags, Mode::empty())?;
        let mut names = Vec::new();
        for entry in entries.iter() {
            // Names that are not UTF-8 are not ours.
            if let Ok(name) = entry?.file_name().to_str()
                && name != "."
                && name != ".."
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn is_current(&self, name: &str, version: &Version) -> io::Result<bool> {
        let stat = match fstatat(self.dir.as_fd(), name, AtFlags::empty()) {
            Ok(stat) => stat,
            Err(nix::errno::Errno::ENOENT) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        };
        let seen = version.get::<OsVersion>();
        Ok(seen.is_some_and(|seen| seen.stamp == Stamp::from(&stat)))
    }

    fn try_lock(&self, name: &str) -> io::Result<Option<Lock>> {
        let file = self.open_at(name, OFlag::O_RDWR | OFlag::O_CREAT, LOCK_MODE)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock::new(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(err)) => Err(err),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() {
            self.path.clone()
        } else {
            self.path.join(name)
        }
    }
}

// === impl Stamp ===

impl From<&FileStat> for Stamp {
    fn from(stat: &FileStat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
        }
    }
}

/// Marks a new file as in use, and sets its mode.
fn claim(file: &File, mode: u32) -> io::Result<()> {
    // A sweeper of another process may have locked the file first.
    let swept = io::ErrorKind::AlreadyExists;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(swept.into()),
        Err(TryLockError::Error(err)) => return Err(err),
    }
    let found = file.metadata()?;
    if found.nlink() == 0 {
        return Err(swept.into());
    }
    // Undo the umask's effect.
    if found.mode() & PERMISSIONS != mode {
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    Ok(())
}

fn version(file: File) -> io::Result<Version> {
    let stamp = Stamp::from(&fstat(&file)?);
    Ok(Version::new(OsVersion { _file: file, stamp }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_that_cannot_be_locked_or_examined_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let backend = OsBackend::open(dir.path()).unwrap();
        for errno in [nix::errno::Errno::ENOLCK, nix::errno::Errno::EIO] {
            let failed = backend.create_with("a", 0o600, |_, _| Err(errno.into()));
            assert_eq!(failed.unwrap_err().raw_os_error(), Some(errno as i32));
            assert!(backend.list().unwrap().is_empty());
        }
        let sweeper = |_: &File, _| Err(io::ErrorKind::AlreadyExists.into());
        backend.create_with("a", 0o600, sweeper).unwrap_err();
        assert_eq!(
            backend.list().unwrap(),
            ["a"],
            "it may belong to another process by now"
        );
    }
}
