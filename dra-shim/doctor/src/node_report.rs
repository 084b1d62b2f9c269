//! Compares a spec's device nodes with the host's.

use std::collections::BTreeMap;
use std::io;

use imex_cdi::{ContainerEdits, DeviceNode, DeviceType, HostDevice, HostNode, HostNodes, Spec};
use serde::Serialize;

use crate::host::Host;
use crate::majors::is_channel_path;
use crate::spec_node::{
    REWRITE_CLAIM_SPEC, declared_major, declared_numbers, device_numbers, host_path,
    is_channel_node, is_claim_spec, is_complete,
};
use crate::text::and_more;

/// The fix for a spec with a stale major. It names the plain command `cdi-gen generate`.
pub const REWRITE_SPEC_HINT: &str =
    "let the driver rewrite the spec, or rewrite the spec with `cdi-gen generate`";

/// How an administrator creates a channel's node. Not with nvidia-modprobe, which no longer has
/// the option -i (NVIDIA/nvidia-modprobe#9).
pub const MAKE_CHANNEL: &str =
    "mknod, with the major of nvidia-caps-imex-channels in /proc/devices";

/// The fix for a device node of the host that is not the driver's.
const REMAKE_NODE: &str = "remove the host's device node and recreate it (mknod, with the major of nvidia-caps-imex-channels in /proc/devices)";

/// A node of a spec, compared with the host's node at its path.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    /// The path in the container.
    pub path: String,
    /// The path on the host.
    pub host_path: String,
    /// Type and numbers in the spec, `c 235:0`; `None` if it takes the host's.
    pub declared: Option<String>,
    /// What the host has at the path, `c 235:0` or `a symbolic link`; `None` if that is
    /// nothing or unknown.
    pub found: Option<String>,
    /// The IMEX channel that a container gets with it: its minor. `None` if it is no
    /// channel, or its minor is unknown.
    pub channel: Option<i64>,
    /// The result of the comparison.
    pub state: NodeState,
    /// The problem, if there is one.
    pub message: Option<String>,
    /// The fix for the problem.
    pub fix: Option<&'static str>,
}

/// How a spec's node compares with the host's, ascending by severity for a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeState {
    /// The host has the device that the spec declares.
    Agrees,
    /// The host does not have it and need not: the runtime creates it from the numbers.
    Absent,
    /// The host's path cannot be examined.
    Unknown,
    /// The host has something else there.
    Differs,
    /// An IMEX channel whose major is not the driver's current one.
    Stale,
    /// The host does not have it, but the spec needs it.
    Missing,
}

/// Bad device nodes of one file with the same state and fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadNodes<'a> {
    /// The file that they are in.
    pub file: &'a str,
    /// The problem of the first node, and the number of the others.
    pub message: String,
    /// The fix for all of them.
    pub fix: &'static str,
}

/// Groups bad nodes by file, state and fix, in ascending order of these. Each group has one
/// message.
pub fn group_bad_nodes<'a>(
    bad: impl IntoIterator<Item = (&'a str, &'a NodeReport)>,
) -> Vec<BadNodes<'a>> {
    let mut groups: BTreeMap<_, (&NodeReport, usize)> = BTreeMap::new();
    for (file, node) in bad {
        let group = groups.entry((file, node.state, node.fix.unwrap_or_default()));
        group.or_insert((node, 0)).1 += 1;
    }
    let groups = groups.into_iter().map(|((file, _, fix), (node, count))| {
        let message = node.message.as_deref().unwrap_or_default();
        let message = format!("{message}{}", and_more(count - 1));
        BadNodes { file, message, fix }
    });
    groups.collect()
}

// === impl NodeReport ===

impl NodeReport {
    /// Compares a node of `spec` with the host's. The fix depends on the spec's writer.
    pub fn new(spec: &Spec, node: &DeviceNode, host: &Host) -> Self {
        let mut report = Self::from_node(node, host);
        if is_claim_spec(spec) {
            report.set_claim_fix(node, host);
        }
        report
    }

    /// Compares every node in these edits of `spec`.
    pub fn from_edits(
        spec: &Spec,
        edits: &ContainerEdits,
        host: &Host,
    ) -> impl Iterator<Item = Self> {
        let nodes = edits.device_nodes.iter();
        nodes.map(|node| Self::new(spec, node, host))
    }

    fn from_node(node: &DeviceNode, host: &Host) -> Self {
        let host_path = host_path(node);
        let found_node = host.lstat(host_path);
        let found = match &found_node {
            Ok(HostNode::Device(device)) => Some(device_numbers(
                device.device_type,
                device.major,
                device.minor,
            )),
            Ok(HostNode::NotADevice) => host.file_kind(host_path).map(str::to_owned),
            Err(_) => None,
        };
        let mut report = Self {
            path: node.path.clone(),
            host_path: host_path.to_owned(),
            declared: node.device_type.map(|kind| declared_numbers(node, kind)),
            found,
            channel: channel(node, &found_node),
            state: state(node, &found_node),
            message: None,
            fix: None,
        };
        if let Some(stale) = stale(node, &found_node, host) {
            report.set_stale(&stale, declared_major(node).is_some());
        } else if report.state.is_bad() {
            report.set_bad(matches!(found_node, Ok(HostNode::NotADevice)));
        }
        report
    }

    /// Sets the fix for a spec that the kubelet plugin wrote and can rewrite.
    fn set_claim_fix(&mut self, node: &DeviceNode, host: &Host) {
        match (self.state, declared_major(node)) {
            (NodeState::Stale, None) => {}
            // The spec is right, but the node has another driver's major.
            (NodeState::Differs, Some(major))
                if is_channel_path(&node.path) && is_drivers(major, host) =>
            {
                self.fix = Some(REMAKE_NODE);
            }
            (state, _) if state.is_bad() => self.fix = Some(REWRITE_CLAIM_SPEC),
            _ => {}
        }
    }

    /// The host's side, for a table.
    pub fn host_side(&self) -> String {
        match (&self.found, self.state) {
            (Some(found), NodeState::Differs) => format!("differs: {found}"),
            _ => self.state.as_str().to_owned(),
        }
    }

    fn set_stale(&mut self, stale: &str, declared: bool) {
        self.state = NodeState::Stale;
        self.message = Some(format!("{}: {stale}", self.path));
        self.fix = Some(if declared {
            REWRITE_SPEC_HINT
        } else {
            REMAKE_NODE
        });
    }

    fn set_bad(&mut self, no_device: bool) {
        let Self { host_path, .. } = self;
        let found = self.found.as_deref().unwrap_or("something else");
        let (message, fix) = if self.state == NodeState::Missing {
            (
                format!(
                    "the spec takes {host_path} from the host, but the host has no such device node"
                ),
                "load the driver that creates the device node, or set type, major and minor in the spec",
            )
        } else if no_device {
            (
                format!("{host_path} on the host is {found}, not a device node"),
                "set the path of the device node itself (links are not followed), or set type, major and minor",
            )
        } else {
            let declared = self.declared.as_deref().unwrap_or("other numbers");
            (
                format!("{host_path} on the host is {found}, but the spec declares {declared}"),
                "correct the spec, or let the driver recreate the host's device node",
            )
        };
        (self.message, self.fix) = (Some(message), Some(fix));
    }
}

/// Why a channel's node is stale: its major, or that of the host's node that it copies, is not
/// the driver's.
fn stale(node: &DeviceNode, found_node: &io::Result<HostNode>, host: &Host) -> Option<String> {
    if !is_channel_node(node) {
        return None;
    }
    let taken = match found_node {
        Ok(HostNode::Device(device)) if device.device_type == DeviceType::Char => {
            Some(device.major)
        }
        _ => None,
    };
    let majors = host.majors()?;
    majors.contradiction(declared_major(node).or(taken)?)
}

/// The minor of a channel's node in the spec, else that of the host's node.
fn channel(node: &DeviceNode, found_node: &io::Result<HostNode>) -> Option<i64> {
    if !is_channel_node(node) {
        return None;
    }
    match (declared_major(node), found_node) {
        (Some(_), _) => Some(node.minor.unwrap_or(0)),
        (None, Ok(HostNode::Device(device))) => Some(device.minor),
        (None, _) => None,
    }
}

/// Whether channels have this major, according to the list of drivers.
fn is_drivers(major: i64, host: &Host) -> bool {
    let majors = host.majors();
    majors.is_some_and(|it| it.has_channels() && it.contradiction(major).is_none())
}

/// Compares the spec's node with the host's node at its path.
fn state(node: &DeviceNode, found_node: &io::Result<HostNode>) -> NodeState {
    match found_node {
        Ok(HostNode::Device(device)) if agrees(node, device) => NodeState::Agrees,
        Ok(_) => NodeState::Differs,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if is_complete(node) {
                NodeState::Absent
            } else {
                NodeState::Missing
            }
        }
        Err(_) => NodeState::Unknown,
    }
}

/// Whether the host's node matches the spec's. The spec takes omitted fields from the host; an
/// omitted minor beside a major is 0.
fn agrees(node: &DeviceNode, device: &HostDevice) -> bool {
    let kind = match node.device_type {
        None => device.device_type,
        // Only a node that takes nothing from the host can have this type.
        Some(DeviceType::Unbuffered) if is_complete(node) => DeviceType::Char,
        Some(kind) => kind,
    };
    let numbered = match (declared_major(node), node.minor) {
        _ if kind == DeviceType::Fifo => true,
        (Some(major), minor) => (major, minor.unwrap_or(0)) == (device.major, device.minor),
        // The runtime ignores this minor: the container gets the host's.
        (None, Some(minor)) => minor == device.minor,
        (None, None) => true,
    };
    kind == device.device_type && numbered
}

// === impl NodeState ===

impl NodeState {
    /// Whether a container does not get the device that the spec declares.
    pub fn is_bad(self) -> bool {
        matches!(self, Self::Differs | Self::Stale | Self::Missing)
    }

    /// A stable kebab-case code for a bad state.
    pub fn code(self) -> &'static str {
        match self {
            Self::Stale => "imex-channel-major-stale",
            Self::Missing => "host-node-missing",
            Self::Differs => "host-node-differs",
            Self::Agrees | Self::Absent | Self::Unknown => "host-node-not-bad",
        }
    }

    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Absent => "absent",
            Self::Unknown => "unknown",
            Self::Differs => "differs",
            Self::Stale => "stale",
            Self::Missing => "missing",
        }
    }
}

#[cfg(test)]
mod tests;
