//! `Spec::warnings` and `Spec::needs` of valid specs.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed unwrap outside a test function fails the test too"
)]

use imex_cdi::{ChannelId, Device, DeviceName, Kind, Major, Spec, SpecVersion, channel_edits};
use serde_json::{Value, json};

/// Field and code of each warning.
fn warnings(spec: &Value) -> Vec<(String, &'static str)> {
    let spec = Spec::from_json(spec.to_string().as_bytes()).unwrap();
    let warnings = spec.warnings().into_iter();
    warnings
        .map(|warning| (warning.field.clone(), warning.code()))
        .collect()
}

/// A spec at the version that it needs, of one device with `edits`.
fn with_edits(edits: &Value) -> Value {
    let mut spec = json!({
        "cdiVersion": "1.1.0",
        "kind": "vendor.com/class",
        "devices": [{"name": "dev", "containerEdits": edits}],
    });
    let needed = Spec::from_json(spec.to_string().as_bytes()).unwrap();
    spec["cdiVersion"] = needed.needed_version().as_str().into();
    spec
}

fn warnings_of_edits(edits: &Value) -> Vec<(String, &'static str)> {
    let prefix = "devices[0].containerEdits.";
    let warnings = warnings(&with_edits(edits)).into_iter();
    warnings
        .map(|(field, code)| (field.strip_prefix(prefix).unwrap().to_owned(), code))
        .collect()
}

fn node(fields: &Value) -> Value {
    let mut node = json!({"path": "/dev/x"});
    let object = node.as_object_mut().unwrap();
    object.extend(fields.as_object().unwrap().clone());
    json!({"deviceNodes": [node]})
}

#[test]
fn what_this_crate_writes_has_no_warnings() {
    let channels = [0, 1, 2047].map(|id| ChannelId::new(id).unwrap());
    let devices = channels.map(|channel| Device {
        name: channel.device_name(),
        annotations: [].into(),
        container_edits: channel_edits(channel, Major::new(235).unwrap()),
    });
    let spec = Spec::new(Kind::compute_domain_claim(), devices.into()).unwrap();
    assert_eq!(spec.warnings(), []);
}

#[test]
fn a_nul_byte_is_warned_about_in_every_string_for_the_kernel() {
    let edits = json!({
        "env": ["A=b", "A\0=b"],
        "deviceNodes": [{"path": "/d\0", "hostPath": "/\0"}],
        "hooks": [{"hookName": "prestart", "path": "/h\0", "args": ["h", "\0"], "env": ["B=\0"]}],
        "mounts": [{"hostPath": "a\0", "containerPath": "/\0", "options": ["\0"]}],
    });
    let fields: Vec<_> = warnings_of_edits(&edits)
        .into_iter()
        .filter_map(|(field, code)| (code == "nul-in-text").then_some(field))
        .collect();
    assert_eq!(
        fields,
        [
            "env[1]",
            "deviceNodes[0].path",
            "deviceNodes[0].hostPath",
            "hooks[0].path",
            "hooks[0].args[1]",
            "hooks[0].env[0]",
            "mounts[0].hostPath",
            "mounts[0].containerPath",
            "mounts[0].options[0]",
        ]
    );
}

#[test]
fn contradictory_mount_options_and_the_root_group_are_warned_about() {
    let mount = |options: &[&str]| json!({"mounts": [{"hostPath": "/a", "containerPath": "/b", "options": options}]});
    assert_eq!(warnings_of_edits(&mount(&["bind", "ro"])), []);
    assert_eq!(
        warnings_of_edits(&mount(&["rw", "bind", "ro"])),
        [("mounts[0].options".to_owned(), "mount-ro-and-rw")]
    );
    assert_eq!(
        warnings_of_edits(&json!({"additionalGids": [1, u32::MAX]})),
        [("additionalGids[1]".to_owned(), "number-out-of-range")]
    );
}

#[test]
fn misleading_numbers_of_a_node_are_warned_about() {
    for (fields, expected) in [
        (json!({"type": "c", "major": 1, "minor": 0}), None),
        (json!({"type": "p", "major": 0, "minor": 0}), None),
        (
            json!({"type": "p", "major": 4}),
            Some(("major", "fifo-with-number")),
        ),
        (
            json!({"uid": u32::MAX}),
            Some(("uid", "number-out-of-range")),
        ),
        (
            json!({"gid": u32::MAX}),
            Some(("gid", "number-out-of-range")),
        ),
        (json!({"fileMode": 438}), None),
        (json!({"fileMode": 0o4755}), None),
        (
            json!({"fileMode": 666}),
            Some(("fileMode", "mode-looks-octal")),
        ),
        (
            json!({"fileMode": 600}),
            Some(("fileMode", "mode-looks-octal")),
        ),
        (
            json!({"fileMode": 644}),
            Some(("fileMode", "mode-looks-octal")),
        ),
        (
            json!({"fileMode": 0o10000}),
            Some(("fileMode", "number-out-of-range")),
        ),
        (
            json!({"type": "c", "major": 4096, "minor": 0}),
            Some(("major", "number-out-of-range")),
        ),
        (
            json!({"type": "c", "major": -1, "minor": 0}),
            Some(("major", "number-out-of-range")),
        ),
        (
            json!({"type": "c", "major": 1, "minor": 1 << 20}),
            Some(("minor", "number-out-of-range")),
        ),
        (
            json!({"type": "c", "major": 1, "minor": -1}),
            Some(("minor", "number-out-of-range")),
        ),
        (
            json!({"type": "c", "major": 1}),
            Some(("major", "major-without-minor")),
        ),
        (
            json!({"type": "c", "minor": 1}),
            Some(("minor", "minor-without-major")),
        ),
        (
            json!({"type": "c", "major": 0, "minor": 1}),
            Some(("minor", "minor-without-major")),
        ),
        (
            json!({"major": 1, "minor": 0}),
            Some(("major", "numbers-without-type")),
        ),
        (
            json!({"type": "u", "major": 1, "minor": 0}),
            Some(("type", "no-cgroup-rule")),
        ),
    ] {
        let expected = expected.map(|(leaf, code)| (format!("deviceNodes[0].{leaf}"), code));
        let expected: Vec<_> = expected.into_iter().collect();
        assert_eq!(warnings_of_edits(&node(&fields)), expected, "{fields}");
    }
}

#[test]
fn misleading_entries_are_warned_about() {
    let hook = |path: &str, timeout: i64| json!({"hooks": [{"hookName": "prestart", "path": path, "timeout": timeout}]});
    let mount = |path: &str| json!({"hostPath": "tmpfs", "containerPath": path});
    for (edits, field, code) in [
        (hook("h", 1), "hooks[0].path", "relative-path"),
        (hook("/h", 0), "hooks[0].timeout", "hook-without-time"),
        (hook("/h", -1), "hooks[0].timeout", "hook-without-time"),
        (
            json!({"deviceNodes": [{"path": "dev/x"}]}),
            "deviceNodes[0].path",
            "relative-path",
        ),
        (
            json!({"deviceNodes": [{"path": "/x", "hostPath": "x"}]}),
            "deviceNodes[0].hostPath",
            "relative-path",
        ),
        (
            json!({"deviceNodes": [{"path": "/x"}, {"path": "/x"}]}),
            "deviceNodes[1].path",
            "path-repeated",
        ),
        (
            json!({"mounts": [mount("b")]}),
            "mounts[0].containerPath",
            "relative-path",
        ),
        (
            json!({"mounts": [mount("/b"), mount("/b")]}),
            "mounts[1].containerPath",
            "path-repeated",
        ),
        (
            json!({"env": ["A=b", "AB=c", "A=d"]}),
            "env[2]",
            "variable-repeated",
        ),
        (
            json!({"additionalGids": [1, 0]}),
            "additionalGids[1]",
            "group-0",
        ),
        (
            json!({"netDevices": [{"hostInterfaceName": "a-name-of-16-byt", "name": "e"}]}),
            "netDevices[0].hostInterfaceName",
            "interface-name-too-long",
        ),
    ] {
        let expected = vec![(field.to_owned(), code)];
        assert_eq!(warnings_of_edits(&edits), expected, "{edits}");
    }
}

#[test]
fn a_version_higher_than_needed_is_warned_about() {
    let mut spec = with_edits(&json!({"env": ["A=b"]}));
    assert_eq!(warnings(&spec), []);
    spec["cdiVersion"] = "0.5.0".into();
    assert_eq!(
        warnings(&spec),
        [("cdiVersion".to_owned(), "cdi-version-too-high")]
    );
}

#[test]
fn annotations_that_kubernetes_would_refuse_are_warned_about() {
    let long = "x".repeat(256 * 1024);
    for (annotations, code) in [
        (json!({"a": ""}), None),
        (json!({"Vendor.example/A-b_c.d": ""}), None),
        (json!({"": ""}), Some("annotation-key")),
        (json!({"a/b/c": ""}), Some("annotation-key")),
        (json!({"/a": ""}), Some("annotation-key")),
        (json!({"a b": ""}), Some("annotation-key")),
        (json!({"a": long}), Some("annotations-too-long")),
    ] {
        let mut spec = with_edits(&json!({"env": ["A=b"]}));
        spec["cdiVersion"] = "0.6.0".into();
        spec["annotations"] = annotations;
        let expected = code.map(|code| ("annotations".to_owned(), code));
        assert_eq!(warnings(&spec), Vec::from_iter(expected));
    }
}

#[test]
fn channels_with_the_wrong_number_or_in_two_devices_are_warned_about() {
    let node = |channel: u32, minor: u32| {
        let path = format!("/dev/nvidia-caps-imex-channels/channel{channel}");
        json!({"path": path, "type": "c", "major": 235, "minor": minor})
    };
    let device = |name: &str, nodes: Vec<Value>| json!({"name": name, "containerEdits": {"deviceNodes": nodes}});
    let spec = json!({"cdiVersion": "0.3.0", "kind": "vendor.com/class", "devices": [
        device("a", vec![node(1, 1)]),
        device("b", vec![node(2, 3)]),
        device("c", vec![node(1, 1)]),
        device("all", vec![node(1, 1), node(2, 2)]),
    ]});
    let path =
        |device: u32, leaf: &str| format!("devices[{device}].containerEdits.deviceNodes[0].{leaf}");
    assert_eq!(
        warnings(&spec),
        [
            (path(1, "minor"), "other-channel"),
            (path(2, "path"), "channel-in-two-devices"),
        ]
    );
}

#[test]
fn a_warning_names_field_consequence_and_fix() {
    let spec = with_edits(&node(&json!({"fileMode": 666})));
    let spec = Spec::from_json(spec.to_string().as_bytes()).unwrap();
    let warning = spec.warnings().remove(0);
    assert_eq!(
        warning.to_string(),
        "devices[0].containerEdits.deviceNodes[0].fileMode looks like octal digits, but JSON \
         numbers are decimal"
    );
    assert!(warning.hint().contains("0666 as 438"));
}

#[test]
fn every_field_that_needs_a_version_is_named_with_it() {
    let edits = json!({
        "deviceNodes": [{"path": "/a"}, {"path": "/b", "hostPath": "/c"}],
        "mounts": [{"hostPath": "/a", "containerPath": "/b", "type": "bind"}],
        "netDevices": [{"hostInterfaceName": "a", "name": "b"}],
        "intelRdt": {"schemata": [], "enableMonitoring": true},
        "additionalGids": [1],
    });
    let spec = json!({
        "cdiVersion": "1.1.0",
        "kind": "vendor.com/class.v2",
        "annotations": {"a": "b"},
        "devices": [{"name": "0", "annotations": {"a": "b"}, "containerEdits": edits}],
        "containerEdits": {"intelRdt": {}},
    });
    let spec = Spec::from_json(spec.to_string().as_bytes()).unwrap();
    let needs: Vec<_> = spec
        .needs()
        .map(|(version, field)| format!("{version} {field}"))
        .collect();
    assert_eq!(
        needs,
        [
            "0.6.0 kind",
            "0.6.0 annotations",
            "0.7.0 containerEdits.intelRdt",
            "0.5.0 devices[0].name",
            "0.6.0 devices[0].annotations",
            "0.5.0 devices[0].containerEdits.deviceNodes[1].hostPath",
            "0.4.0 devices[0].containerEdits.mounts[0].type",
            "1.1.0 devices[0].containerEdits.netDevices",
            "0.7.0 devices[0].containerEdits.additionalGids",
            "0.7.0 devices[0].containerEdits.intelRdt",
            "1.1.0 devices[0].containerEdits.intelRdt.schemata",
            "1.1.0 devices[0].containerEdits.intelRdt.enableMonitoring",
        ]
    );
}

#[test]
fn a_changed_spec_is_checked_again_and_states_what_it_needs() {
    let device = |name: &str| Device {
        name: DeviceName::new(name).unwrap(),
        annotations: [].into(),
        container_edits: channel_edits(ChannelId::new(0).unwrap(), Major::new(235).unwrap()),
    };
    let spec = Spec::new("a/b".parse().unwrap(), vec![device("x")]).unwrap();
    assert_eq!(spec.version(), SpecVersion::V0_3_0);
    let annotated = spec.with_annotations([("a".to_owned(), "b".to_owned())].into());
    let annotated = annotated.unwrap();
    assert_eq!(annotated.version(), SpecVersion::V0_6_0);
    let higher = annotated.with_version(SpecVersion::V1_0_0).unwrap();
    assert_eq!(higher.version(), SpecVersion::V1_0_0);
    let error = higher.with_version(SpecVersion::V0_5_0).unwrap_err();
    assert_eq!(error.code(), "cdi-version-too-low");
    assert!(error.to_string().contains("annotations"), "{error}");
}
