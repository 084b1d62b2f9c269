//! Warnings about a plan that a container could not use.

use std::collections::BTreeSet;

use host_doctor::{Host, MAKE_CHANNEL, REWRITE_SPEC_HINT, is_channel_path};
use imex_cdi::{Change, DeviceType, HostNode, HostNodes, Plan, PlannedDevice};
use serde_json::Value;

use crate::stderr::note;

/// Not errors: the nodes may be made, or the driver loaded, before the container is
/// started.
pub(super) fn about(plan: &Plan, config: &Value, host: &Host) {
    let devices: Vec<&PlannedDevice> = plan
        .steps()
        .iter()
        .filter_map(|step| match &step.change {
            Change::SetDevice(device) => Some(device),
            _ => None,
        })
        .collect();
    stale_majors(&devices, host);
    if has_user_namespace(config) {
        absent_nodes(&devices, host);
    }
}

fn stale_majors(devices: &[&PlannedDevice], host: &Host) {
    let Some(majors) = host.majors() else { return };
    let channels = devices
        .iter()
        .filter(|device| is_channel_path(&device.path) && device.device_type == DeviceType::Char);
    // One line for each wrong major.
    let mut reported = BTreeSet::new();
    for device in channels {
        if let Some(stale) = majors.contradiction(device.major)
            && reported.insert(device.major)
        {
            note(&format!(
                "{}: {stale}: the container cannot open it; {REWRITE_SPEC_HINT}",
                device.path
            ));
        }
    }
}

/// In a user namespace runc makes no nodes, but mounts the host's nodes at the same
/// paths.
// req: CDI-31
fn absent_nodes(devices: &[&PlannedDevice], host: &Host) {
    let mut absent = devices
        .iter()
        .filter(|device| !matches!(host.lstat(&device.path), Ok(HostNode::Device(_))));
    if let Some(first) = absent.next() {
        let others = match absent.count() {
            0 => String::new(),
            n => format!(" (and {n} more)"),
        };
        note(&format!(
            "the container has a user namespace, so runtimes mount the host's {}{others}, which is \
             not a device node: the container will not start; make the host's nodes first (of IMEX \
             channels: {MAKE_CHANNEL})",
            first.path
        ));
    }
}

fn has_user_namespace(config: &Value) -> bool {
    let namespaces = config
        .pointer("/linux/namespaces")
        .and_then(Value::as_array);
    let mut namespaces = namespaces.into_iter().flatten();
    namespaces.any(|namespace| namespace.get("type").and_then(Value::as_str) == Some("user"))
}
