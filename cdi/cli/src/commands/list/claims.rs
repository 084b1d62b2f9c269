//! Which claims own the devices: the records of the kubelet plugins.

use std::collections::BTreeMap;

use host_doctor::facts::{CheckpointFile, HeldChannel, RecordFacts};
use host_doctor::{DraDriver, Host};
use imex_cdi::{ClaimUid, Registry, SpecFile};
use serde::Serialize;

/// The records of claims that have specs.
pub(super) struct ClaimRecords<'a> {
    kubelet_root: &'a str,
    /// One for each driver that has a claim with a spec.
    files: BTreeMap<DraDriver, CheckpointFile>,
}

/// The state of a checkpoint, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CheckpointState {
    /// No spec is a claim's.
    NotRead,
    Read,
    Absent,
    /// Records may be missing.
    Damaged,
    Unreadable,
}

/// The claim of a device.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClaimReport {
    uid: String,
    name: Option<String>,
    channels: Vec<HeldChannel>,
    /// Only for comparing.
    #[serde(skip)]
    pub(super) record: Option<RecordFacts>,
}

// === impl ClaimRecords ===

impl<'a> ClaimRecords<'a> {
    /// Reads a driver's checkpoint only if some spec is a claim's of the driver.
    pub(super) fn read(registry: &Registry, host: &Host, kubelet_root: &'a str) -> Self {
        let mut files = BTreeMap::new();
        for (driver, _) in registry.files().iter().filter_map(claim_of) {
            files
                .entry(driver)
                .or_insert_with(|| CheckpointFile::read(host, kubelet_root, driver));
        }
        Self {
            kubelet_root,
            files,
        }
    }

    /// Returns the claim of a spec file.
    pub(super) fn claim(&self, file: &SpecFile) -> Option<ClaimReport> {
        let (driver, uid) = claim_of(file)?;
        let record = match self.files.get(&driver) {
            Some(CheckpointFile::Read(checkpoint)) => checkpoint.records.get(uid.as_str()),
            _ => None,
        };
        Some(ClaimReport {
            uid: uid.to_string(),
            name: record.and_then(|record| record.name.clone()),
            channels: record.map_or(vec![], |record| record.channels.clone()),
            record: record.cloned(),
        })
    }

    /// The worst state of the checkpoints.
    pub(super) fn state(&self) -> CheckpointState {
        let states = self.files.values().map(|file| match file {
            CheckpointFile::Absent => CheckpointState::Absent,
            CheckpointFile::Unreadable(_) => CheckpointState::Unreadable,
            CheckpointFile::Read(checkpoint) if checkpoint.damage.is_some() => {
                CheckpointState::Damaged
            }
            CheckpointFile::Read(_) => CheckpointState::Read,
        });
        states.max().unwrap_or(CheckpointState::NotRead)
    }

    /// Why domains may be missing in the list. A missing checkpoint is not reported here: `doctor`
    /// checks that.
    pub(super) fn problem(&self) -> Option<String> {
        let unusable = match self.files.get(&DraDriver::ComputeDomain)? {
            CheckpointFile::Unreadable(unusable) => unusable,
            CheckpointFile::Read(checkpoint) => checkpoint.damage.as_ref()?,
            CheckpointFile::Absent => return None,
        };
        let (reason, hint) = (&unusable.reason, &unusable.hint);
        Some(format!(
            "ComputeDomains may be missing from this list, because the kubelet plugin's checkpoint under {} cannot be used: {reason}; {hint}",
            self.kubelet_root
        ))
    }
}

/// The driver and the UID of the claim that has this spec.
fn claim_of(file: &SpecFile) -> Option<(DraDriver, ClaimUid)> {
    let name = file.path.file_name()?.to_str()?;
    DraDriver::ALL.into_iter().find_map(|driver| {
        let uid = ClaimUid::from_spec_file_name(&driver.claim_kind(), name)?;
        Some((driver, uid))
    })
}
