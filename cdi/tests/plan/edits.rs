//! Everything but device nodes, and the order of edits.

use imex_cdi::Change;
use serde_json::{Value, json};

use crate::support::{Host, device};

fn injected(edits: &Value, config: &Value) -> Value {
    Host::with_device(edits).inject(&["a.b/c=d"], config)
}

/// `one` of `low/` and `two` of `high/`, whose files have edits of their own.
fn two_files() -> Host {
    let edits = |name: &str| json!({"env": [format!("LAST={name}"), format!("{name}=1")]});
    Host::new()
        .file(
            "low/one.json",
            "a.b/one",
            &json!([device("x", &edits("ONE_X")), device("y", &edits("ONE_Y"))]),
            &edits("ONE"),
        )
        .file(
            "high/two.json",
            "a.b/two",
            &json!([device("x", &edits("TWO_X"))]),
            &edits("TWO"),
        )
}

// req: CDI-23
#[test]
fn a_variable_is_replaced_in_its_place() {
    let config = json!({"process": {"env": ["PATH=/bin", "A=old", "TERM=x"]}});
    let config = injected(&json!({"env": ["B=c=d", "A=new"]}), &config);
    assert_eq!(
        config["process"]["env"],
        json!(["PATH=/bin", "A=new", "TERM=x", "B=c=d"])
    );
}

// req: CDI-24
#[test]
fn edits_of_a_file_come_once_and_before_its_first_device() {
    let names = ["a.b/two=x", "a.b/one=y", "a.b/one=x"];
    let config = two_files().inject(&names, &json!({}));
    assert_eq!(
        config["process"]["env"],
        json!([
            "LAST=ONE_X",
            "TWO=1",
            "TWO_X=1",
            "ONE=1",
            "ONE_Y=1",
            "ONE_X=1"
        ])
    );
}

/// By the steps, because to set a variable twice leaves no trace.
// req: CDI-24
#[test]
fn the_edits_of_a_spec_are_planned_once_for_all_its_devices() {
    let plan = two_files()
        .plan(&["a.b/one=y", "a.b/one=x"], &json!({}))
        .unwrap();
    let of_file = plan
        .steps()
        .iter()
        .filter(|step| step.source.device.is_none());
    assert_eq!(of_file.count(), 2);
}

#[test]
fn each_step_names_the_file_and_field_that_it_comes_from() {
    let host = two_files();
    let plan = host.plan(&["a.b/one=y"], &json!({})).unwrap();
    let sources: Vec<_> = plan
        .steps()
        .iter()
        .map(|step| {
            let name = step.source.device.as_ref().map(ToString::to_string);
            (name, step.source.field.as_str(), step.change.to_string())
        })
        .collect();
    let of_device = Some("a.b/one=y".to_owned());
    assert_eq!(
        sources,
        [
            (None, "containerEdits.env[0]", "set LAST=ONE".to_owned()),
            (None, "containerEdits.env[1]", "set ONE=1".to_owned()),
            (
                of_device.clone(),
                "devices[1].containerEdits.env[0]",
                "set LAST=ONE_Y".to_owned()
            ),
            (
                of_device,
                "devices[1].containerEdits.env[1]",
                "set ONE_Y=1".to_owned()
            ),
        ]
    );
    assert!(
        plan.steps()
            .iter()
            .all(|step| step.source.file == host.path("low/one.json"))
    );
}

#[test]
fn a_name_that_is_given_twice_is_one_device() {
    let edits = json!({
        "hooks": [{"hookName": "prestart", "path": "/h"}],
        "deviceNodes": [{"path": "/dev/x", "type": "c", "major": 1, "minor": 3}],
    });
    let host = Host::with_device(&edits);
    assert_eq!(
        host.inject(&["a.b/c=d", "a.b/c=d"], &json!({})),
        host.inject(&["a.b/c=d"], &json!({}))
    );
}

// req: CDI-23
#[test]
fn a_mount_replaces_the_one_at_its_target_and_all_are_sorted_by_depth() {
    let config = json!({"mounts": [
        {"destination": "/a/b/c", "source": "1"},
        {"destination": "/proc", "source": "2"},
        {"destination": "/a/b", "source": "3"},
        {"destination": "/", "source": "4"},
    ]});
    let edits = json!({"mounts": [
        {"hostPath": "/new", "containerPath": "/a/b", "type": "bind", "options": ["ro"]},
        {"hostPath": "/top", "containerPath": "/top"},
    ]});
    assert_eq!(
        injected(&edits, &config)["mounts"],
        json!([
            {"destination": "/proc", "source": "2"},
            {"destination": "/", "source": "4"},
            {"destination": "/top", "source": "/top"},
            {"destination": "/a/b", "type": "bind", "source": "/new", "options": ["ro"]},
            {"destination": "/a/b/c", "source": "1"},
        ])
    );
}

#[test]
fn mounts_stay_in_their_order_when_no_mount_is_added() {
    let config = json!({"mounts": [{"destination": "/a/b"}, {"destination": "/a"}]});
    assert_eq!(
        injected(&json!({"env": ["A=b"]}), &config)["mounts"],
        config["mounts"]
    );
}

#[test]
fn a_hook_of_each_moment_is_added_after_those_already_there() {
    let moments = [
        "prestart",
        "createRuntime",
        "createContainer",
        "startContainer",
        "poststart",
        "poststop",
    ];
    let hooks: Vec<Value> = moments
        .map(|moment| json!({"hookName": moment, "path": "/h", "args": ["h", moment], "env": ["A=b"], "timeout": 5}))
        .into();
    let config = json!({"hooks": {"poststop": [{"path": "/old"}]}});
    let hooks = &injected(&json!({"hooks": hooks}), &config)["hooks"];
    for moment in moments {
        let ours = json!({"path": "/h", "args": ["h", moment], "env": ["A=b"], "timeout": 5});
        let expected = match moment {
            "poststop" => json!([{"path": "/old"}, ours]),
            _ => json!([ours]),
        };
        assert_eq!(hooks[moment], expected, "{moment}");
    }
}

#[test]
fn a_network_device_is_keyed_by_its_name_on_the_host() {
    let config = json!({"linux": {"netDevices": {"eth0": {"name": "old"}, "eth9": {}}}});
    let edits = json!({"netDevices": [{"hostInterfaceName": "eth0", "name": "net0"}]});
    assert_eq!(
        injected(&edits, &config)["linux"]["netDevices"],
        json!({"eth0": {"name": "net0"}, "eth9": {}})
    );
}

#[test]
fn the_last_intel_rdt_wins_and_replaces_the_containers() {
    let rdt = |class: &str| json!({"intelRdt": {"closID": class}});
    let host = Host::new().file(
        "low/one.json",
        "a.b/c",
        &json!([
            device("d", &rdt("device")),
            device("e", &json!({"env": ["A=b"]}))
        ]),
        &rdt("spec"),
    );
    let config = json!({"linux": {"intelRdt": {"closID": "old", "l3CacheSchema": "old"}}});
    for (name, class) in [("a.b/c=d", "device"), ("a.b/c=e", "spec")] {
        let config = host.inject(&[name], &config);
        assert_eq!(config["linux"]["intelRdt"], json!({"closID": class}));
    }
}

#[test]
fn groups_are_added_once_and_the_root_group_never() {
    let config = json!({"process": {"user": {"additionalGids": [5]}}});
    let edits = json!({"additionalGids": [0, 6, 5, 6]});
    let user = &injected(&edits, &config)["process"]["user"];
    assert_eq!(user["additionalGids"], json!([5, 6]));
    let plan = Host::with_device(&edits)
        .plan(&["a.b/c=d"], &config)
        .unwrap();
    assert!(
        !plan
            .steps()
            .iter()
            .any(|step| step.change == Change::AddGid(0))
    );
}

#[test]
fn a_section_that_is_missing_is_made_with_the_least_that_is_valid() {
    assert_eq!(
        injected(&json!({"env": ["A=b"]}), &json!({"process": null})),
        json!({"process": {"user": {"uid": 0, "gid": 0}, "cwd": "", "env": ["A=b"]}})
    );
    assert_eq!(
        injected(&json!({"intelRdt": {"closID": "x"}}), &json!({})),
        json!({"linux": {"intelRdt": {"closID": "x"}}})
    );
}
