//! All or nothing.

use std::path::PathBuf;

use imex_cdi::{Change, DirState, PlanError, Registry};
use serde_json::json;

use crate::support::{Host, device};

// req: CDI-20
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
fn names_are_resolved_before_the_host_is_inspected() {
    let host = Host::with_device(&json!({"deviceNodes": [{"path": "/dev/gone"}]}));
    let error = host.plan(&["a.b/c=d", "z/z=z"], &json!({})).unwrap_err();
    assert!(matches!(error, PlanError::Unresolved(_)));
}

/// Go's library leaves the environment and the first node in the config.
// req: CDI-20
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

/// Text that any user may have put into a spec, a config or a file name.
const UNSEEN: &str = "\n\u{1b}[31m\u{202e}\u{200b}";
const SHOWN: &str = "\\n\\u{1b}[31m\\u{202e}\\u{200b}";

fn assert_one_line(text: &str) {
    assert!(
        !text.contains(['\n', '\u{1b}', '\u{202e}', '\u{200b}']),
        "{text:?}"
    );
    assert!(text.contains(SHOWN), "{text:?}");
}

#[test]
fn a_step_is_one_line_whatever_is_in_it() {
    let edits = json!({
        "env": [format!("A={UNSEEN}")],
        "deviceNodes": [{"path": format!("/dev/{UNSEEN}"), "type": "c", "major": 1}],
        "netDevices": [{"hostInterfaceName": UNSEEN, "name": UNSEEN}],
        "hooks": [{"hookName": "prestart", "path": UNSEEN}],
        "mounts": [{"hostPath": UNSEEN, "containerPath": UNSEEN}],
    });
    let file = format!("low/{UNSEEN}.json");
    let host = Host::new().file(&file, "a.b/c", &json!([device("d", &edits)]), &json!({}));
    let plan = host.plan(&["a.b/c=d"], &json!({})).unwrap();
    assert_eq!(plan.steps().len(), 6);
    for step in plan.steps() {
        assert_one_line(&step.source.to_string());
        if !matches!(step.change, Change::AllowDevice(_)) {
            assert_one_line(&step.change.to_string());
        }
    }
}

#[test]
fn an_error_is_one_line_whatever_it_names() {
    let edits = json!({"deviceNodes": [{"path": UNSEEN}]});
    let error = |config| {
        let host = Host::with_device(&edits);
        host.plan(&["a.b/c=d"], &config).unwrap_err()
    };
    assert_one_line(&error(json!({})).to_string());
    assert_one_line(&error(json!({"linux": {"netDevices": {UNSEEN: 1}}})).to_string());

    let path = PathBuf::from(format!("/nowhere/{UNSEEN}"));
    let devices = imex_cdi::read_channel_major(&path).unwrap_err();
    assert_one_line(&devices.to_string());
    assert_one_line(&imex_cdi::DriverParams::read(&path).unwrap_err().to_string());

    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join(format!("{UNSEEN}.json"));
    std::fs::write(&path, "{").unwrap();
    let registry = Registry::load(&[
        scratch.path(),
        &scratch.path().join(UNSEEN),
        &path.join("x"),
    ]);
    let error = registry.files()[0].spec.as_ref().unwrap_err();
    assert_one_line(&error.to_string());
    let DirState::Skipped(error) = &registry.dirs()[2].state else {
        panic!("{:?}", registry.dirs());
    };
    assert_one_line(&error.to_string());
}
