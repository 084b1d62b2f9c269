//! The checkpoint's directory: the file, its lock, and damaged files set aside.

use std::time::Duration;

use durable_file::{Dir, Error as FileError, Lock, Version};

use crate::damage::{self, Damage, DamageReason};
use crate::error::{StoreError, storage};
use crate::format::Checkpoint;
use crate::record::Payload;

/// The file's name in its directory, the same as Go's.
pub const CHECKPOINT_FILE: &str = "checkpoint.json";
/// The lock file's name in that directory, the same as Go's.
pub const LOCK_FILE: &str = "pu.lock";

const FILE_MODE: u32 = 0o600;
/// The same as Go's. A Go plugin may hold the lock across API calls.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The checkpoint on disk. A damaged file has been set aside.
pub(crate) struct Loaded<P> {
    pub(crate) checkpoint: Checkpoint<P>,
    pub(crate) version: Option<Version>,
    pub(crate) damage: Damage,
}

/// Takes the lock that keeps other processes from changing the file.
// req: CKPT-1
pub(crate) fn lock(dir: &dyn Dir) -> Result<Lock, StoreError> {
    dir.lock(LOCK_FILE, LOCK_TIMEOUT).map_err(storage("lock"))
}

/// Whether the file still has this version; `None`: no file.
pub(crate) fn is_current(dir: &dyn Dir, version: Option<&Version>) -> Result<bool, StoreError> {
    match version {
        Some(version) => dir.is_current(CHECKPOINT_FILE, version),
        None => match dir.read(CHECKPOINT_FILE) {
            Err(FileError::NotAFile { .. }) => Ok(false),
            file => file.map(|bytes| bytes.is_none()),
        },
    }
    .map_err(storage("read"))
}

// req: CKPT-16
pub(crate) fn replace(dir: &dyn Dir, file: &str, bytes: &[u8]) -> Result<Version, StoreError> {
    dir.replace(file, bytes, FILE_MODE)
        .map_err(storage("write"))
}

/// Reads the file; sets a damaged one aside. The directory, with the returned content, is durable.
pub(crate) fn load<P: Payload>(dir: &dyn Dir) -> Result<Loaded<P>, StoreError> {
    let (bytes, version) = match dir.read_version(CHECKPOINT_FILE) {
        Ok(Some((bytes, version))) => (bytes, version),
        Ok(None) => return load_aside(dir),
        Err(FileError::NotAFile { .. }) => return set_aside(dir, DamageReason::NotAFile),
        Err(source) => return Err(storage("read")(source)),
    };
    match Checkpoint::decode(&bytes) {
        Ok(checkpoint) => {
            // The writer may have died before the fsync of the directory.
            dir.sync().map_err(storage("read"))?;
            let damage = earlier_damage(dir)?;
            Ok(Loaded {
                checkpoint,
                version: Some(version),
                damage,
            })
        }
        Err(damaged) => set_aside(dir, damaged.reason),
    }
}

// req: CKPT-10
fn set_aside<P: Payload>(dir: &dyn Dir, reason: DamageReason) -> Result<Loaded<P>, StoreError> {
    rename_damaged(dir, CHECKPOINT_FILE, reason.code())?;
    load_aside(dir)
}

/// Gives a damaged file an unused name with this code.
pub(crate) fn rename_damaged(dir: &dyn Dir, file: &str, code: &str) -> Result<(), StoreError> {
    let name = free_name(dir, file, code)?;
    dir.rename(file, &name).map_err(storage("set aside"))
}

fn free_name(dir: &dyn Dir, file: &str, code: &str) -> Result<String, StoreError> {
    let taken = dir.list().map_err(storage("read"))?;
    Ok(damage::name_aside(file, code, &taken))
}

/// Loads the checkpoint if there is no file. Records may be in files that this
/// process, or one that died before its next write, has set aside.
fn load_aside<P: Payload>(dir: &dyn Dir) -> Result<Loaded<P>, StoreError> {
    dir.sync().map_err(storage("read"))?;
    let mut checkpoint = Checkpoint::empty();
    for (name, _) in damaged_files(dir)? {
        checkpoint.add_missing(recover(dir, &name)?);
    }
    Ok(Loaded {
        checkpoint,
        version: None,
        damage: earlier_damage(dir)?,
    })
}

/// Creates an empty `.damaged-missing` file, so that every process learns that records are missing.
/// The caller holds the lock.
// req: CKPT-14
pub(crate) fn note_missing(dir: &dyn Dir) -> Result<Damage, StoreError> {
    if damaged_files(dir)?.is_empty() {
        let name = free_name(dir, CHECKPOINT_FILE, DamageReason::Missing.code())?;
        dir.replace(&name, b"", FILE_MODE)
            .map_err(storage("set aside"))?;
    }
    earlier_damage(dir)
}

/// Recovers the records of a file that was set aside.
fn recover<P: Payload>(dir: &dyn Dir, name: &str) -> Result<Checkpoint<P>, StoreError> {
    match dir.read(name) {
        // This version may understand what an earlier one did not.
        Ok(bytes) => {
            Ok(Checkpoint::decode(&bytes.unwrap_or_default())
                .unwrap_or_else(|damaged| damaged.saved))
        }
        Err(FileError::NotAFile { .. }) => Ok(Checkpoint::empty()),
        Err(source) => Err(storage("read")(source)),
    }
}

/// Reports damage while there is a file set aside that is not settled.
fn earlier_damage(dir: &dyn Dir) -> Result<Damage, StoreError> {
    let first = damaged_files(dir)?.into_iter().next();
    Ok(
        first.map_or(Damage::None, |(set_aside_as, reason)| Damage::Damaged {
            reason,
            set_aside_as,
        }),
    )
}

fn damaged_files(dir: &dyn Dir) -> Result<Vec<(String, DamageReason)>, StoreError> {
    let names = dir.list().map_err(storage("read"))?.into_iter();
    let with_reason = names.filter_map(|name| {
        let reason = damage::damaged_reason(CHECKPOINT_FILE, &name)?;
        Some((name, reason))
    });
    Ok(with_reason.collect())
}

/// Renames every damaged file: the checkpoint is rebuilt.
pub(crate) fn mark_settled(dir: &dyn Dir) -> Result<(), StoreError> {
    for (name, _) in damaged_files(dir)? {
        dir.rename(&name, &damage::settled_name(&name))
            .map_err(storage("set aside"))?;
    }
    Ok(())
}
