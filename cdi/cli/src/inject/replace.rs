//! The config's new text in place of the old.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;

use durable_file::{Dir, OsDir};

use super::InjectError;
use super::error::{Place, place};
use crate::failure::note;

/// Whoever reads the config meanwhile, or after a crash, has the old or the
/// new. It keeps its mode and, as far as this process may give it away, its
/// owner.
pub(super) fn config(path: &Path, old: &[u8], new: &[u8], backup: bool) -> Result<(), InjectError> {
    let cannot_write = |source| InjectError::Write {
        path: path.to_owned(),
        source,
    };
    let place = place(path)?;
    let dir = OsDir::open(&place.dir).map_err(cannot_write)?;
    if backup {
        let name = put_backup(&dir, &place, old).map_err(cannot_write)?;
        give_back(&place, &name);
    }
    dir.replace(&place.name, new, place.mode)
        .map_err(cannot_write)?;
    give_back(&place, &place.name);
    Ok(())
}

/// Puts `old` under the first name that is free, or that has it already: a
/// backup is never overwritten. Says its name.
fn put_backup(dir: &OsDir, place: &Place, old: &[u8]) -> Result<String, durable_file::Error> {
    let first = format!("{}.bak", place.name);
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
    dir.replace(&name, old, place.mode)?;
    if number > 0 {
        note(&format!(
            "{first} is an older backup and stays: this one is {name}"
        ));
    }
    Ok(name)
}

/// Gives the file to the config's owner.
fn give_back(place: &Place, name: &str) {
    let Place { dir, uid, gid, .. } = place;
    let path = dir.join(name);
    let is_theirs = fs::metadata(&path).is_ok_and(|it| (it.uid(), it.gid()) == (*uid, *gid));
    if is_theirs {
        return;
    }
    if let Err(error) = chown(&path, Some(*uid), Some(*gid)) {
        note(&format!(
            "cannot give {} to user {uid} and group {gid}, who had the config: {error}; run \
             `chown {uid}:{gid}` on it as root",
            path.display()
        ));
    }
}
