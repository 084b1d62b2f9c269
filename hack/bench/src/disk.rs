//! The directory for the benchmark's files, and the floor of every durable write.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use nix::sys::statfs::{self, FsType};
use tempfile::TempDir;

/// A temporary directory on a real disk.
pub(crate) struct Scratch {
    dir: TempDir,
    /// The file system's name, for the report.
    pub(crate) filesystem: &'static str,
}

/// A file that is replaced durably, with the minimum of system calls.
pub(crate) struct RawFile {
    dir: File,
    parent: PathBuf,
    temporary: PathBuf,
}

// === impl Scratch ===

impl Scratch {
    /// Creates it below `parent`. Rejects file systems in memory, on which a durable write costs nothing.
    pub(crate) fn on_disk(parent: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(parent)
            .with_context(|| format!("cannot create {}", parent.display()))?;
        let filesystem = filesystem(parent)?;
        let dir = tempfile::Builder::new()
            .prefix("bench-")
            .tempdir_in(parent)?;
        Ok(Self { dir, filesystem })
    }

    /// A directory in memory, if one is mounted at `/dev/shm`.
    pub(crate) fn in_memory() -> anyhow::Result<TempDir> {
        const SHM: &str = "/dev/shm";
        let found = statfs::statfs(SHM).with_context(|| format!("cannot stat {SHM}"))?;
        if found.filesystem_type() != statfs::TMPFS_MAGIC {
            bail!("{SHM} is not a tmpfs; CDI files are measured on tmpfs, as on nodes");
        }
        Ok(tempfile::Builder::new().prefix("bench-").tempdir_in(SHM)?)
    }

    /// Creates a new directory in it.
    pub(crate) fn subdirectory(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.dir.path().join(name);
        fs::create_dir(&path)?;
        Ok(path)
    }
}

/// The name of the file system of `path`. Fails for one in memory.
pub(crate) fn filesystem(path: &Path) -> anyhow::Result<&'static str> {
    let found = statfs::statfs(path)
        .with_context(|| format!("cannot stat {}", path.display()))?
        .filesystem_type();
    let Some(name) = name(found) else {
        bail!(
            "{} is in memory; use --dir with a directory on a disk",
            path.display()
        );
    };
    Ok(name)
}

/// The name of the file system; `None` if it is in memory.
fn name(found: FsType) -> Option<&'static str> {
    match found {
        statfs::TMPFS_MAGIC => None,
        // ext2 and ext3 have the same number.
        statfs::EXT4_SUPER_MAGIC => Some("ext4"),
        statfs::XFS_SUPER_MAGIC => Some("xfs"),
        statfs::BTRFS_SUPER_MAGIC => Some("btrfs"),
        statfs::OVERLAYFS_SUPER_MAGIC => Some("overlayfs"),
        _ => Some("an unknown file system"),
    }
}

// === impl RawFile ===

impl RawFile {
    pub(crate) fn in_directory(dir: &Path) -> io::Result<Self> {
        Ok(Self {
            dir: File::open(dir)?,
            parent: dir.to_owned(),
            temporary: dir.join("floor.new"),
        })
    }

    /// Temporary file, write, fsync, rename, fsync of the directory: if one of them is missing, a
    /// power loss may lose the content.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut temporary = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&self.temporary)?;
        temporary.write_all(bytes)?;
        temporary.sync_all()?;
        fs::rename(&self.temporary, self.parent.join(name))?;
        self.dir.sync_all()
    }
}
