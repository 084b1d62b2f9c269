//! The CDI specs of claims.

use dra_checkpoint::{ClaimRecord, KubeletDevice, View};
use dra_common::error_chain;
use imex_cdi::{ChannelId, ClaimDevice, ClaimSpecs, ClaimUid, Ensured, Major};

use crate::device_group::DeviceGroup;
use crate::error::PrepareError;
use crate::lifecycle::{Step, Transaction};
use crate::node_claims::steps;
use crate::request::ChannelRequest;

/// Result of [`NodeClaims::repair_specs`](crate::NodeClaims::repair_specs).
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// The UIDs of the claims whose specs were written: they were missing or different.
    pub written: Vec<String>,
    /// Why other specs are still wrong, one line each.
    pub failures: Vec<String>,
}

/// Writes a claim's spec with this channel, unless it is up to date.
// req: CHANNEL-2
pub(crate) fn ensure(
    specs: &ClaimSpecs,
    uid: &ClaimUid,
    channel: ChannelId,
    major: Major,
) -> Result<Ensured, PrepareError> {
    let ensured = specs.ensure(uid, &[ClaimDevice::imex_channel(channel, major)]);
    ensured.map_err(|source| PrepareError::Cdi { source })
}

/// Writes a Completed record's spec unless it is up to date; returns whether it was
/// written. Does not touch a spec of a driver in another mode, which this driver cannot
/// write.
pub(crate) fn rewrite(
    specs: &ClaimSpecs,
    uid: &ClaimUid,
    record: &ClaimRecord<DeviceGroup>,
    major: Option<Major>,
) -> Result<bool, PrepareError> {
    if has_no_device(record) {
        return Ok(false);
    }
    match (own_channel(record), major) {
        (Some(channel), Some(major)) => Ok(ensure(specs, uid, channel, major)?.written),
        (own, _) => {
            let exists = specs.exists(uid);
            if exists.map_err(|source| PrepareError::Cdi { source })? {
                return Ok(false);
            }
            Err(match own {
                Some(_) => PrepareError::NoMajor {
                    reason: "the claim's CDI spec is missing and cannot be written".to_owned(),
                },
                None => PrepareError::ForeignSpecLost,
            })
        }
    }
}

/// [Rewrites](rewrite) the specs of all records for which `transaction` has that step.
pub(crate) fn rewrite_all(
    view: &View<DeviceGroup>,
    specs: &ClaimSpecs,
    transaction: Transaction,
    major: Option<Major>,
) -> RepairReport {
    let mut report = RepairReport::default();
    for (uid, record) in view.records_unchecked() {
        let Ok(uid) = ClaimUid::new(uid) else {
            continue;
        };
        if *steps(view, uid.as_str(), transaction) != [Step::WriteSpec] {
            continue;
        }
        match rewrite(specs, &uid, record, major) {
            Ok(true) => report.written.push(uid.to_string()),
            Ok(false) => {}
            Err(error) => {
                let failure = format!("claim {uid}: {}", error_chain(&error));
                report.failures.push(failure);
            }
        }
    }
    report
}

/// The devices in the answer to kubelet when the claim was prepared.
pub(crate) fn kubelet_devices(record: &ClaimRecord<DeviceGroup>) -> Vec<KubeletDevice> {
    record
        .devices()
        .iter()
        .flat_map(DeviceGroup::kubelet_devices)
        .cloned()
        .collect()
}

/// Whether the claim was prepared without a device, on a node without a clique: it has no spec.
/// The Go driver writes the same record.
pub(crate) fn has_no_device(record: &ClaimRecord<DeviceGroup>) -> bool {
    let mut devices = record
        .devices()
        .iter()
        .flat_map(DeviceGroup::kubelet_devices)
        .peekable();
    devices.peek().is_some()
        && devices.all(|device| device.cdi_device_ids.as_ref().is_none_or(Vec::is_empty))
}

/// The channel of a record that this driver wrote: one channel, one CDI device.
pub(crate) fn own_channel(record: &ClaimRecord<DeviceGroup>) -> Option<ChannelId> {
    if has_no_device(record) {
        return None;
    }
    let [group] = record.devices() else {
        return None;
    };
    let [device] = group.devices.as_slice() else {
        return None;
    };
    let is_ours = ChannelRequest::from_status(&record.status).is_ok();
    device
        .channel
        .as_ref()
        .filter(|_| is_ours)
        .and_then(|held| ChannelId::new(held.info.id).ok())
}
