//! Device nodes: values from the host, owners, and what the device cgroup allows.

use imex_cdi::{DeviceType, HostDevice, HostNode, PlanError};
use serde_json::{Value, json};

use crate::support::Host;

fn null() -> HostNode {
    HostNode::Device(HostDevice {
        device_type: DeviceType::Char,
        major: 1,
        minor: 3,
        mode: 0o666,
    })
}

fn pipe() -> HostNode {
    HostNode::Device(HostDevice {
        device_type: DeviceType::Fifo,
        major: 0,
        minor: 0,
        mode: 0o600,
    })
}

fn host(node: &Value) -> Host {
    Host::with_device(&json!({"deviceNodes": [node]}))
        .node("/dev/null", null())
        .node("/dev/pipe", pipe())
        .node("/dev/link", HostNode::NotADevice)
}

/// The device and the rules that a container without any gets for `node`.
fn injected(node: &Value) -> (Value, Value) {
    let linux = &host(node).inject(&["a.b/c=d"], &json!({}))["linux"];
    assert_eq!(linux["devices"].as_array().unwrap().len(), 1);
    let rules = linux.pointer("/resources/devices");
    (
        linux["devices"][0].clone(),
        rules.cloned().unwrap_or(json!([])),
    )
}

fn refused(node: &Value) -> PlanError {
    host(node).plan(&["a.b/c=d"], &json!({})).unwrap_err()
}

// req: CDI-21
#[test]
fn a_full_description_needs_no_node_on_the_host() {
    let (device, rules) = injected(&json!({
        "path": "/dev/x", "type": "c", "major": 235, "minor": 0, "fileMode": 438, "permissions": "rw",
    }));
    assert_eq!(
        device,
        json!({"path": "/dev/x", "type": "c", "major": 235, "minor": 0, "fileMode": 438})
    );
    assert_eq!(
        rules,
        json!([{"allow": true, "type": "c", "major": 235, "minor": 0, "access": "rw"}])
    );
}

// req: CDI-21
#[test]
fn a_path_alone_takes_everything_from_the_hosts_node() {
    let (device, rules) = injected(&json!({"path": "/dev/null"}));
    assert_eq!(
        device,
        json!({"path": "/dev/null", "type": "c", "major": 1, "minor": 3, "fileMode": 438})
    );
    assert_eq!(
        rules,
        json!([{"allow": true, "type": "c", "major": 1, "minor": 3, "access": "rwm"}])
    );
}

#[test]
fn the_host_path_is_where_the_node_is_looked_up() {
    let (device, _) = injected(&json!({"path": "/dev/x", "hostPath": "/dev/null"}));
    assert_eq!(
        (&device["path"], &device["minor"]),
        (&json!("/dev/x"), &json!(3))
    );
}

#[test]
fn a_mode_that_is_missing_comes_from_the_host_even_when_the_numbers_do_not() {
    let (device, _) = injected(&json!({"path": "/dev/null", "type": "c", "major": 9, "minor": 8}));
    assert_eq!(
        device,
        json!({"path": "/dev/null", "type": "c", "major": 9, "minor": 8, "fileMode": 438})
    );
}

#[test]
fn a_mode_that_is_given_stays() {
    let (device, _) = injected(&json!({"path": "/dev/null", "fileMode": 0}));
    assert_eq!(device["fileMode"], 0);
}

#[test]
fn major_0_means_the_hosts_numbers_and_takes_a_minor_along() {
    let (device, _) = injected(&json!({"path": "/dev/null", "type": "c", "major": 0, "minor": 7}));
    assert_eq!((&device["major"], &device["minor"]), (&json!(1), &json!(3)));
}

#[test]
fn a_major_without_type_keeps_its_numbers() {
    let (device, _) = injected(&json!({"path": "/dev/null", "major": 9, "minor": 7}));
    assert_eq!((&device["major"], &device["minor"]), (&json!(9), &json!(7)));
    assert_eq!(device["type"], "c");
}

// req: CDI-22
#[test]
fn a_fifo_needs_no_major_and_gets_no_rule() {
    for node in [
        json!({"path": "/dev/nowhere", "type": "p", "fileMode": 384}),
        json!({"path": "/dev/pipe", "type": "p"}),
        json!({"path": "/dev/pipe"}),
    ] {
        let (device, rules) = injected(&node);
        assert_eq!(
            (&device["type"], &device["fileMode"]),
            (&json!("p"), &json!(384))
        );
        assert_eq!(rules, json!([]), "{node}");
    }
}

#[test]
fn an_unbuffered_device_gets_a_node_but_no_rule() {
    let (device, rules) = injected(&json!({"path": "/dev/x", "type": "u", "major": 1}));
    assert_eq!(device["type"], "u");
    assert_eq!(rules, json!([]));
}

// req: CDI-21
#[test]
fn a_link_is_not_followed() {
    let error = refused(&json!({"path": "/dev/link"}));
    assert!(matches!(&error, PlanError::NotADevice { host_path, .. } if host_path == "/dev/link"));
    let (device, _) = injected(&json!({"path": "/dev/link", "type": "c", "major": 1}));
    assert_eq!(device.get("fileMode"), None);
}

#[test]
fn a_node_that_is_missing_is_named_with_file_and_field() {
    let host = host(&json!({"path": "/dev/gone"}));
    let error = host.plan(&["a.b/c=d"], &json!({})).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{}: devices[0].containerEdits.deviceNodes[0]: cannot inspect /dev/gone on the host",
            host.path("low/one.json").display()
        )
    );
    assert_eq!(error.code(), "host-node-unreadable");
}

#[test]
fn a_type_other_than_the_hosts_is_refused() {
    for declared in ["b", "p", "u"] {
        let node = json!({"path": "/dev/null", "type": declared});
        if declared == "p" {
            injected(&node); // fully described: Go does not compare
            continue;
        }
        assert!(
            matches!(refused(&node), PlanError::TypeMismatch { .. }),
            "{node}"
        );
    }
}

#[test]
fn nodes_belong_to_the_containers_user_unless_the_spec_names_an_owner() {
    let config = json!({"process": {"user": {"uid": 7, "gid": 8}}});
    let node = json!({"path": "/dev/null"});
    let device = &host(&node).inject(&["a.b/c=d"], &config)["linux"]["devices"][0];
    assert_eq!((&device["uid"], &device["gid"]), (&json!(7), &json!(8)));

    let node = json!({"path": "/dev/null", "uid": 0, "gid": 1});
    let device = &host(&node).inject(&["a.b/c=d"], &config)["linux"]["devices"][0];
    assert_eq!((&device["uid"], &device["gid"]), (&json!(0), &json!(1)));
}

#[test]
fn nodes_of_a_container_that_runs_as_root_name_no_owner() {
    let config = json!({"process": {"user": {"uid": 0, "gid": 0}}});
    let node = json!({"path": "/dev/null"});
    let device = &host(&node).inject(&["a.b/c=d"], &config)["linux"]["devices"][0];
    assert_eq!((device.get("uid"), device.get("gid")), (None, None));
}

// req: CDI-22
#[test]
fn a_device_replaces_the_one_at_its_path_and_goes_to_the_end() {
    let config = json!({"linux": {"devices": [
        {"path": "/dev/null", "type": "b", "major": 1, "minor": 1, "x-vendor": 1},
        {"path": "/dev/other", "type": "c", "major": 1, "minor": 5},
    ]}});
    let devices =
        &host(&json!({"path": "/dev/null"})).inject(&["a.b/c=d"], &config)["linux"]["devices"];
    assert_eq!(
        devices,
        &json!([
            {"path": "/dev/other", "type": "c", "major": 1, "minor": 5},
            {"path": "/dev/null", "type": "c", "major": 1, "minor": 3, "fileMode": 438},
        ])
    );
}

#[test]
fn rules_are_added_after_those_of_the_container() {
    let deny = json!({"allow": false, "access": "rwm"});
    let config = json!({"linux": {"resources": {"devices": [deny]}}});
    let config = host(&json!({"path": "/dev/null"})).inject(&["a.b/c=d"], &config);
    let rules = config["linux"]["resources"]["devices"].as_array().unwrap();
    assert_eq!(rules.len(), 2);
    assert_eq!(rules[0], deny);
}

// req: CDI-22
#[test]
fn empty_permissions_are_all_permissions() {
    let (_, rules) = injected(&json!({"path": "/dev/null", "permissions": ""}));
    assert_eq!(rules[0]["access"], "rwm");
}
