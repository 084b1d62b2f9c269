//! The contents of a checkpoint file: this driver's records, another driver's, or damage.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use compute_domain_api::names::DRIVER_NAME;
use compute_domain_node::DeviceGroup;
use dra_checkpoint::{CHECKPOINT_FILE, Checkpoint, ClaimRecord, DAMAGED_MARK, Damaged, Payload};
use host_doctor::MAX_CHECKPOINT_LEN;
use serde_json::value::RawValue;

use crate::input::{self, ReadError, directory_of};
use crate::outcome::Failure;

/// A checkpoint file.
pub(super) enum Contents {
    Own(Checkpoint<DeviceGroup>),
    /// An intact checkpoint of other drivers. Their devices are not decoded: each driver has its own layout.
    Foreign {
        checkpoint: Checkpoint<Box<RawValue>>,
        drivers: Vec<String>,
    },
    Damaged(Box<Damaged<DeviceGroup>>),
}

// === impl Contents ===

impl Contents {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let limit = usize::try_from(MAX_CHECKPOINT_LEN).unwrap_or(usize::MAX);
        let bytes = input::read(path, limit, |error| read_hint(path, error).map(Into::into))?;
        let damaged = match Checkpoint::decode(&bytes) {
            Ok(checkpoint) => return Ok(Self::Own(checkpoint)),
            Err(damaged) => Box::new(damaged),
        };
        let Ok(checkpoint) = Checkpoint::<Box<RawValue>>::decode(&bytes) else {
            return Ok(Self::Damaged(damaged));
        };
        let drivers: BTreeSet<_> = checkpoint.claims().flat_map(drivers_of).collect();
        if drivers.is_empty() || drivers.contains(DRIVER_NAME) {
            return Ok(Self::Damaged(damaged));
        }
        let drivers = drivers.into_iter().collect();
        Ok(Self::Foreign {
            checkpoint,
            drivers,
        })
    }
}

fn drivers_of<P: Payload>(claim: (&str, &ClaimRecord<P>)) -> Vec<String> {
    let results = claim.1.status.results().iter();
    results.map(|it| it.driver().to_owned()).collect()
}

/// The hint for a checkpoint that cannot be read.
fn read_hint(path: &Path, error: &ReadError) -> Option<String> {
    let hint = match error {
        ReadError::Directory => {
            let file = path.join(CHECKPOINT_FILE);
            return Some(format!(
                "pass the file in this directory, for example {}",
                file.display()
            ));
        }
        ReadError::Io(source) => match source.kind() {
            ErrorKind::NotFound => {
                let set_aside = set_aside(path);
                if !set_aside.is_empty() {
                    let names = set_aside.join(", ");
                    return Some(format!(
                        "the plugin found the checkpoint damaged and renamed the file; see {names}"
                    ));
                }
                "check the path; set --kubelet-root if kubelet's root directory is not \
                 /var/lib/kubelet, and --root if the host's root is not /. The plugin creates \
                 the file when it prepares the first claim"
            }
            ErrorKind::PermissionDenied => {
                "the plugin's files belong to root: run cdi-gen as root, or pass a copy of the file"
            }
            _ => return None,
        },
        ReadError::TooLarge => {
            "the file is too large for a checkpoint (a thousand claims take about 2 MB): check the path"
        }
    };
    Some(hint.to_owned())
}

/// The damaged files that once had this name; none if the directory cannot be
/// listed.
fn set_aside(path: &Path) -> Vec<String> {
    let Some(name) = path.file_name() else {
        return vec![];
    };
    let beginning = [name.as_encoded_bytes(), DAMAGED_MARK.as_bytes()].concat();
    let entries = fs::read_dir(directory_of(path)).into_iter().flatten();
    let names = entries.flatten().map(|entry| entry.file_name());
    let names = names.filter(|it| it.as_encoded_bytes().starts_with(&beginning));
    let mut found: Vec<PathBuf> = names.map(|name| path.with_file_name(name)).collect();
    found.sort();
    let found = found.iter().map(|path| path.to_string_lossy().into_owned());
    found.collect()
}
