//! Checks that each GPU and MIG device belongs to one claim, or is shared by claims; that it is still there; and that
//! no device plugin gives it to other pods.

use std::collections::BTreeMap;

use gpu_inventory::{Fact, GpuFacts, Inventory, MigDevice};

use crate::facts::claims::ClaimFacts;
use crate::facts::claims::checkpoint_file::{HeldGpu, RecordFacts};
use crate::finding::Finding;
use crate::text::and_more;

pub(super) fn check(facts: &ClaimFacts, inventory: &Inventory) -> Vec<Finding> {
    let mut findings = Vec::from_iter(beside_device_plugin(facts));
    // Claims of an earlier boot are not prepared.
    if facts.earlier_boot().is_none() {
        findings.extend(contested(facts));
        findings.extend(gone(facts, inventory));
    }
    findings
}

/// The records of the claims that kubelet may have.
fn live(facts: &ClaimFacts) -> impl Iterator<Item = (&str, &RecordFacts)> {
    let records = facts.records().into_iter().flatten();
    let live = records.filter(|(uid, _)| facts.may_be_live(uid));
    live.map(|(uid, record)| (uid.as_str(), record))
}

// req: DOCTOR-19
fn beside_device_plugin(facts: &ClaimFacts) -> Option<Finding> {
    let (first, others) = facts.device_plugin_sockets.split_first()?;
    let driver = facts.driver().name();
    facts.has_plugin().then(|| {
        Finding::warning(
            "device-plugin-beside-dra",
            first,
            format!(
                "NVIDIA's device plugin listens on this socket{}, and the kubelet plugin of {driver} is on this node, too: neither knows which GPUs the other one has given to pods, so two pods may get one GPU",
                and_more(others.len())
            ),
            "keep only one of the two on this node; with gpus.devicePlugin=withdraw, this driver publishes no GPU of a node with a device plugin",
        )
    })
}

fn contested(facts: &ClaimFacts) -> Vec<Finding> {
    let mut holders: BTreeMap<&str, Vec<(&str, &RecordFacts)>> = BTreeMap::new();
    for (uid, record) in live(facts) {
        for device in &record.gpus {
            holders.entry(device).or_default().push((uid, record));
        }
    }
    let file = facts.root.checkpoint();
    let contested = holders.into_iter().filter_map(|(device, claims)| {
        let [first, second, others @ ..] = claims.as_slice() else {
            return None;
        };
        Some(Finding::error(
            "gpu-of-two-claims",
            format!("device {device}"),
            format!(
                "according to {file}, this device is prepared for {} and for {}{}, without adminAccess or shares",
                claim(first),
                claim(second),
                and_more(others.len())
            ),
            "delete all of these claims but one, and the pods that use the deleted claims",
        ))
    });
    contested.collect()
}

/// Returns nothing where NVML was not read.
// req: DOCTOR-17
fn gone(facts: &ClaimFacts, inventory: &Inventory) -> Vec<Finding> {
    if inventory.driver.gpu_count.known().is_none() {
        return vec![];
    }
    let file = facts.root.checkpoint();
    let gone = live(facts).filter_map(|(uid, record)| {
        let devices = record.held.iter();
        let devices = devices.filter_map(|held| end_of(held, &inventory.gpus));
        let devices: Vec<String> = devices.collect();
        (!devices.is_empty()).then(|| {
            Finding::warning(
                "gpu-of-claim-gone",
                claim(&(uid, record)),
                format!(
                    "according to {file}, this claim holds {}: its containers have no such device any more",
                    devices.join(", and ")
                ),
                "delete the pods that use this claim; new pods get a device that exists. The claim's event of the kubelet plugin is DeviceGone",
            )
        })
    });
    gone.collect()
}

/// The device and what became of it; `None` if it is still there, or if that is unknown.
fn end_of(held: &HeldGpu, gpus: &[GpuFacts]) -> Option<String> {
    let HeldGpu { gpu: uuid, mig } = held;
    let name = mig.as_ref().unwrap_or(uuid);
    let not_listed = || format!("{name}, which the driver does not list");
    let Some(gpu) = gpus.iter().find(|it| it.uuid.known() == Some(uuid)) else {
        // A GPU without a UUID may be this one.
        let is_another = |it: &GpuFacts| it.uuid.known().is_some() || it.is_passed_through();
        return gpus.iter().all(is_another).then(not_listed);
    };
    // A GPU that NVML does not enumerate has a finding of its own.
    if gpu.index.known().is_none() || gpu.mig.failure().is_some() {
        return None;
    }
    let now = gpu.mig.known().filter(|it| it.enabled);
    let Some(mig) = mig else {
        return now.map(|_| format!("{name}, which is in MIG mode now"));
    };
    let mut devices = now.iter().flat_map(|it| &it.devices);
    let may_be_it = |it: &Fact<MigDevice>| {
        it.failure().is_some() || it.known().is_some_and(|it| it.uuid == *mig)
    };
    (!devices.any(may_be_it)).then(not_listed)
}

fn claim((uid, record): &(&str, &RecordFacts)) -> String {
    match &record.name {
        Some(name) => format!("claim {uid} ({name})"),
        None => format!("claim {uid}"),
    }
}
