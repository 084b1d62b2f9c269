//! What `checkpoint show` prints, as data.

use std::path::Path;

use compute_domain_node::{DeviceDetails, DeviceGroup};
use dra_checkpoint::{
    BootId, Checkpoint, ClaimRecord, Damaged, FilePart, Layout, Mismatch, Payload, State, Survivors,
};
use serde::{Serialize, Serializer};

use super::contents::Contents;
use super::damage;

/// The kind of device that is a channel; the others are daemons.
const CHANNEL: &str = "channel";

/// A checkpoint for people and scripts. What is not known is null.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CheckpointReport {
    pub(super) schema: &'static str,
    pub(super) file: String,
    /// Null for a damaged file.
    pub(super) layout: Option<ByCode>,
    pub(super) boot_id: Option<String>,
    pub(super) boot: Boot,
    pub(super) damage: Option<DamageReport>,
    /// The drivers of the records, if none is this driver's; else empty.
    pub(super) foreign_drivers: Vec<String>,
    pub(super) claims: Vec<Claim>,
}

/// Serialized as the layout's `code()`.
#[derive(Debug, Clone, Copy)]
pub(super) struct ByCode(pub(super) Layout);

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
    /// The ones that do not match.
    pub(super) checksums: Vec<ChecksumReport>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChecksumReport {
    pub(super) part: &'static str,
    /// Null if there is none, or no number.
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
    /// The devices that the scheduler chose for it, of every driver.
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
    /// The one that the claim opens; null for a daemon.
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
            layout: Some(ByCode(checkpoint.layout())),
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

// === impl ByCode ===

impl Serialize for ByCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.code())
    }
}

// === impl DamageReport ===

impl DamageReport {
    fn new(path: &Path, damaged: &Damaged<DeviceGroup>) -> Self {
        Self {
            code: damaged.reason.code(),
            message: damaged.description(),
            fix: damage::fix(path, damaged),
            survivors: match damaged.survivors {
                Survivors::None => "none",
                Survivors::Some => "some",
                Survivors::All => "all",
            },
            checksums: damaged.mismatches.iter().map(ChecksumReport::new).collect(),
        }
    }
}

impl ChecksumReport {
    fn new(mismatch: &Mismatch) -> Self {
        Self {
            part: match mismatch.part {
                FilePart::V1 => "v1",
                FilePart::V2 => "v2",
            },
            stored: mismatch.stored,
            computed: mismatch.computed,
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
    let compute_domain = compute_domain.to_owned();
    let channel = (kind == CHANNEL).then_some(info.id);
    match device.clone() {
        None => PreparedDevice {
            device: format!("{kind}-{}", info.id),
            pool: None,
            requests: vec![],
            cdi_device_ids: vec![],
            channel,
            compute_domain,
        },
        Some(device) => PreparedDevice {
            device: device.device_name,
            pool: Some(device.pool_name),
            requests: device.requests.unwrap_or_default(),
            cdi_device_ids: device.cdi_device_ids.unwrap_or_default(),
            channel,
            compute_domain,
        },
    }
}
