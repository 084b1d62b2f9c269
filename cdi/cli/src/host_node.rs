//! A spec's device nodes against the host's.

use std::io;

use imex_cdi::{DeviceNode, DeviceType, HostDevice, HostNode, HostNodes};
use serde::Serialize;

/// A node of a spec, and what the host has there.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeReport {
    /// In the container.
    pub(crate) path: String,
    /// Where the host was looked at.
    pub(crate) host_path: String,
    /// What the spec says, `c 235:0`; null if it leaves it to the host.
    pub(crate) declared: Option<String>,
    /// What the host has, `c 235:0`; null if there is no device node.
    pub(crate) found: Option<String>,
    pub(crate) state: NodeState,
}

/// Ascending by how bad it is for a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum NodeState {
    /// There, and as the spec says.
    Agrees,
    /// Not there, and not needed: the runtime makes it from the numbers.
    Absent,
    /// Cannot be looked at.
    Unknown,
    /// There, but not what the spec says.
    Differs,
    /// Not there, and needed.
    Missing,
}

impl NodeReport {
    pub(crate) fn of(node: &DeviceNode, host: &impl HostNodes) -> Self {
        let host_path = node.host_path.as_deref().filter(|path| !path.is_empty());
        let host_path = host_path.unwrap_or(&node.path);
        let looked = host.lstat(host_path);
        Self {
            path: node.path.clone(),
            host_path: host_path.to_owned(),
            declared: node.device_type.map(|kind| declared(node, kind)),
            found: match &looked {
                Ok(HostNode::Device(device)) => {
                    Some(numbers(device.device_type, device.major, device.minor))
                }
                _ => None,
            },
            state: state(node, &looked),
        }
    }
}

/// What Go's library needs no host for: type and major (`fillMissingInfo`).
fn is_complete(node: &DeviceNode) -> bool {
    match node.device_type {
        None => false,
        Some(DeviceType::Fifo) => true,
        Some(_) => node.major.is_some_and(|major| major != 0),
    }
}

fn state(node: &DeviceNode, looked: &io::Result<HostNode>) -> NodeState {
    match looked {
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

/// What the spec does not say, it takes from the host.
fn agrees(node: &DeviceNode, device: &HostDevice) -> bool {
    let kind = match node.device_type {
        None => return true,
        Some(DeviceType::Unbuffered) => DeviceType::Char,
        Some(kind) => kind,
    };
    let numbered = is_complete(node) && kind != DeviceType::Fifo;
    kind == device.device_type
        && (!numbered
            || (node.major == Some(device.major) && node.minor.unwrap_or(0) == device.minor))
}

fn declared(node: &DeviceNode, kind: DeviceType) -> String {
    match node.major {
        Some(major) if major != 0 => numbers(kind, major, node.minor.unwrap_or(0)),
        _ => letter(kind).to_owned(),
    }
}

fn numbers(kind: DeviceType, major: i64, minor: i64) -> String {
    match kind {
        DeviceType::Fifo => letter(kind).to_owned(),
        _ => format!("{} {major}:{minor}", letter(kind)),
    }
}

fn letter(kind: DeviceType) -> &'static str {
    match kind {
        DeviceType::Block => "b",
        DeviceType::Char => "c",
        DeviceType::Unbuffered => "u",
        DeviceType::Fifo => "p",
    }
}

// === impl NodeState ===

impl NodeState {
    /// Whether a container does not get what the spec says.
    pub(crate) fn is_bad(self) -> bool {
        matches!(self, Self::Differs | Self::Missing)
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Absent => "absent",
            Self::Unknown => "unknown",
            Self::Differs => "differs",
            Self::Missing => "missing",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use serde_json::{Value, json};

    use super::*;

    struct Host(io::ErrorKind, Option<HostNode>);

    impl HostNodes for Host {
        fn lstat(&self, _path: &str) -> io::Result<HostNode> {
            self.1.ok_or_else(|| self.0.into())
        }
    }

    fn state_of(node: Value, host: &Host) -> NodeState {
        let node: DeviceNode = serde_json::from_value(node).unwrap();
        NodeReport::of(&node, host).state
    }

    #[test]
    fn a_node_is_needed_on_the_host_only_where_the_spec_leaves_something_open() {
        let nothing = Host(io::ErrorKind::NotFound, None);
        let secret = Host(io::ErrorKind::PermissionDenied, None);
        for (node, state) in [
            (
                json!({"path": "/dev/x", "type": "c", "major": 1}),
                NodeState::Absent,
            ),
            (json!({"path": "/dev/x", "type": "p"}), NodeState::Absent),
            (json!({"path": "/dev/x", "type": "c"}), NodeState::Missing),
            (
                json!({"path": "/dev/x", "type": "c", "major": 0}),
                NodeState::Missing,
            ),
            (json!({"path": "/dev/x", "major": 1}), NodeState::Missing),
        ] {
            assert_eq!(state_of(node.clone(), &nothing), state, "{node}");
            assert_eq!(state_of(node, &secret), NodeState::Unknown);
        }
    }

    #[test]
    fn numbers_are_compared_where_the_spec_has_them() {
        let null = HostDevice {
            device_type: DeviceType::Char,
            major: 1,
            minor: 3,
            mode: 0o666,
        };
        let host = Host(io::ErrorKind::NotFound, Some(HostNode::Device(null)));
        for (node, state) in [
            (json!({"path": "/dev/x"}), NodeState::Agrees),
            (json!({"path": "/dev/x", "type": "c"}), NodeState::Agrees),
            (
                json!({"path": "/dev/x", "type": "c", "major": 1, "minor": 3}),
                NodeState::Agrees,
            ),
            (
                json!({"path": "/dev/x", "type": "u", "major": 1, "minor": 3}),
                NodeState::Agrees,
            ),
            (
                json!({"path": "/dev/x", "type": "c", "major": 1}),
                NodeState::Differs,
            ),
            (
                json!({"path": "/dev/x", "type": "c", "major": 2, "minor": 3}),
                NodeState::Differs,
            ),
            (
                json!({"path": "/dev/x", "type": "b", "major": 1, "minor": 3}),
                NodeState::Differs,
            ),
        ] {
            assert_eq!(state_of(node.clone(), &host), state, "{node}");
        }
        let link = Host(io::ErrorKind::NotFound, Some(HostNode::NoDevice));
        assert_eq!(
            state_of(json!({"path": "/dev/x"}), &link),
            NodeState::Differs
        );
    }
}
