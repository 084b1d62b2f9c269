//! The device nodes of a spec, before they are compared with a host, and the kinds on which Go's
//! CDI library panics.

use imex_cdi::{DeviceNode, DeviceType, Kind, Spec};

use crate::dra_driver::DraDriver;
use crate::majors::is_channel_path;

/// The prefix of the vendors, and thus of the file names, of specs that DRA drivers and NVIDIA's
/// device plugin write for kubelet's runtime.
pub(crate) const KUBELET_PLUGINS: &str = "k8s.";

/// The fix that rewrites a spec of the kubelet plugin.
pub(crate) const REWRITE_CLAIM_SPEC: &str = "restart the kubelet plugin on this node, so that it rewrites the specs \
    of its claims; the GPU plugin also does so while it runs, within five minutes. NVIDIA's plugin \
    does not rewrite specs; if that plugin wrote this spec, delete the pods that use the claim";

/// The fix for a claim's spec that does not load.
pub(crate) const REPLACE_CLAIM_SPEC: &str = "remove this file: the running kubelet plugin writes the specs of its claims \
    again within seconds, and at its start. NVIDIA's plugin does not; if that plugin wrote this \
    spec, delete the pods that use the claim";

/// A part of a kind that has one letter. Go's CDI library up to 1.1.0, the newest one in a
/// containerd (2.3), panics when it loads such a spec and crashes the runtime
/// (`pkg/parser/parser.go`). Version 1.1.1, in NVIDIA's container toolkit 1.20.1, loads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneLetterKind<'a> {
    /// `vendor` or `class`.
    part: &'static str,
    text: &'a str,
}

/// The device nodes of all devices of a spec, then those of its common edits.
pub fn device_nodes(spec: &Spec) -> impl Iterator<Item = &DeviceNode> {
    let devices = spec.devices().iter();
    let edits = devices.map(|device| &device.container_edits);
    let edits = edits.chain([spec.container_edits()]);
    edits.flat_map(|edits| &edits.device_nodes)
}

/// Whether this is a claim's spec, written by a kubelet plugin.
pub(crate) fn is_claim_spec(spec: &Spec) -> bool {
    let mut drivers = DraDriver::ALL.into_iter();
    drivers.any(|driver| *spec.kind() == driver.claim_kind())
}

/// The path of the host's device node: `hostPath`, else the container's path.
pub(crate) fn host_path(node: &DeviceNode) -> &str {
    let host_path = node.host_path.as_deref().filter(|path| !path.is_empty());
    host_path.unwrap_or(&node.path)
}

/// The node's major in the spec; `None` if the runtime takes the host's.
pub fn declared_major(node: &DeviceNode) -> Option<i64> {
    node.major.filter(|major| *major != 0)
}

/// Whether a container gets the node as an IMEX channel.
pub(crate) fn is_channel_node(node: &DeviceNode) -> bool {
    let is_char = !matches!(node.device_type, Some(DeviceType::Block | DeviceType::Fifo));
    is_char && is_channel_path(&node.path)
}

/// Type and numbers, `c 235:0`; a pipe has no numbers.
pub(crate) fn device_numbers(kind: DeviceType, major: i64, minor: i64) -> String {
    match kind {
        DeviceType::Fifo => kind.as_str().to_owned(),
        _ => format!("{} {major}:{minor}", kind.as_str()),
    }
}

/// Whether Go's library creates the node from type and major, without the host's node
/// (`fillMissingInfo`).
pub(crate) fn is_complete(node: &DeviceNode) -> bool {
    match node.device_type {
        None => false,
        Some(DeviceType::Fifo) => true,
        Some(_) => declared_major(node).is_some(),
    }
}

/// Type and numbers in the spec.
pub(crate) fn declared_numbers(node: &DeviceNode, kind: DeviceType) -> String {
    match declared_major(node) {
        Some(major) => device_numbers(kind, major, node.minor.unwrap_or(0)),
        None => kind.as_str().to_owned(),
    }
}

// === impl OneLetterKind ===

impl<'a> OneLetterKind<'a> {
    /// A stable code.
    pub const CODE: &'static str = "cdi-kind-one-letter";

    /// The fix.
    pub const FIX: &'static str = "use at least two characters for the kind's vendor and class";

    /// `None` for a kind that Go's library loads.
    pub fn of(kind: &'a Kind) -> Option<Self> {
        let (part, text) = match (kind.vendor(), kind.class()) {
            (vendor, _) if vendor.len() == 1 => ("vendor", vendor),
            (_, class) if class.len() == 1 => ("class", class),
            _ => return None,
        };
        Some(Self { part, text })
    }

    /// The problem; `who` is the runtime that crashes.
    pub fn message(&self, who: &str) -> String {
        let Self { part, text } = self;
        format!(
            "the kind's {part} {text:?} has only one letter: Go's CDI library up to 1.1.0 panics \
             on such a kind and crashes {who}"
        )
    }
}
