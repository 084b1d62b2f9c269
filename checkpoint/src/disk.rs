//! The checkpoint's directory: the file, its lock, and damaged files set aside.

use std::time::Duration;

use durable_file::{Dir, Error as FileError, Lock, Version};

use crate::damage::{self, Damage, DamageReason};
use crate::error::{StoreError, storage};
use crate::format::Checkpoint;
use crate::record::Payload;

/// The file's name in its directory, the same as Go's.
pub const CHECKPOINT_FILE: &str = "checkpoint.json";
/// The lock's name beside it, the same as Go's.
pub const LOCK_FILE: &str = "pu.lock";

const FILE_MODE: u32 = 0o600;
/// As long as Go waits. A Go plugin may hold the lock across API calls.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// What is on the disk. A damaged file has been set aside.
pub(crate) struct Loaded<P> {
    pub(crate) checkpoint: Checkpoint<P>,
    pub(crate) version: Option<Version>,
    pub(crate) damage: Damage,
}

/// Keeps every other process from changing the file.
// req: CKPT-1
pub(crate) fn lock(dir: &dyn Dir) -> Result<Lock, StoreError> {
    dir.lock(LOCK_FILE, LOCK_TIMEOUT).map_err(storage("lock"))
}

/// Whether the file is still the one that `version` is of; `None`: no file.
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
pub(crate) fn replace(dir: &dyn Dir, bytes: &[u8]) -> Result<Version, StoreError> {
    dir.replace(CHECKPOINT_FILE, bytes, FILE_MODE)
        .map_err(storage("write"))
}

/// Reads the file; sets a damaged one aside. What it returns is durable.
pub(crate) fn load<P: Payload>(dir: &dyn Dir) -> Result<Loaded<P>, StoreError> {
    let (bytes, version) = match dir.read_version(CHECKPOINT_FILE) {
        Ok(Some((bytes, version))) => (bytes, version),
        Ok(None) => return load_aside(dir),
        Err(FileError::NotAFile { .. }) => return set_aside(dir, DamageReason::NotAFile),
        Err(source) => return Err(storage("read")(source)),
    };
    match Checkpoint::decode(&bytes) {
        Ok(checkpoint) => {
            // Its writer may have died before the fsync of the directory.
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
    let name = free_name(dir, reason)?;
    dir.rename(CHECKPOINT_FILE, &name)
        .map_err(storage("set aside"))?;
    load_aside(dir)
}

/// A name for the file that is damaged for this reason.
fn free_name(dir: &dyn Dir, reason: DamageReason) -> Result<String, StoreError> {
    let taken = dir.list().map_err(storage("read"))?;
    Ok(damage::name_aside(CHECKPOINT_FILE, reason, &taken))
}

/// Without a file: either there never was one, or what can be recovered is in
/// those that were set aside, by us or by a process that died before its next
/// write.
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

/// Leaves an empty file that stands for the records that are missing, so that every process knows
/// of it. To be called under the lock.
// req: CKPT-14
pub(crate) fn note_missing(dir: &dyn Dir) -> Result<Damage, StoreError> {
    if damaged_files(dir)?.is_empty() {
        dir.replace(&free_name(dir, DamageReason::Missing)?, b"", FILE_MODE)
            .map_err(storage("set aside"))?;
    }
    earlier_damage(dir)
}

/// What a file that was set aside still says.
fn recover<P: Payload>(dir: &dyn Dir, name: &str) -> Result<Checkpoint<P>, StoreError> {
    match dir.read(name) {
        // A later version of us may understand what an earlier did not.
        Ok(bytes) => {
            Ok(Checkpoint::decode(&bytes.unwrap_or_default())
                .unwrap_or_else(|damaged| damaged.saved))
        }
        Err(FileError::NotAFile { .. }) => Ok(Checkpoint::empty()),
        Err(source) => Err(storage("read")(source)),
    }
}

/// Whether a file that was set aside may have held more than is known.
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
