//! The data that `checkpoint show` prints.

use std::path::Path;

use compute_domain_node::{DeviceDetails, DeviceGroup};
use dra_checkpoint::{
    BootId, Checkpoint, ClaimRecord, Damaged, FilePart, Payload, State, Survivors,
};
use serde::Serialize;

use super::contents::Contents;
use super::damage;

/// The kind of device that is a channel; the others are daemons.
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
    /// The drivers of the records, if none is this driver's; else empty.
    pub(super) foreign_drivers: Vec<String>,
    pub(super) claims: Vec<Claim>,
}

/// How the file's boot relates to the host that this runs on.
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
    /// This host's boot id cannot be read.
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
    /// The IMEX channel; null for a daemon.
    pub(super) channel: Option<u32>,
    pub(super) compute_domain: String,
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
    pub(super) fn new(path: &Path, contents: &Contents, this_boot: Option<&BootId>) -> Self {
        match contents {
            Contents::Own(checkpoint) => Self::of(path, checkpoint, this_boot, prepared_devices),
            Contents::Foreign {
                checkpoint,
                drivers,
            } => Self {
                foreign_drivers: drivers.clone(),
                ..Self::of(path, checkpoint, this_boot, |_| vec![])
            },
            Contents::Damaged(damaged) => {
                let whole = Self::of(path, &damaged.saved, this_boot, prepared_devices);
                Self {
                    layout: None,
                    boot: if damaged.boot_id_is_lost() {
                        Boot::Lost
                    } else {
                        whole.boot
                    },
                    damage: Some(DamageReport::new(path, damaged)),
                    ..whole
                }
            }
        }
    }

    fn of<P: Payload>(
        path: &Path,
        checkpoint: &Checkpoint<P>,
        this_boot: Option<&BootId>,
        devices: impl Fn(&ClaimRecord<P>) -> Vec<PreparedDevice>,
    ) -> Self {
        let claims = checkpoint.claims();
        Self {
            schema: "cdi-gen/checkpoint-show/v1",
            file: path.to_string_lossy().into_owned(),
            layout: Some(checkpoint.layout().code()),
            boot_id: checkpoint.boot_id().map(str::to_owned),
            boot: Boot::of(checkpoint.boot_id(), this_boot),
            damage: None,
            foreign_drivers: vec![],
            claims: claims
                .map(|(uid, record)| Claim::new(uid, record, devices(record)))
                .collect(),
        }
    }
}

// === impl Boot ===

impl Boot {
    fn of(recorded: Option<&str>, this_boot: Option<&BootId>) -> Self {
        match (recorded, this_boot) {
            (None, _) => Self::NotRecorded,
            (Some(_), None) => Self::HostUnknown,
            (Some(recorded), Some(this)) if recorded == this.as_str() => Self::Same,
            (Some(_), Some(_)) => Self::Other,
        }
    }
}

// === impl DamageReport ===

impl DamageReport {
    fn new(path: &Path, damaged: &Damaged<DeviceGroup>) -> Self {
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

fn prepared_devices(record: &ClaimRecord<DeviceGroup>) -> Vec<PreparedDevice> {
    record.devices().iter().flat_map(devices).collect()
}

fn devices(group: &DeviceGroup) -> impl Iterator<Item = PreparedDevice> {
    group.devices.iter().filter_map(|slot| {
        let compute_domain_node::PreparedDevice { channel, daemon } = slot;
        let (held, kind) = match (channel, daemon) {
            (Some(channel), _) => (channel, CHANNEL),
            (None, Some(daemon)) => (daemon, "daemon"),
            (None, None) => return None,
        };
        Some(prepared(held, kind, &group.config_state.compute_domain))
    })
}

/// The Go driver may record a device without its answer to kubelet.
fn prepared(held: &DeviceDetails, kind: &str, compute_domain: &str) -> PreparedDevice {
    let DeviceDetails { info, device } = held;
    let device = device.as_ref();
    let name = device.map(|device| device.device_name.clone());
    let requests = device.and_then(|device| device.requests.clone());
    let ids = device.and_then(|device| device.cdi_device_ids.clone());
    PreparedDevice {
        device: name.unwrap_or_else(|| format!("{kind}-{}", info.id)),
        pool: device.map(|device| device.pool_name.clone()),
        requests: requests.unwrap_or_default(),
        cdi_device_ids: ids.unwrap_or_default(),
        channel: (kind == CHANNEL).then_some(info.id),
        compute_domain: compute_domain.to_owned(),
    }
}
