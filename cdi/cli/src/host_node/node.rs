//! What a spec says of a device node, before it is held against a host.

use imex_cdi::{DeviceNode, DeviceType, Kind, Spec};

use crate::majors::is_channel;

/// The nodes of all devices of a spec, then those that each of them gets.
pub(crate) fn nodes_of(spec: &Spec) -> impl Iterator<Item = &DeviceNode> {
    let of_devices = spec.devices().iter();
    let edits = of_devices.map(|device| &device.container_edits);
    let edits = edits.chain([spec.container_edits()]);
    edits.flat_map(|edits| &edits.device_nodes)
}

/// Whether the kubelet plugin writes it.
pub(crate) fn is_of_claim(spec: &Spec) -> bool {
    *spec.kind() == Kind::compute_domain_claim()
}

/// Where the host's node is.
pub(crate) fn host_path(node: &DeviceNode) -> &str {
    let host_path = node.host_path.as_deref().filter(|path| !path.is_empty());
    host_path.unwrap_or(&node.path)
}

/// The major that the spec gives the node, whatever the host has.
pub(crate) fn own_major(node: &DeviceNode) -> Option<i64> {
    node.major.filter(|major| *major != 0)
}

/// Whether a container gets it as an IMEX channel.
pub(crate) fn is_channel_node(node: &DeviceNode) -> bool {
    let of_char = !matches!(node.device_type, Some(DeviceType::Block | DeviceType::Fifo));
    of_char && is_channel(&node.path)
}

/// What Go's library needs no host for: type and major (`fillMissingInfo`).
pub(super) fn is_complete(node: &DeviceNode) -> bool {
    match node.device_type {
        None => false,
        Some(DeviceType::Fifo) => true,
        Some(_) => own_major(node).is_some(),
    }
}

pub(super) fn declared(node: &DeviceNode, kind: DeviceType) -> String {
    match own_major(node) {
        Some(major) => numbers(kind, major, node.minor.unwrap_or(0)),
        None => kind.as_str().to_owned(),
    }
}

/// `c 235:0`; a pipe has none.
pub(crate) fn numbers(kind: DeviceType, major: i64, minor: i64) -> String {
    match kind {
        DeviceType::Fifo => kind.as_str().to_owned(),
        _ => format!("{} {major}:{minor}", kind.as_str()),
    }
}
