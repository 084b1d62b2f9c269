//! Plans of very many edits.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::Host;

/// Of each kind, and as many in the container before.
const EACH: usize = 20_000;

/// As many as fit into one spec.
const IN_ONE: usize = 2_500;

/// A hundred times what it takes; looking through all for each takes longer.
const GIVE_UP: Duration = Duration::from_secs(30);

fn each(make: impl Fn(usize) -> Value) -> Value {
    (0..EACH).map(make).collect()
}

/// With the edits in devices of a spec each, and the devices' names.
fn host() -> (Host, Vec<String>) {
    let mut host = Host::new();
    let mut names = Vec::new();
    for start in (0..EACH).step_by(IN_ONE) {
        let each =
            |make: &dyn Fn(usize) -> Value| (start..start + IN_ONE).map(make).collect::<Value>();
        let edits = json!({
            "env": each(&|n| json!(format!("V{n}=new"))),
            "deviceNodes": each(&|n| json!({"path": format!("/dev/x{n}"), "type": "c", "major": 1, "minor": n})),
            "netDevices": each(&|n| json!({"hostInterfaceName": format!("h{n}"), "name": format!("c{n}")})),
            "hooks": each(&|n| json!({"hookName": "prestart", "path": format!("/h{n}")})),
            "mounts": each(&|n| json!({"hostPath": "/h", "containerPath": format!("/m{n}")})),
            "additionalGids": each(&|n| json!(n + 1)),
        });
        let device = json!([{"name": format!("d{start}"), "containerEdits": edits}]);
        host = host.file(&format!("low/{start}.json"), "a.b/c", &device, &json!({}));
        names.push(format!("a.b/c=d{start}"));
    }
    (host, names)
}

fn container() -> Value {
    json!({
        "process": {
            "user": {"uid": 1, "gid": 1, "additionalGids": each(|n| json!(n + EACH / 2))},
            "cwd": "/",
            "env": each(|n| json!(format!("V{}=old", n + EACH / 2))),
        },
        "mounts": each(|n| json!({"destination": format!("/m{}", n + EACH / 2), "source": "/old"})),
        "linux": {
            "devices": each(|n| json!({
                "path": format!("/dev/x{}", n + EACH / 2), "type": "b", "major": 9, "minor": 9,
            })),
        },
    })
}

#[test]
fn twenty_thousand_edits_of_each_kind_are_planned_and_applied_in_seconds() {
    let (host, names) = host();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut config = container();
    let start = Instant::now();
    let plan = host.plan(&names, &config).unwrap();
    plan.apply(&mut config);
    assert!(start.elapsed() < GIVE_UP, "{:?}", start.elapsed());
    let length = |pointer: &str| config.pointer(pointer).unwrap().as_array().unwrap().len();
    for pointer in ["/process/env", "/mounts", "/linux/devices"] {
        assert_eq!(length(pointer), EACH + EACH / 2, "{pointer}");
    }
    assert_eq!(length("/process/user/additionalGids"), EACH + EACH / 2 - 1);
    assert_eq!(config["process"]["env"][0], format!("V{}=new", EACH / 2));
    assert_eq!(config["mounts"][0]["source"], "/old");

    #[cfg(feature = "oci")]
    {
        let mut typed: oci_spec::runtime::Spec = serde_json::from_value(container()).unwrap();
        plan.apply(&mut typed);
        let json: oci_spec::runtime::Spec = serde_json::from_value(config).unwrap();
        assert_eq!(typed, json);
        assert!(start.elapsed() < GIVE_UP, "{:?}", start.elapsed());
    }
}
