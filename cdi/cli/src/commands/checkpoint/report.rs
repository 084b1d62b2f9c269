//! The data that `checkpoint show` prints.

use std::collections::BTreeMap;
use std::path::Path;

use dra_checkpoint::{
    BootId, Checkpoint, ClaimRecord, Damaged, FilePart, KubeletDevice, Payload, State, Survivors,
};
use host_doctor::{DecodedCheckpoint, DraDriver};
use serde::{Deserialize, Serialize};

use super::contents::{Contents, Records};
use super::damage;

/// The kind of device that is a channel.
const CHANNEL: &str = "channel";

/// A checkpoint for people and scripts; unknown values are null.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CheckpointReport {
    pub(super) schema: &'static str,
    pub(super) file: String,
    /// Null for a damaged file.
    pub(super) layout: Option<&'static str>,
    pub(super) boot_id: Option<String>,
    pub(super) boot: Boot,
    pub(super) damage: Option<DamageReport>,
    /// The driver that wrote the file; null if unknown.
    pub(super) driver: Option<&'static str>,
    /// The drivers of the records, if `driver` is none of them; else empty.
    pub(super) foreign_drivers: Vec<String>,
    pub(super) claims: Vec<Claim>,
}

/// How the file's boot relates to that of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Boot {
    /// The host's current boot.
    Same,
    /// An earlier boot, or another host's.
    Other,
    /// The file has no boot id.
    NotRecorded,
    /// The part of the file that has it is damaged.
    Lost,
    /// The host's boot id cannot be read.
    HostUnknown,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DamageReport {
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) fix: &'static str,
    pub(super) survivors: &'static str,
    /// The checksums that do not match.
    pub(super) checksums: Vec<ChecksumReport>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChecksumReport {
    pub(super) part: &'static str,
    /// Null if it is missing, or not a number.
    pub(super) stored: Option<u64>,
    pub(super) computed: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Claim {
    pub(super) uid: String,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) state: ClaimState,
    pub(super) aborted_at: Option<String>,
    /// The prepared devices; empty unless the claim is completed.
    pub(super) devices: Vec<PreparedDevice>,
    /// The devices that the scheduler allocated, of every driver.
    pub(super) allocated: Vec<AllocatedDevice>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ClaimState {
    Started,
    Completed,
    Aborted,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PreparedDevice {
    pub(super) device: String,
    pub(super) pool: Option<String>,
    pub(super) requests: Vec<String>,
    pub(super) cdi_device_ids: Vec<String>,
    /// The IMEX channel; null for other devices.
    pub(super) channel: Option<u32>,
    /// Empty for a GPU.
    pub(super) compute_domain: String,
}

/// An element of `preparedDevices`, as far as the drivers have it in common.
#[derive(Debug, Deserialize)]
struct Group {
    /// Each with its kind: `channel`, `daemon`, `gpu`, `mig` or `vfio`. The other kinds are null.
    devices: Vec<BTreeMap<String, Option<Held>>>,
    #[serde(rename = "configState")]
    config_state: ConfigState,
}

#[derive(Debug, Deserialize)]
struct ConfigState {
    #[serde(rename = "ComputeDomain", default)]
    compute_domain: String,
}

#[derive(Debug, Deserialize)]
struct Held {
    info: Option<DeviceInfo>,
    device: Option<KubeletDevice>,
}

/// The number of a channel or daemon.
#[derive(Debug, Deserialize)]
struct DeviceInfo {
    id: Option<u32>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AllocatedDevice {
    pub(super) driver: String,
    pub(super) pool: String,
    pub(super) device: String,
    pub(super) request: String,
}

// === impl CheckpointReport ===

impl CheckpointReport {
    pub(super) fn new(path: &Path, contents: &Contents, host_boot: Option<&BootId>) -> Self {
        let report = match &contents.records {
            Records::Channels(decoded) => Self::of(path, decoded, host_boot, prepared_devices),
            Records::Gpus(decoded) => Self::of(path, decoded, host_boot, prepared_devices),
            Records::Raw(decoded) => Self::of(path, decoded, host_boot, |_| vec![]),
        };
        Self {
            driver: contents.driver.map(DraDriver::name),
            foreign_drivers: contents.foreign_drivers.clone(),
            ..report
        }
    }

    fn of<P: Payload>(
        path: &Path,
        decoded: &DecodedCheckpoint<P>,
        host_boot: Option<&BootId>,
        devices: impl Fn(&ClaimRecord<P>) -> Vec<PreparedDevice>,
    ) -> Self {
        let damaged = match decoded {
            Ok(checkpoint) => return Self::of_whole(path, checkpoint, host_boot, devices),
            Err(damaged) => damaged,
        };
        let saved = Self::of_whole(path, &damaged.saved, host_boot, devices);
        Self {
            layout: None,
            boot: if damaged.boot_id_is_lost() {
                Boot::Lost
            } else {
                saved.boot
            },
            damage: Some(DamageReport::new(path, damaged)),
            ..saved
        }
    }

    fn of_whole<P: Payload>(
        path: &Path,
        checkpoint: &Checkpoint<P>,
        host_boot: Option<&BootId>,
        devices: impl Fn(&ClaimRecord<P>) -> Vec<PreparedDevice>,
    ) -> Self {
        let claims = checkpoint.claims();
        Self {
            schema: "cdi-gen/checkpoint-show/v1",
            file: path.to_string_lossy().into_owned(),
            layout: Some(checkpoint.layout().code()),
            boot_id: checkpoint.boot_id().map(str::to_owned),
            boot: Boot::of(checkpoint.boot_id(), host_boot),
            damage: None,
            driver: None,
            foreign_drivers: vec![],
            claims: claims
                .map(|(uid, record)| Claim::new(uid, record, devices(record)))
                .collect(),
        }
    }
}

// === impl Boot ===

impl Boot {
    fn of(recorded: Option<&str>, host_boot: Option<&BootId>) -> Self {
        match (recorded, host_boot) {
            (None, _) => Self::NotRecorded,
            (Some(_), None) => Self::HostUnknown,
            (Some(recorded), Some(host)) if recorded == host.as_str() => Self::Same,
            (Some(_), Some(_)) => Self::Other,
        }
    }
}

// === impl DamageReport ===

impl DamageReport {
    fn new<P>(path: &Path, damaged: &Damaged<P>) -> Self {
        let checksums = damaged.mismatches.iter();
        Self {
            code: damaged.reason.code(),
            message: damaged.description(),
            fix: damage::fix(path, damaged),
            survivors: match damaged.survivors {
                Survivors::None => "none",
                Survivors::Some => "some",
                Survivors::All => "all",
            },
            checksums: checksums
                .map(|mismatch| ChecksumReport {
                    part: match mismatch.part {
                        FilePart::V1 => "v1",
                        FilePart::V2 => "v2",
                    },
                    stored: mismatch.stored,
                    computed: mismatch.computed,
                })
                .collect(),
        }
    }
}

// === impl Claim ===

impl Claim {
    fn new<P: Payload>(uid: &str, record: &ClaimRecord<P>, devices: Vec<PreparedDevice>) -> Self {
        let (state, aborted_at) = match &record.state {
            State::Started => (ClaimState::Started, None),
            State::Completed(_) => (ClaimState::Completed, None),
            State::Aborted { at } => (ClaimState::Aborted, at.map(|at| at.to_string())),
        };
        let results = record.status.results().iter();
        Self {
            uid: uid.to_owned(),
            namespace: non_empty(&record.namespace),
            name: non_empty(&record.name),
            state,
            aborted_at,
            devices,
            allocated: results
                .map(|result| AllocatedDevice {
                    driver: result.driver().to_owned(),
                    pool: result.pool().to_owned(),
                    device: result.device().to_owned(),
                    request: result.request().to_owned(),
                })
                .collect(),
        }
    }
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// Omits what it cannot read: devices as another version records them.
fn prepared_devices<P: Payload>(record: &ClaimRecord<P>) -> Vec<PreparedDevice> {
    let groups = record.devices().iter();
    let texts = groups.filter_map(|group| serde_json::to_string(group).ok());
    let groups = texts.filter_map(|text| serde_json::from_str::<Group>(&text).ok());
    groups.flat_map(Group::into_devices).collect()
}

// === impl Group ===

impl Group {
    fn into_devices(self) -> impl Iterator<Item = PreparedDevice> {
        let domain = self.config_state.compute_domain;
        let kinds = self.devices.into_iter().flatten();
        kinds.filter_map(move |(kind, held)| Some(PreparedDevice::new(&kind, held?, &domain)))
    }
}

// === impl PreparedDevice ===

impl PreparedDevice {
    /// The Go driver may record a device without its answer to kubelet.
    fn new(kind: &str, Held { info, device }: Held, compute_domain: &str) -> Self {
        let id = info.and_then(|info| info.id);
        let (device, pool, requests, ids) = match device {
            Some(it) => (
                Some(it.device_name),
                Some(it.pool_name),
                it.requests,
                it.cdi_device_ids,
            ),
            None => (None, None, None, None),
        };
        let unnamed = || id.map_or_else(|| kind.to_owned(), |id| format!("{kind}-{id}"));
        Self {
            device: device.unwrap_or_else(unnamed),
            pool,
            requests: requests.unwrap_or_default(),
            cdi_device_ids: ids.unwrap_or_default(),
            channel: id.filter(|_| kind == CHANNEL),
            compute_domain: compute_domain.to_owned(),
        }
    }
}
