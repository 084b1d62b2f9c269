//! The CDI specs of claims.

use dra_checkpoint::{ClaimRecord, KubeletDevice, View};
use dra_common::error_chain;
use imex_cdi::{ClaimSpec, ClaimSpecs, ClaimUid, Ensured};

use crate::devices::Devices;
use crate::error::PrepareError;
use crate::lifecycle::{Step, Transaction};
use crate::node_claims::steps;

/// Result of [`NodeClaims::repair_specs`](crate::NodeClaims::repair_specs).
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// The UIDs of the claims whose specs were written: they were missing or different.
    pub written: Vec<String>,
    /// Why other specs are still wrong, one line each.
    pub failures: Vec<String>,
}

/// Writes a claim's spec, unless it is up to date.
// req: CHANNEL-2
pub(crate) fn ensure(
    specs: &ClaimSpecs,
    uid: &ClaimUid,
    spec: &ClaimSpec,
) -> Result<Ensured, PrepareError> {
    Ok(specs.ensure(uid, spec)?)
}

pub(crate) fn remove(specs: &ClaimSpecs, uid: &ClaimUid) -> Result<(), PrepareError> {
    Ok(specs.remove(uid)?)
}

/// The CDI ids of a spec's devices.
pub(crate) fn ids(specs: &ClaimSpecs, uid: &ClaimUid, spec: &ClaimSpec) -> Vec<String> {
    let ids = spec
        .devices
        .iter()
        .map(|device| specs.id(uid, &device.name));
    ids.map(|id| id.to_string()).collect()
}

/// Writes a Completed record's spec unless it is up to date; returns whether it was
/// written. Does not touch a spec that this driver cannot write.
pub(crate) fn rewrite<D: Devices>(
    devices: &D,
    specs: &ClaimSpecs,
    uid: &ClaimUid,
    record: &ClaimRecord<D::Group>,
    facts: &D::Facts,
) -> Result<bool, D::Error> {
    match devices.recorded_spec(record, facts) {
        Ok(Some(spec)) => Ok(ensure(specs, uid, &spec)?.written),
        Ok(None) => Ok(false),
        Err(_) if specs.exists(uid).map_err(PrepareError::from)? => Ok(false),
        Err(error) => Err(error),
    }
}

/// [Rewrites](rewrite) the specs of all records for which `transaction` has that step.
pub(crate) fn rewrite_all<D: Devices>(
    view: &View<D::Group>,
    devices: &D,
    specs: &ClaimSpecs,
    transaction: Transaction,
    facts: &D::Facts,
) -> RepairReport {
    let mut report = RepairReport::default();
    for (uid, record) in view.records_unchecked() {
        let Ok(uid) = ClaimUid::new(uid) else {
            continue;
        };
        if *steps(view, uid.as_str(), transaction) != [Step::WriteSpec] {
            continue;
        }
        match rewrite(devices, specs, &uid, record, facts) {
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
pub(crate) fn kubelet_devices<D: Devices>(record: &ClaimRecord<D::Group>) -> Vec<KubeletDevice> {
    let groups = record.devices().iter();
    groups.flat_map(D::kubelet_devices).cloned().collect()
}
