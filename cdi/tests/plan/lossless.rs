//! Fields that no edit names are unchanged: keys unknown to OCI, their order, and numbers.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::support::Host;

/// One edit of each kind.
fn everything() -> Host {
    Host::with_device(&json!({
        "env": ["CDI=1"],
        "deviceNodes": [{"path": "/dev/cdi", "type": "c", "major": 1, "minor": 3}],
        "netDevices": [{"hostInterfaceName": "cdi0", "name": "net0"}],
        "hooks": [{"hookName": "createRuntime", "path": "/cdi"}],
        "mounts": [{"hostPath": "/cdi", "containerPath": "/cdi"}],
        "additionalGids": [4242],
    }))
}

fn foreign() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((".{0,6}", inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Members under names that no edit touches, in a random order.
fn members() -> impl Strategy<Value = Map<String, Value>> {
    let member = ("x-[a-z]{0,5}", foreign());
    prop::collection::vec(member, 0..4).prop_map(|members| members.into_iter().collect())
}

prop_compose! {
    /// A config with foreign members in each section that an edit changes.
    fn config()(mut root in members(), process in members(), user in members(), linux in members(),
                resources in members(), hooks in members(), device in members(), mount in members(),
                present in any::<[bool; 4]>()) -> Value {
        if present[0] {
            let mut process = process;
            process.insert("user".to_owned(), Value::Object(user));
            root.insert("process".to_owned(), Value::Object(process));
        }
        if present[1] {
            let mut linux = linux;
            linux.insert("resources".to_owned(), Value::Object(resources));
            linux.insert("devices".to_owned(), json!([device]));
            root.insert("linux".to_owned(), Value::Object(linux));
        }
        if present[2] {
            root.insert("hooks".to_owned(), Value::Object(hooks));
        }
        if present[3] {
            root.insert("mounts".to_owned(), json!([mount]));
        }
        Value::Object(root)
    }
}

/// Whether every value of `before` is in `after` under the same keys, with members in the same
/// order and new ones only after them. A list keeps its items, in order, with new ones only after
/// them.
fn keeps(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            before.keys().eq(after.keys().take(before.len()))
                && before.iter().all(|(key, value)| keeps(value, &after[key]))
        }
        (Value::Array(before), Value::Array(after)) => {
            before.len() <= after.len() && before.iter().zip(after).all(|(b, a)| keeps(b, a))
        }
        _ => before == after,
    }
}

proptest! {
    // req: CDI-25
    #[test]
    fn a_config_keeps_all_that_no_edit_names(config in config()) {
        let after = everything().inject(&["a.b/c=d"], &config);
        prop_assert!(keeps(&config, &after), "{config}\nbecame\n{after}");
        let text = after.to_string();
        for change in ["CDI=1", "/dev/cdi", "cdi0", "createRuntime", "\"/cdi\"", "4242"] {
            prop_assert!(text.contains(change), "{change} is not in {text}");
        }
    }
}

// req: CDI-25
#[test]
fn numbers_of_64_bits_stay_as_written() {
    let text = r#"{"linux":{"resources":{"memory":{"limit":9223372036854775807,"swap":-9223372036854775808},"pids":{"limit":18446744073709551615}}}}"#;
    let config: Value = serde_json::from_str(text).unwrap();
    let after = Host::with_device(&json!({"env": ["A=b"]})).inject(&["a.b/c=d"], &config);
    assert!(
        after
            .to_string()
            .starts_with(text.strip_suffix('}').unwrap())
    );
}

#[test]
fn a_check_that_sees_a_lost_key_or_another_order_fails() {
    let before = json!({"a": 1, "b": [1]});
    assert!(keeps(&before, &json!({"a": 1, "b": [1, 2], "c": 3})));
    for after in [
        json!({"a": 1}),
        json!({"b": [1], "a": 1}),
        json!({"a": 1, "b": []}),
    ] {
        assert!(!keeps(&before, &after), "{after}");
    }
}
