//! The plugin's checkpoint, with the prepared claims and their channels, and the marker file
//! beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use compute_domain_node::{DeviceGroup, Holding, SharedMarker};
use dra_checkpoint::{
    ABORTED_FILE, CHECKPOINT_FILE, Checkpoint, ClaimRecord, DAMAGED_MARK, Damaged, Payload,
};
use gpu_node::{GpuGroup, PreparedDevice};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::kubelet_root::KubeletRootFacts;
use crate::dra_driver::DraDriver;
use crate::error_facts::refusal_hint;
use crate::host::Host;

/// The limit of a checkpoint in bytes. With a thousand claims it has 2.2 MB.
pub const MAX_CHECKPOINT_LEN: u64 = 256 << 20;

/// A checkpoint, or its damage and what survives.
pub type DecodedCheckpoint<P> = Result<Checkpoint<P>, Damaged<P>>;

/// An element of `preparedDevices` in the checkpoint of [`DraDriver::Gpu`], as JSON. Its fields are
/// not checked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawGpuGroup(Box<RawValue>);

/// The plugin's checkpoint file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckpointFile {
    /// It was read, damaged or not.
    Read(CheckpointFacts),
    /// It does not exist.
    Absent,
    /// It cannot be read; its content is unknown.
    Unreadable(Unusable),
}

/// Why a file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable {
    /// The reason.
    pub reason: String,
    /// The fix.
    pub hint: String,
}

/// A checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckpointFacts {
    /// Its records by claim UID; if it is damaged, those that survive.
    pub records: BTreeMap<String, RecordFacts>,
    /// The id of the boot in which it was written, if it has one.
    pub boot_id: Option<String>,
    /// The damage; `None` if it is intact.
    pub damage: Option<Unusable>,
    /// Why the file of aborted claims beside it cannot be used; `None` if it can, or does not
    /// exist.
    pub aborted_damage: Option<Unusable>,
}

/// A claim's record in the checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordFacts {
    /// The claim as `namespace/name`; `None` if the record has no names, as in old layouts.
    pub name: Option<String>,
    /// The name of its state in the checkpoint: `PrepareCompleted`.
    pub state: &'static str,
    /// Whether the claim is prepared.
    pub is_completed: bool,
    /// Whether it holds a share of a device.
    pub has_share: bool,
    /// The channels that it holds; empty unless the claim is prepared. Invalid channel numbers
    /// are omitted.
    pub channels: Vec<HeldChannel>,
    /// The names of the GPUs and MIG devices that no other claim may hold; empty unless the claim
    /// is prepared. Devices with `adminAccess` or with a share are omitted.
    pub gpus: BTreeSet<String>,
    /// The hardware of all GPUs and MIG devices that it holds; empty unless the claim is prepared.
    pub held: Vec<HeldGpu>,
}

/// A GPU, or a MIG device on it, that a prepared claim holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldGpu {
    /// The UUID of the GPU.
    pub gpu: String,
    /// The UUID of the MIG device; `None` if the claim holds the whole GPU.
    pub mig: Option<String>,
}

/// A channel that a prepared claim holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldChannel {
    /// The channel that the claim opens.
    pub channel: u32,
    /// The claim's allocated device: `channel-0` stands for the node.
    pub device: String,
    /// The UID of the claim's `ComputeDomain`.
    #[serde(rename = "computeDomain")]
    pub domain: String,
    /// The UID of the channel's owner, the domain or the claim. No other owner's claims may open
    /// the channel.
    #[serde(skip)]
    pub owner: String,
}

/// Whether claims share the node's device, according to the marker file beside the checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SharedDevice {
    /// There is no file: only one claim gets the device at a time.
    No,
    /// It is shared, or it was and claims may still hold it.
    Shared(SharedMarker),
    /// The file cannot be used, nor can the plugin use it.
    Unusable(Unusable),
    /// This process may not see whether the file exists.
    Unknown,
}

/// The records of a checkpoint by claim UID; if it is damaged, the surviving ones.
pub fn checkpoint_records<P>(decoded: &DecodedCheckpoint<P>) -> BTreeMap<&str, &ClaimRecord<P>> {
    let checkpoint = match decoded {
        Ok(checkpoint) => checkpoint,
        Err(damaged) => &damaged.saved,
    };
    checkpoint.claims().collect()
}

/// Whether a file of this name beside the checkpoint is a damaged checkpoint that was set aside.
/// Then claims may be missing in the checkpoint.
pub(super) fn is_set_aside(name: &str) -> bool {
    name.strip_prefix(CHECKPOINT_FILE)
        .is_some_and(|rest| rest.starts_with(DAMAGED_MARK))
}

/// Whether a file of this name is a damaged file of aborted claims that was set aside.
pub(super) fn is_aborted_set_aside(name: &str) -> bool {
    name.strip_prefix(ABORTED_FILE)
        .is_some_and(|rest| rest.starts_with(DAMAGED_MARK))
}

// === impl RawGpuGroup ===

impl Payload for RawGpuGroup {
    const HAS_ABORTED: bool = false;
}

impl RawGpuGroup {
    /// Empty if its fields are those of an unknown version.
    fn held(&self) -> Vec<HeldGpu> {
        let group = serde_json::from_str::<GpuGroup>(self.0.get());
        let devices = group.into_iter().flat_map(|it| it.devices);
        let held = devices.filter_map(|device| match device {
            PreparedDevice { gpu: Some(gpu), .. } => Some(HeldGpu {
                gpu: gpu.info.uuid,
                mig: None,
            }),
            PreparedDevice { mig: Some(mig), .. } => Some(HeldGpu {
                gpu: mig.concrete.parent_uuid,
                mig: Some(mig.concrete.mig_uuid),
            }),
            PreparedDevice { .. } => None,
        });
        held.collect()
    }
}

// === impl CheckpointFile ===

impl CheckpointFile {
    /// Reads the checkpoint of a driver's plugin below kubelet's root directory.
    pub fn read(host: &Host, kubelet_root: &str, driver: DraDriver) -> Self {
        match host.read_up_to(&driver.checkpoint(kubelet_root), MAX_CHECKPOINT_LEN) {
            Ok(Some(bytes)) => Self::Read(match driver {
                DraDriver::ComputeDomain => {
                    CheckpointFacts::new(&Checkpoint::decode(&bytes), RecordFacts::of_channels)
                }
                DraDriver::Gpu => {
                    CheckpointFacts::of_gpus(&bytes, host, &driver.aborted_file(kubelet_root))
                }
            }),
            Ok(None) => Self::Absent,
            Err(error) => Self::Unreadable(Unusable::from_refusal(&error)),
        }
    }
}

// === impl Unusable ===

impl Unusable {
    pub(super) fn from_refusal(error: &io::Error) -> Self {
        Self {
            reason: error.to_string(),
            hint: refusal_hint(error).to_owned(),
        }
    }

    fn from_damage<P>(damaged: &Damaged<P>) -> Self {
        Self {
            reason: damaged.reason.to_string(),
            hint: damaged.hint().to_owned(),
        }
    }
}

// === impl CheckpointFacts ===

impl CheckpointFacts {
    fn new<P>(
        decoded: &DecodedCheckpoint<P>,
        facts: fn(&str, &ClaimRecord<P>) -> RecordFacts,
    ) -> Self {
        let records = checkpoint_records(decoded).into_iter();
        let records = records.map(|(uid, record)| (uid.to_owned(), facts(uid, record)));
        let boot_id = decoded.as_ref().ok().and_then(Checkpoint::boot_id);
        Self {
            records: records.collect(),
            boot_id: boot_id.map(str::to_owned),
            damage: decoded.as_ref().err().map(Unusable::from_damage),
            aborted_damage: None,
        }
    }

    /// `aborted`: the path of the file of aborted claims.
    fn of_gpus(bytes: &[u8], host: &Host, aborted: &str) -> Self {
        let mut decoded = Checkpoint::<RawGpuGroup>::decode(bytes);
        let aborted = match host.read_up_to(aborted, MAX_CHECKPOINT_LEN) {
            Ok(Some(bytes)) => Checkpoint::<Box<RawValue>>::decode(&bytes)
                .map(Some)
                .map_err(|damaged| Unusable::from_damage(&damaged)),
            Ok(None) => Ok(None),
            Err(error) => Err(Unusable::from_refusal(&error)),
        };
        if let (Ok(checkpoint), Ok(Some(aborted))) = (&mut decoded, &aborted) {
            checkpoint.add_aborted(aborted);
        }
        Self {
            aborted_damage: aborted.err(),
            ..Self::new(&decoded, |_, record| RecordFacts::of_gpus(record))
        }
    }
}

// === impl RecordFacts ===

impl RecordFacts {
    /// The facts that do not depend on the driver.
    fn new<P>(record: &ClaimRecord<P>) -> Self {
        let ClaimRecord {
            namespace, name, ..
        } = record;
        let has_name = !namespace.is_empty() || !name.is_empty();
        Self {
            name: has_name.then(|| format!("{namespace}/{name}")),
            state: record.state.name(),
            is_completed: record.is_completed(),
            has_share: false,
            channels: vec![],
            gpus: BTreeSet::new(),
            held: vec![],
        }
    }

    fn of_gpus(record: &ClaimRecord<RawGpuGroup>) -> Self {
        let results = record.status.results_of(DraDriver::Gpu.name());
        let own = results.filter(|it| !it.admin_access() && it.share_id().is_none());
        let own = own.filter(|_| record.is_completed());
        Self {
            gpus: own.map(|it| it.device().to_owned()).collect(),
            held: record
                .devices()
                .iter()
                .flat_map(RawGpuGroup::held)
                .collect(),
            ..Self::new(record)
        }
    }

    fn of_channels(uid: &str, record: &ClaimRecord<DeviceGroup>) -> Self {
        let held = Holding::in_record(uid, record);
        let groups = record.devices().iter();
        let mut devices = groups.flat_map(DeviceGroup::kubelet_devices);
        Self {
            has_share: devices.any(|device| device.share_id.is_some()),
            channels: held
                .filter_map(|held| {
                    Some(HeldChannel {
                        channel: held.channel?.get(),
                        device: held.device.device_name().to_string(),
                        domain: held.domain.to_owned(),
                        owner: held.owner().to_owned(),
                    })
                })
                .collect(),
            ..Self::new(record)
        }
    }

    /// The numbers of its channels.
    pub fn numbers(&self) -> BTreeSet<u32> {
        self.channels.iter().map(|held| held.channel).collect()
    }

    /// Whether a spec that opens these channels matches the record.
    ///
    /// NVIDIA's driver records channel 0 also for a spec with all channels (`allocationMode`
    /// `All`), and for a spec with none (a node without a clique).
    pub fn agrees_with(&self, opened: &BTreeSet<u32>) -> bool {
        let recorded = self.numbers();
        if recorded.contains(&0) {
            opened.is_empty() || opened.contains(&0)
        } else {
            *opened == recorded
        }
    }

    /// The UIDs of its domains: one, unless another driver wrote the record.
    pub fn domains(&self) -> BTreeSet<&str> {
        let domains = self.channels.iter().map(|held| held.domain.as_str());
        domains.collect()
    }
}

// === impl SharedDevice ===

impl SharedDevice {
    /// Only claims of `compute-domain.nvidia.com` share a device.
    pub(super) fn read(host: &Host, root: &KubeletRootFacts) -> Self {
        if root.driver != DraDriver::ComputeDomain {
            return Self::No;
        }
        match host.read(&root.shared_marker()) {
            Ok(Some(content)) => Self::Shared(SharedMarker::decode(&content)),
            Ok(None) => Self::No,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Self::Unknown,
            Err(error) => Self::Unusable(Unusable::from_refusal(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    // req: DOCTOR-17
    #[test]
    fn a_record_of_go_has_the_uuids_of_its_gpus_and_mig_devices() {
        let dir = tempfile::tempdir().unwrap();
        let file = DraDriver::Gpu.checkpoint("kubelet");
        let file = dir.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let fixture = "../../checkpoint/tests/fixtures/23-gpu-all-kinds.json";
        fs::copy(fixture, file).unwrap();
        let host = Host::open(dir.path()).unwrap();
        let CheckpointFile::Read(read) = CheckpointFile::read(&host, "/kubelet", DraDriver::Gpu)
        else {
            panic!("not read");
        };
        // The first claim is not prepared, and the last one has a vfio device.
        let held: Vec<_> = read.records.into_values().map(|it| it.held).collect();
        let of = |gpu: &str, mig: Option<&str>| HeldGpu {
            gpu: gpu.to_owned(),
            mig: mig.map(str::to_owned),
        };
        let gpu = of("GPU-5bb9a7b4-d5a1-4c0c-9f0e-000000000001", None);
        let mig = of("GPU-2", Some("MIG-1"));
        assert_eq!(held, [vec![], vec![gpu], vec![mig], vec![]]);
    }
}
