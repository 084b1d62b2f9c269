//! Replaces the config with its new text.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use durable_file::{Dir, OsDir};

use super::error::InjectError;
use crate::stderr::note;

/// Where a config is, and who owns it.
struct Target {
    dir: PathBuf,
    name: String,
    /// Permission bits.
    mode: u32,
    uid: u32,
    gid: u32,
}

/// Afterwards, even after a crash, the config has its old or its new text. It
/// keeps its mode and, if this process may change that, its owner.
pub(super) fn config(path: &Path, old: &[u8], new: &[u8], backup: bool) -> Result<(), InjectError> {
    let cannot_write = |source| InjectError::Write {
        path: path.to_owned(),
        source,
    };
    let target = target(path)?;
    let dir = OsDir::open(&target.dir).map_err(cannot_write)?;
    if backup {
        let name = back_up(&dir, &target, old).map_err(cannot_write)?;
        restore_owner(&target, &name);
    }
    dir.replace(&target.name, new, target.mode)
        .map_err(cannot_write)?;
    restore_owner(&target, &target.name);
    Ok(())
}

/// Writes `old` under the first name that is free or has this text already: no
/// backup is overwritten. Returns the name.
fn back_up(dir: &OsDir, target: &Target, old: &[u8]) -> Result<String, durable_file::Error> {
    let first = format!("{}.bak", target.name);
    let mut name = first.clone();
    let mut number = 0;
    while let Some(found) = dir.read(&name)? {
        if found == old {
            dir.sync()?;
            return Ok(name);
        }
        number += 1;
        name = format!("{first}.{number}");
    }
    dir.replace(&name, old, target.mode)?;
    if number > 0 {
        note(&format!(
            "{first} is an older backup and is kept: this one is {name}"
        ));
    }
    Ok(name)
}

/// Gives the file the config's owner.
fn restore_owner(target: &Target, name: &str) {
    let Target { dir, uid, gid, .. } = target;
    let path = dir.join(name);
    let is_owned = fs::metadata(&path).is_ok_and(|it| (it.uid(), it.gid()) == (*uid, *gid));
    if is_owned {
        return;
    }
    if let Err(error) = chown(&path, Some(*uid), Some(*gid)) {
        note(&format!(
            "cannot change the owner of {} to the config's, {uid}:{gid}: {error}; run \
             `chown {uid}:{gid}` on it as root",
            path.display()
        ));
    }
}

/// The file that `path` leads to: a link stays a link.
fn target(path: &Path) -> Result<Target, InjectError> {
    let cannot_look = |source| InjectError::Look {
        path: path.to_owned(),
        source,
    };
    let real = fs::canonicalize(path).map_err(cannot_look)?;
    let metadata = fs::metadata(&real).map_err(cannot_look)?;
    let parts = (
        real.parent(),
        real.file_name().and_then(|name| name.to_str()),
    );
    match parts {
        (Some(parent), Some(name)) if metadata.is_file() => Ok(Target {
            dir: parent.to_owned(),
            name: name.to_owned(),
            mode: metadata.mode() & 0o7777,
            uid: metadata.uid(),
            gid: metadata.gid(),
        }),
        _ => Err(InjectError::NotAFile {
            path: path.to_owned(),
        }),
    }
}
