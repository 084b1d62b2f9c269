//! The same plan on `oci_spec`'s type.

use imex_cdi::OciConfig;
use oci_spec::runtime::Spec;
use serde_json::{Value, json};

use crate::support::Host;

/// One edit of each kind; each device type and hook.
fn everything() -> Host {
    let hooks: Vec<Value> = [
        "prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop",
    ]
    .map(|moment| json!({"hookName": moment, "path": "/h", "args": ["h"], "env": ["A=b"], "timeout": 5}))
    .into();
    Host::with_device(&json!({
        "env": ["A=new", "CDI=1"],
        "deviceNodes": [
            {"path": "/dev/c", "type": "c", "major": 1, "minor": 3, "permissions": "r"},
            {"path": "/dev/b", "type": "b", "major": 7, "fileMode": 432, "uid": 1, "gid": 2},
            {"path": "/dev/u", "type": "u", "major": 1},
            {"path": "/dev/p", "type": "p"},
        ],
        "netDevices": [{"hostInterfaceName": "eth0", "name": "net0"}],
        "hooks": hooks,
        "mounts": [{"hostPath": "/a/b", "containerPath": "/a/b", "type": "bind", "options": ["ro"]},
                   {"hostPath": "/a", "containerPath": "/a"}],
        "intelRdt": {"closID": "x", "l3CacheSchema": "l", "memBwSchema": "m", "schemata": ["s"], "enableMonitoring": true},
        "additionalGids": [0, 5, 6],
    }))
}

fn read(config: &Value) -> Spec {
    serde_json::from_value(config.clone()).unwrap()
}

/// The type's result equals the JSON's result, read into the type.
#[test]
fn both_forms_of_a_config_become_the_same() {
    let full = json!({
        "ociVersion": "1.0.2",
        "process": {"user": {"uid": 7, "gid": 8, "additionalGids": [5]}, "cwd": "/", "env": ["A=old"]},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}, {"destination": "/a"}],
        "linux": {
            "devices": [{"path": "/dev/c", "type": "b", "major": 9, "minor": 9}],
            "resources": {"devices": [{"allow": false, "access": "rwm"}]},
        },
        "hooks": {"poststop": [{"path": "/old"}]},
    });
    let host = everything();
    for config in [json!({"ociVersion": "1.0.2"}), full] {
        let plan = host.plan(&["a.b/c=d"], &config).unwrap();
        let (mut json, mut typed) = (config.clone(), read(&config));
        plan.apply(&mut json);
        plan.apply(&mut typed);
        assert_eq!(typed, read(&json));
        assert_eq!(read(&config).facts(), config.facts());
    }
}

/// `oci_spec`'s defaults would run `sh` with capabilities, in new namespaces.
#[test]
fn a_section_that_is_missing_is_made_without_defaults() {
    let mut typed = read(&json!({"ociVersion": "1.0.2"}));
    let plan = everything().plan(&["a.b/c=d"], &json!({})).unwrap();
    plan.apply(&mut typed);
    let process = typed.process().as_ref().unwrap();
    assert_eq!((process.args(), process.capabilities()), (&None, &None));
    let linux = typed.linux().as_ref().unwrap();
    assert_eq!((linux.namespaces(), linux.masked_paths()), (&None, &None));
    assert!(typed.root().is_none() && typed.hostname().is_none());
}
