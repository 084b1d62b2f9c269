//! The canonical form of a spec: a list without a meaningful order becomes an object.
//!
//! If names identify the elements of a list, it becomes an object with members
//! `[name]`. Of several elements with the same name, the last one is kept, as by
//! runtimes.

use imex_cdi::Spec;
use serde_json::{Map, Value};

pub(super) fn spec(spec: &Spec) -> Value {
    // serde_json wrote this text, so it can read it. Parsing and writing the spec
    // has already normalized YAML, a version's `v` and the like.
    let mut spec: Value = serde_json::from_slice(&spec.to_json()).unwrap_or_default();
    edits(&mut spec);
    if let Some(Value::Array(devices)) = spec.get_mut("devices") {
        devices.iter_mut().for_each(edits);
    }
    key_by(&mut spec, "devices", |device| text(device, "name"));
    spec
}

/// The edits of `owner`, a spec or a device.
fn edits(owner: &mut Value) {
    let Some(edits) = owner.get_mut("containerEdits") else {
        return;
    };
    variables(edits);
    if let Some(Value::Array(nodes)) = edits.get_mut("deviceNodes") {
        nodes.iter_mut().for_each(node);
    }
    key_by(edits, "deviceNodes", |node| text(node, "path"));
    key_by(edits, "netDevices", |device| {
        text(device, "hostInterfaceName")
    });
    key_by(edits, "mounts", |mount| text(mount, "containerPath"));
    hooks(edits);
    if let Some(Value::Array(gids)) = edits.get_mut("additionalGids") {
        // Runtimes ignore the field.
        gids.retain(|gid| *gid != 0);
    }
    as_set(edits, "additionalGids");
}

/// Normalizes values that Go's library treats as equal: no number and 0, no
/// permissions and all, no host path and the container's path.
fn node(node: &mut Value) {
    let Value::Object(node) = node else { return };
    node.retain(|name, value| !(matches!(name.as_str(), "major" | "minor") && *value == 0));
    if node.get("hostPath") == node.get("path") {
        node.shift_remove("hostPath");
    }
    node.entry("permissions").or_insert_with(|| "rwm".into());
}

/// Groups hooks by the stage at which they run: the order matters only within a group.
fn hooks(edits: &mut Value) {
    let Some(Value::Array(hooks)) = edits.get_mut("hooks").map(Value::take) else {
        remove(edits, "hooks");
        return;
    };
    let mut moments = Map::new();
    for hook in hooks {
        let moment = text(&hook, "hookName").unwrap_or_default();
        let of_moment = moments
            .entry(format!("[{moment}]"))
            .or_insert_with(|| Value::Array(vec![]));
        if let Value::Array(of_moment) = of_moment {
            of_moment.push(hook);
        }
    }
    put(edits, "hooks", Value::Object(moments));
}

/// Turns the list `env` into an object by name; of a variable set twice, the last value counts.
fn variables(owner: &mut Value) {
    let Some(Value::Array(env)) = owner.get("env") else {
        return;
    };
    let mut by_name = Map::new();
    for variable in env.iter().filter_map(Value::as_str) {
        let (name, value) = variable.split_once('=').unwrap_or((variable, ""));
        by_name.insert(format!("[{name}]"), value.into());
    }
    put(owner, "env", Value::Object(by_name));
}

/// Turns the list `name` into an object by the key of each element; unchanged if an element has none.
fn key_by(owner: &mut Value, name: &str, key: impl Fn(&Value) -> Option<String>) {
    let Some(Value::Array(list)) = owner.get(name) else {
        return;
    };
    let keyed: Option<Map<String, Value>> = list
        .iter()
        .map(|element| Some((format!("[{}]", key(element)?), element.clone())))
        .collect();
    if let Some(keyed) = keyed {
        put(owner, name, Value::Object(keyed));
    }
}

/// Turns the list `name` into a set.
fn as_set(owner: &mut Value, name: &str) {
    key_by(owner, name, |element| {
        Some(
            element
                .as_str()
                .map_or_else(|| element.to_string(), str::to_owned),
        )
    });
}

fn text(owner: &Value, name: &str) -> Option<String> {
    owner.get(name)?.as_str().map(str::to_owned)
}

fn put(owner: &mut Value, name: &str, value: Value) {
    if let Value::Object(members) = owner {
        members.insert(name.to_owned(), value);
    }
}

fn remove(owner: &mut Value, name: &str) {
    if let Value::Object(members) = owner {
        members.shift_remove(name);
    }
}
