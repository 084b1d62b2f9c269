//! Which claims live, if that is known.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dra_checkpoint::{CHECKPOINT_FILE, Checkpoint};
use imex_cdi::ClaimUid;

use super::GcError;
use crate::checkpoint::MOST_BYTES;
use crate::claims::{self, Decoded, KUBELET_STATE};
use crate::reading::{self, ReadError};

/// The UIDs of claims whose specs stay.
#[derive(Debug)]
pub(super) struct Live(BTreeSet<String>);

// === impl Live ===

impl Live {
    /// Those of the checkpoint in `plugin`, in whatever state, of what is left
    /// of those that were set aside, those that kubelet has in `kubelet`, and
    /// those that were `named`. Without the latter, a checkpoint in which claims
    /// may be missing is an error.
    pub(super) fn read(plugin: &Path, kubelet: &Path, named: &[String]) -> Result<Self, GcError> {
        for uid in named {
            ClaimUid::new(uid).map_err(GcError::Uid)?;
        }
        let mut live: BTreeSet<String> = named.iter().cloned().collect();
        live.extend(of_kubelet(kubelet)?);
        let path = plugin.join(CHECKPOINT_FILE);
        let decoded = read(&path)?.map(|bytes| Checkpoint::decode(&bytes));
        let unsettled = unsettled(plugin)?;
        if named.is_empty() {
            match &decoded {
                None => return Err(GcError::Absent { path }),
                Some(Err(damaged)) => {
                    return Err(GcError::Damaged {
                        path,
                        reason: damaged.reason,
                    });
                }
                Some(Ok(_)) => {}
            }
            if let Some(path) = unsettled.first().cloned() {
                return Err(GcError::Unsettled { path });
            }
        }
        live.extend(decoded.iter().flat_map(uids));
        for path in unsettled {
            let decoded = read(&path)?.map(|bytes| Checkpoint::decode(&bytes));
            live.extend(decoded.iter().flat_map(uids));
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

fn uids(decoded: &Decoded) -> Vec<String> {
    claims::records(decoded)
        .into_keys()
        .map(str::to_owned)
        .collect()
}

/// `None` if there is no such file.
fn read(path: &Path) -> Result<Option<Vec<u8>>, GcError> {
    let path = path.to_owned();
    // A pipe would be waited for, with the plugin's lock held.
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return Err(GcError::NotACheckpoint { path });
    }
    match reading::read(&path, MOST_BYTES) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(ReadError::Io(source)) => Err(GcError::Read { path, source }),
        Err(ReadError::Directory | ReadError::TooLarge) => Err(GcError::NotACheckpoint { path }),
    }
}

/// What kubelet has is in use, also if the plugin's record of it is lost.
fn of_kubelet(root: &Path) -> Result<Vec<String>, GcError> {
    let path = root.join(KUBELET_STATE);
    let Some(bytes) = read(&path)? else {
        return Ok(vec![]);
    };
    match claims::decode_kubelet(&bytes) {
        Ok(state) => Ok(state.claims.into_keys().collect()),
        Err(source) => Err(GcError::Kubelet { path, source }),
    }
}

/// A whole checkpoint beside one that was set aside may lack its claims.
fn unsettled(plugin: &Path) -> Result<Vec<PathBuf>, GcError> {
    let unread = |source| GcError::List {
        path: plugin.to_owned(),
        source,
    };
    let entries = match fs::read_dir(plugin) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        entries => entries.map_err(unread)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.map_err(unread)?.file_name();
        if claims::is_unsettled(&name.to_string_lossy()) {
            found.push(plugin.join(name));
        }
    }
    Ok(found)
}
