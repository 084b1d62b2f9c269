//! Opens and creates directories, and makes their names durable.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

pub(super) fn open_dir(path: &Path) -> io::Result<File> {
    let dir = File::open(path)?;
    if dir.metadata()?.is_dir() {
        Ok(dir)
    } else {
        Err(io::ErrorKind::NotADirectory.into())
    }
}

/// Creates the missing directories of `path` and makes their names durable. The last
/// name is synced even if it exists: its creator may have died before its fsync.
pub(super) fn make_durable_dir(path: &Path, mode: u32) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|p| !is_dir(p)).collect();
    for dir in missing.iter().rev() {
        match DirBuilder::new().mode(mode).create(dir) {
            Err(err) if err.kind() != io::ErrorKind::AlreadyExists => return Err(err),
            _ => sync_parent(dir)?,
        }
    }
    if missing.is_empty() {
        sync_parent(path)
    } else {
        Ok(())
    }
}

fn is_dir(path: &Path) -> bool {
    path.as_os_str().is_empty() || fs::metadata(path).is_ok_and(|meta| meta.is_dir())
}

pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        None => Ok(()),
        Some(parent) if parent.as_os_str().is_empty() => open_dir(Path::new("."))?.sync_all(),
        Some(parent) => open_dir(parent)?.sync_all(),
    }
}
