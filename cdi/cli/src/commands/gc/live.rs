//! The claims that live on the node.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dra_checkpoint::{CHECKPOINT_FILE, Checkpoint};
use host_doctor::{
    DecodedCheckpoint, KUBELET_STATE_FILE, KubeletState, MAX_CHECKPOINT_LEN, ReadError,
    checkpoint_records, is_set_aside, read_bounded,
};
use imex_cdi::ClaimUid;

use super::error::GcError;

/// The UIDs of the claims whose specs are kept.
#[derive(Debug)]
pub(super) struct Live(BTreeSet<String>);

// === impl Live ===

impl Live {
    /// The claims in the checkpoint in `plugin`, in any state; what survives in
    /// checkpoints that were set aside; those in kubelet's state below `kubelet`;
    /// and those that were `named`. If none was named, it is an error that claims
    /// may be missing in the checkpoint.
    // req: DOCTOR-8
    pub(super) fn read(plugin: &Path, kubelet: &Path, named: &[String]) -> Result<Self, GcError> {
        for uid in named {
            ClaimUid::new(uid).map_err(GcError::Uid)?;
        }
        let mut live: BTreeSet<String> = named.iter().cloned().collect();
        live.extend(kubelet_claims(kubelet)?);
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

fn uids(decoded: &DecodedCheckpoint) -> Vec<String> {
    checkpoint_records(decoded)
        .into_keys()
        .map(str::to_owned)
        .collect()
}

/// `None` if there is no such file.
fn read(path: &Path) -> Result<Option<Vec<u8>>, GcError> {
    let path = path.to_owned();
    // A pipe would block while the plugin's lock is held.
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return Err(GcError::NotACheckpoint { path });
    }
    match read_bounded(&path, MAX_CHECKPOINT_LEN) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(ReadError::Io(source)) => Err(GcError::Read { path, source }),
        Err(ReadError::Directory | ReadError::TooLarge) => Err(GcError::NotACheckpoint { path }),
    }
}

/// kubelet's claims are in use, even if the plugin has lost its records of them.
fn kubelet_claims(root: &Path) -> Result<Vec<String>, GcError> {
    let path = root.join(KUBELET_STATE_FILE);
    let Some(bytes) = read(&path)? else {
        return Ok(vec![]);
    };
    match KubeletState::decode(&bytes) {
        Ok(state) => Ok(state.claims.into_keys().collect()),
        Err(source) => Err(GcError::Kubelet { path, source }),
    }
}

/// Checkpoints that were set aside: their claims may be missing in the current one.
fn unsettled(plugin: &Path) -> Result<Vec<PathBuf>, GcError> {
    let cannot_list = |source| GcError::List {
        path: plugin.to_owned(),
        source,
    };
    let entries = match fs::read_dir(plugin) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        entries => entries.map_err(cannot_list)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.map_err(cannot_list)?.file_name();
        if is_set_aside(&name.to_string_lossy()) {
            found.push(plugin.join(name));
        }
    }
    Ok(found)
}
