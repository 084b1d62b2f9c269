//! What `show` says of a checkpoint, as data: the table and the JSON are two
//! views of it.

use std::path::Path;

use compute_domain_node::{Group, Held, Slot};
use dra_checkpoint::{BootId, ClaimRecord, Damaged, FilePart, Layout, Mismatch, State, Survivors};
use serde::{Serialize, Serializer};

use super::fix::fix;
use super::what_is_wrong;
use crate::claims::Decoded;

/// Names the shape of the JSON. Members may be added to a version; one that
/// goes, or means something else, makes the next.
const SCHEMA: &str = "cdi-gen/checkpoint-show/v1";

/// A checkpoint for people and scripts. Members that are not known are null.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) schema: &'static str,
    pub(super) file: String,
    /// Null for a damaged file.
    pub(super) layout: Option<ByCode>,
    pub(super) boot_id: Option<String>,
    pub(super) boot: Boot,
    pub(super) damage: Option<DamageReport>,
    pub(super) claims: Vec<Claim>,
}

/// A layout, to scripts its stable word.
#[derive(Debug, Clone, Copy)]
pub(super) struct ByCode(pub(super) Layout);

/// How the file's boot relates to the host that this runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Boot {
    /// The one that this host is in.
    Same,
    /// An earlier one, or another host's.
    Other,
    /// The file does not say.
    NotRecorded,
    /// What said it is damaged.
    Lost,
    /// This host does not say.
    HostUnknown,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DamageReport {
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) fix: &'static str,
    pub(super) survivors: &'static str,
    /// Those that do not match.
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
    /// What the claim holds; empty unless it is completed.
    pub(super) devices: Vec<PreparedDevice>,
    /// What the scheduler chose for it, of every driver.
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

// === impl Report ===

impl Report {
    pub(super) fn of(path: &Path, decoded: &Decoded, this_boot: Option<&BootId>) -> Self {
        let (checkpoint, damage) = match decoded {
            Ok(checkpoint) => (checkpoint, None),
            Err(damaged) => (&damaged.saved, Some(DamageReport::of(path, damaged))),
        };
        Self {
            schema: SCHEMA,
            file: path.to_string_lossy().into_owned(),
            layout: decoded.as_ref().ok().map(|whole| ByCode(whole.layout())),
            boot_id: checkpoint.boot_id().map(str::to_owned),
            boot: boot(decoded, this_boot),
            damage,
            claims: checkpoint
                .claims()
                .map(|(uid, record)| Claim::of(uid, record))
                .collect(),
        }
    }
}

fn boot(decoded: &Decoded, this_boot: Option<&BootId>) -> Boot {
    let recorded = match decoded {
        Ok(checkpoint) => checkpoint.boot_id(),
        Err(damaged) if damaged.boot_id_is_lost() => return Boot::Lost,
        Err(damaged) => damaged.saved.boot_id(),
    };
    match (recorded, this_boot) {
        (None, _) => Boot::NotRecorded,
        (Some(_), None) => Boot::HostUnknown,
        (Some(recorded), Some(this)) if recorded == this.as_str() => Boot::Same,
        (Some(_), Some(_)) => Boot::Other,
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
    fn of(path: &Path, damaged: &Damaged<Group>) -> Self {
        Self {
            code: damaged.reason.code(),
            message: what_is_wrong(damaged),
            fix: fix(path, damaged),
            survivors: match damaged.survivors {
                Survivors::None => "none",
                Survivors::Some => "some",
                Survivors::All => "all",
            },
            checksums: damaged.mismatches.iter().map(ChecksumReport::of).collect(),
        }
    }
}

impl ChecksumReport {
    fn of(mismatch: &Mismatch) -> Self {
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
    fn of(uid: &str, record: &ClaimRecord<Group>) -> Self {
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
            devices: record.devices().iter().flat_map(devices).collect(),
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

fn devices(group: &Group) -> impl Iterator<Item = PreparedDevice> {
    group.devices.iter().filter_map(|slot| {
        let Slot { channel, daemon } = slot;
        let (held, kind) = match (channel, daemon) {
            (Some(channel), _) => (channel, "channel"),
            (None, Some(daemon)) => (daemon, "daemon"),
            (None, None) => return None,
        };
        Some(prepared(held, kind, &group.config_state.compute_domain))
    })
}

/// Go may record a device without what it told kubelet about it.
fn prepared(held: &Held, kind: &str, compute_domain: &str) -> PreparedDevice {
    let Held { info, device } = held;
    let compute_domain = compute_domain.to_owned();
    match device.clone() {
        None => PreparedDevice {
            device: format!("{kind}-{}", info.id),
            pool: None,
            requests: vec![],
            cdi_device_ids: vec![],
            compute_domain,
        },
        Some(device) => PreparedDevice {
            device: device.device_name,
            pool: Some(device.pool_name),
            requests: device.requests.unwrap_or_default(),
            cdi_device_ids: device.cdi_device_ids.unwrap_or_default(),
            compute_domain,
        },
    }
}
