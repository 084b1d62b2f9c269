//! All or nothing.

use imex_cdi::PlanError;
use serde_json::json;

use crate::support::{Host, device};

#[test]
fn every_name_without_device_is_listed_at_once() {
    let host = Host::with_device(&json!({"env": ["A=b"]}));
    let names = ["a.b/c=x", "a.b/c=d", "z/z=z", "a.b/c=x"];
    let error = host.plan(&names, &json!({})).unwrap_err();
    let PlanError::Unresolved(missing) = &error else {
        panic!("{error:?}");
    };
    let missing: Vec<_> = missing.iter().map(|why| why.name().to_string()).collect();
    assert_eq!(missing, ["a.b/c=x", "z/z=z"]);
    assert!(error.to_string().contains("a.b/c=x") && error.to_string().contains("z/z=z"));
}

#[test]
fn names_are_resolved_before_the_host_is_looked_at() {
    let host = Host::with_device(&json!({"deviceNodes": [{"path": "/dev/gone"}]}));
    let error = host.plan(&["a.b/c=d", "z/z=z"], &json!({})).unwrap_err();
    assert!(matches!(error, PlanError::Unresolved(_)));
}

/// Go's library leaves the environment and the first node in the config.
#[test]
fn a_node_that_fails_leaves_the_config_as_it_was() {
    let good =
        json!({"env": ["A=b"], "deviceNodes": [{"path": "/dev/x", "type": "c", "major": 1}]});
    let host = Host::new().file(
        "low/one.json",
        "a.b/c",
        &json!([
            device("good", &good),
            device("bad", &json!({"deviceNodes": [{"path": "/dev/gone"}]}))
        ]),
        &json!({}),
    );
    let config = json!({"process": {"env": ["OLD=1"]}});
    let before = config.clone();
    let error = host
        .plan(&["a.b/c=good", "a.b/c=bad"], &config)
        .unwrap_err();
    assert!(matches!(error, PlanError::HostNode { .. }));
    assert_eq!(config, before);
}

#[test]
fn a_config_of_another_shape_is_refused_by_its_place() {
    let host = Host::with_device(&json!({"env": ["A=b"]}));
    let config = json!({"linux": {"devices": {}}});
    let error = host.plan(&["a.b/c=d"], &config).unwrap_err();
    assert_eq!(
        error.to_string(),
        "OCI config: /linux/devices is not an array"
    );
    assert_eq!(error.code(), "oci-config-malformed");
}

#[test]
fn the_same_plan_is_made_again() {
    let host = Host::with_device(&json!({"env": ["A=b"], "additionalGids": [7]}));
    let plan = || host.plan(&["a.b/c=d"], &json!({})).unwrap();
    assert_eq!(plan(), plan());
}

#[test]
fn a_plan_for_no_device_changes_nothing() {
    let host = Host::new();
    assert_eq!(host.inject(&[], &json!({"x": 1})), json!({"x": 1}));
}
