//! Configs of every shape: what `facts` accepts, a plan can be applied to.

use imex_cdi::{OciConfig, PlanError};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::support::Host;

/// The keys that edits use, and one that they do not.
const KEYS: [&str; 14] = [
    "process",
    "user",
    "env",
    "uid",
    "additionalGids",
    "linux",
    "devices",
    "path",
    "resources",
    "netDevices",
    "mounts",
    "destination",
    "hooks",
    "prestart",
];

fn edits() -> Value {
    json!({
        "env": ["CDI=1"],
        "deviceNodes": [{"path": "/dev/cdi", "type": "c", "major": 1}],
        "netDevices": [{"hostInterfaceName": "cdi0", "name": "net0"}],
        "hooks": [{"hookName": "prestart", "path": "/cdi"}],
        "mounts": [{"hostPath": "/cdi", "containerPath": "/cdi"}],
        "intelRdt": {"closID": "cdi"},
        "additionalGids": [4242],
    })
}

/// Objects with those keys and values of any kind under them.
fn shape() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        Just(json!(true)),
        Just(json!(-1)),
        Just(json!(7)),
        Just(json!("text")),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let members = prop::collection::vec((prop::sample::select(&KEYS[..]), inner.clone()), 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..3).prop_map(Value::from),
            members.prop_map(|members| {
                let members = members.into_iter();
                let members: Map<_, _> = members.map(|(key, v)| (key.to_owned(), v)).collect();
                Value::Object(members)
            }),
        ]
    })
}

/// A config whose sections are of the right kind more often than not.
fn config() -> impl Strategy<Value = Value> {
    let sections = (shape(), shape(), shape(), shape());
    prop_oneof![
        shape(),
        sections.prop_map(|(process, linux, mounts, hooks)| {
            json!({"process": process, "linux": linux, "mounts": [mounts], "hooks": hooks})
        }),
        (shape(), shape()).prop_map(|(user, devices)| {
            json!({"process": {"user": user}, "linux": {"devices": [devices]}})
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_config_is_refused_or_stays_one_that_can_be_edited(config in config()) {
        let host = Host::with_device(&edits());
        match host.plan(&["a.b/c=d"], &config) {
            Err(PlanError::Config(error)) => {
                prop_assert_eq!(Some(error.clone()), config.facts().err());
                let at = config.pointer(&error.pointer);
                prop_assert!(at.is_some(), "{} is not in {config}", error.pointer);
            }
            Err(other) => prop_assert!(false, "{other}"),
            Ok(plan) => {
                let mut edited = config.clone();
                plan.apply(&mut edited);
                prop_assert_eq!(edited.facts(), config.facts());
                prop_assert_eq!(&edited["linux"]["intelRdt"]["closID"], "cdi");
                let rules = edited["linux"]["resources"]["devices"].as_array().unwrap();
                prop_assert_eq!(&rules.last().unwrap()["major"], 1);
            }
        }
    }

    #[test]
    fn a_plan_for_another_container_does_not_stop_half_way(config in config()) {
        let plan = Host::with_device(&edits()).plan(&["a.b/c=d"], &json!({})).unwrap();
        let mut edited = config;
        plan.apply(&mut edited);
        for change in ["CDI=1", "/dev/cdi", "cdi0", "prestart", "\"cdi\"", "4242"] {
            prop_assert!(edited.to_string().contains(change), "{change} is not in {edited}");
        }
    }
}
