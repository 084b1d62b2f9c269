//! The second file: the aborted records of a driver that has none in its checkpoint.

use durable_file::{Dir, Version};
use serde_json::value::RawValue;

use crate::disk;
use crate::error::{StoreError, storage};
use crate::format::Checkpoint;

/// The name of the file with the aborted records of a driver that has none in its checkpoint
/// ([`Payload::HAS_ABORTED`](crate::Payload::HAS_ABORTED)). The file is in the checkpoint's directory, under
/// the same lock, and exists only while there are aborted records.
///
/// The format is the checkpoint's: [`Checkpoint::decode`](crate::Checkpoint::decode) with the payload
/// `Box<RawValue>` reads it. A record in it counts if the checkpoint has the same boot id and no record of
/// the claim. The next commit removes records that do not count.
///
/// # Crashes
///
/// A commit that changes aborted records writes both files. After a crash each claim has its old or its new
/// record. If the commit changed several claims, some may have the old and others the new one.
///
/// # Damage
///
/// A file that cannot be read is renamed, for example to `aborted.json.damaged-not-json`, and its fences are
/// lost. The same happens to the fences if the file is deleted, or if the checkpoint's boot id is lost. This
/// is no [`Damage`](crate::Damage), because an aborted claim holds no device and has no effects. Without its
/// fence, a late attempt to prepare the claim is not refused.
pub const ABORTED_FILE: &str = "aborted.json";

/// The second file, as this process has last read or written it.
#[derive(Debug, Default)]
pub(crate) struct AbortedFile {
    /// `None`: no file.
    version: Option<Version>,
    /// Empty: no file.
    bytes: Vec<u8>,
}

// === impl AbortedFile ===

impl AbortedFile {
    /// Reads the file; sets aside one that cannot be read. The caller makes the directory durable.
    // req: CKPT-21
    pub(crate) fn load(dir: &dyn Dir) -> Result<(Self, Checkpoint<Box<RawValue>>), StoreError> {
        let code = match dir.read_version(ABORTED_FILE) {
            Ok(None) => return Ok((Self::default(), Checkpoint::empty())),
            Ok(Some((bytes, version))) => match Checkpoint::decode(&bytes) {
                Ok(content) => {
                    let version = Some(version);
                    return Ok((Self { version, bytes }, content));
                }
                Err(damaged) => damaged.reason.code(),
            },
            Err(unreadable) => unreadable.code(),
        };
        disk::rename_damaged(dir, ABORTED_FILE, code)?;
        Ok((Self::default(), Checkpoint::empty()))
    }

    /// Whether no other process has changed the file.
    pub(crate) fn is_current(&self, dir: &dyn Dir) -> Result<bool, StoreError> {
        let Some(version) = &self.version else {
            return Ok(matches!(dir.read(ABORTED_FILE), Ok(None)));
        };
        dir.is_current(ABORTED_FILE, version)
            .map_err(storage("read"))
    }

    /// Writes the file, or removes it if there are no `bytes`; always if `is_forced`, otherwise only if
    /// it has another content.
    pub(crate) fn write(
        &mut self,
        dir: &dyn Dir,
        bytes: &[u8],
        is_forced: bool,
    ) -> Result<(), StoreError> {
        if self.bytes == bytes && !is_forced {
            return Ok(());
        }
        self.version = if bytes.is_empty() {
            dir.remove(ABORTED_FILE).map_err(storage("write"))?;
            None
        } else {
            Some(disk::replace(dir, ABORTED_FILE, bytes)?)
        };
        self.bytes = bytes.to_vec();
        Ok(())
    }
}
