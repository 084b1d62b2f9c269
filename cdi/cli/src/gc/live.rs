//! Which claims live, if that is known.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use dra_checkpoint::{CHECKPOINT_FILE, Checkpoint};
use imex_cdi::ClaimUid;

use super::GcError;
use crate::checkpoint::MOST_BYTES;
use crate::claims;
use crate::reading::{self, ReadError};

/// The UIDs of claims whose specs stay.
#[derive(Debug)]
pub(super) struct Live(BTreeSet<String>);

// === impl Live ===

impl Live {
    /// Those of the checkpoint in `plugin`, in whatever state, and those that
    /// were `named`. Without the latter, a checkpoint in which claims may be
    /// missing is an error.
    pub(super) fn read(plugin: &Path, named: &[String]) -> Result<Self, GcError> {
        for uid in named {
            ClaimUid::new(uid).map_err(GcError::Uid)?;
        }
        let mut live: BTreeSet<String> = named.iter().cloned().collect();
        let path = plugin.join(CHECKPOINT_FILE);
        let bytes = match reading::read(&path, MOST_BYTES) {
            Ok(bytes) => Some(bytes),
            Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => None,
            Err(ReadError::Io(source)) => return Err(GcError::Read { path, source }),
            Err(ReadError::Directory | ReadError::TooLarge) => {
                return Err(GcError::NotACheckpoint { path });
            }
        };
        let decoded = bytes.map(|bytes| Checkpoint::decode(&bytes));
        if named.is_empty() {
            match &decoded {
                None => return Err(GcError::Absent { path }),
                Some(Err(damaged)) => {
                    return Err(GcError::Damaged {
                        path,
                        reason: damaged.reason,
                    });
                }
                Some(Ok(_)) => refuse_unsettled(plugin)?,
            }
        }
        if let Some(decoded) = &decoded {
            live.extend(claims::records(decoded).into_keys().map(str::to_owned));
        }
        Ok(Self(live))
    }

    pub(super) fn has(&self, uid: &ClaimUid) -> bool {
        self.0.contains(uid.as_str())
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

/// A whole checkpoint beside one that was set aside may lack its claims.
fn refuse_unsettled(plugin: &Path) -> Result<(), GcError> {
    let unread = |source| GcError::List {
        path: plugin.to_owned(),
        source,
    };
    for entry in fs::read_dir(plugin).map_err(unread)? {
        let name = entry.map_err(unread)?.file_name();
        if claims::is_unsettled(&name.to_string_lossy()) {
            let path = plugin.join(name);
            return Err(GcError::Unsettled { path });
        }
    }
    Ok(())
}
