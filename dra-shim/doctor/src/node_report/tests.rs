//! Tests of a node's state and message.

use std::io;

use serde_json::{Value, json};

use super::*;

/// What a host has at a path.
struct At(io::ErrorKind, Option<HostNode>);

fn state_of(node: Value, host: &At) -> NodeState {
    let node: DeviceNode = serde_json::from_value(node).unwrap();
    state(&node, &host.1.ok_or_else(|| host.0.into()))
}

#[test]
fn a_node_must_exist_on_the_host_only_if_the_spec_omits_fields() {
    let nothing = At(io::ErrorKind::NotFound, None);
    let secret = At(io::ErrorKind::PermissionDenied, None);
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
    let host = At(io::ErrorKind::NotFound, Some(HostNode::Device(null)));
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
        (
            json!({"path": "/dev/x", "major": 1, "minor": 4}),
            NodeState::Differs,
        ),
        (
            json!({"path": "/dev/x", "type": "c", "minor": 4}),
            NodeState::Differs,
        ),
        (json!({"path": "/dev/x", "type": "u"}), NodeState::Differs),
    ] {
        assert_eq!(state_of(node.clone(), &host), state, "{node}");
    }
    let link = At(io::ErrorKind::NotFound, Some(HostNode::NotADevice));
    assert_eq!(
        state_of(json!({"path": "/dev/x"}), &link),
        NodeState::Differs
    );
}

#[test]
fn the_kind_of_file_in_place_of_a_node_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    std::os::unix::fs::symlink("/dev/null", dir.path().join("link")).unwrap();
    let host = Host::open(dir.path()).unwrap();
    for (path, found) in [("/file", "a regular file"), ("/link", "a symbolic link")] {
        let node = json!({"path": path, "type": "c", "major": 1, "minor": 3});
        let node: DeviceNode = serde_json::from_value(node).unwrap();
        let report = NodeReport::from_node(&node, &host);
        assert_eq!(report.found.as_deref(), Some(found));
        assert_eq!(report.host_side(), format!("differs: {found}"));
        assert!(report.message.unwrap().contains(found));
    }
}
