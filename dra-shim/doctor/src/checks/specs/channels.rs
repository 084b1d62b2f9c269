//! Specs with IMEX channels that the driver does not have.

use imex_cdi::{DRIVER_PARAMS, DeviceNode, DriverParams, HostNode, HostNodes, Registry};

use crate::files::HostFiles;
use crate::finding::Finding;
use crate::host::Host;
use crate::node_report::and_more;
use crate::spec_node::{declared_major, device_nodes, host_path, is_channel_node, is_claim_spec};

/// Those with a number that is not below the driver's count: the kernel makes
/// the node, and nobody can open it. Of a driver that was told to have none,
/// that is what has to be said.
pub(super) fn beyond_count(files: &HostFiles, host: &Host, registry: &Registry) -> Vec<Finding> {
    let params = DriverParams::read(files.at(DRIVER_PARAMS)).ok();
    let count = params.and_then(|params| params.imex_channel_count);
    let Some(count) = count.filter(|count| *count > 0) else {
        return vec![];
    };
    let mut findings = Vec::new();
    for file in registry.files() {
        let Ok(spec) = &file.spec else { continue };
        let channels = device_nodes(spec).filter_map(|node| Some((node, channel(node, host)?)));
        let mut beyond = channels.filter(|(_, channel)| *channel >= i64::from(count));
        let Some((node, channel)) = beyond.next() else {
            continue;
        };
        let more = and_more(beyond.count());
        let fix = if is_claim_spec(spec) {
            "delete the pods that use the claim, or have the driver make more channels"
        } else {
            "leave such channels out of the spec, or have the driver make more"
        };
        findings.push(Finding::error(
            "cdi-spec-channel-beyond-count",
            files.host_name(&file.path),
            format!(
                "{} is channel {channel}{more}, and the driver's ImexChannelCount is {count} ({DRIVER_PARAMS}): nobody can open it",
                node.path
            ),
            format!("{fix} (NVreg_ImexChannelCount in /etc/modprobe.d, then load it again)"),
        ));
    }
    findings
}

/// The channel that a container gets with the node: its minor.
fn channel(node: &DeviceNode, host: &Host) -> Option<i64> {
    if !is_channel_node(node) {
        return None;
    }
    if declared_major(node).is_some() {
        return Some(node.minor.unwrap_or(0));
    }
    match host.lstat(host_path(node)).ok()? {
        HostNode::Device(device) => Some(device.minor),
        HostNode::NotADevice => None,
    }
}
