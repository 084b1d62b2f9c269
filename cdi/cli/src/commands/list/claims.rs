//! Which claims own the channels: the kubelet plugin's records.

use host_doctor::Host;
use host_doctor::facts::{CheckpointFile, HeldChannel, RecordFacts};
use imex_cdi::{ClaimUid, Kind, Registry, SpecFile};
use serde::Serialize;

/// The records of claims that have specs.
pub(super) struct ClaimRecords<'a> {
    kubelet_root: &'a str,
    /// `None` if no spec is a claim's.
    file: Option<CheckpointFile>,
}

/// The state of the checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CheckpointState {
    /// No spec is a claim's.
    NotRead,
    Read,
    /// Records may be missing.
    Damaged,
    Absent,
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
    /// Reads the checkpoint only if some spec is a claim's.
    pub(super) fn read(registry: &Registry, host: &Host, kubelet_root: &'a str) -> Self {
        let has_claims = registry.files().iter().any(|file| uid(file).is_some());
        Self {
            kubelet_root,
            file: has_claims.then(|| CheckpointFile::read(host, kubelet_root)),
        }
    }

    /// Returns the claim of a spec file.
    pub(super) fn claim(&self, file: &SpecFile) -> Option<ClaimReport> {
        let uid = uid(file)?;
        let record = match &self.file {
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

    pub(super) fn state(&self) -> CheckpointState {
        match &self.file {
            None => CheckpointState::NotRead,
            Some(CheckpointFile::Absent) => CheckpointState::Absent,
            Some(CheckpointFile::Unreadable(_)) => CheckpointState::Unreadable,
            Some(CheckpointFile::Read(checkpoint)) if checkpoint.damage.is_some() => {
                CheckpointState::Damaged
            }
            Some(CheckpointFile::Read(_)) => CheckpointState::Read,
        }
    }

    /// Why domains may be missing in the list. A missing checkpoint is not reported here: `doctor`
    /// checks that.
    pub(super) fn problem(&self) -> Option<String> {
        let unusable = match self.file.as_ref()? {
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

fn uid(file: &SpecFile) -> Option<ClaimUid> {
    let name = file.path.file_name()?.to_str()?;
    ClaimUid::from_spec_file_name(&Kind::compute_domain_claim(), name)
}
