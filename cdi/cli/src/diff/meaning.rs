//! Documents with their order taken out where it means nothing.
//!
//! A list whose elements are told apart by a name becomes an object with the
//! members `[name]`. Of elements with one name the last is kept where a runtime
//! keeps the last.

use imex_cdi::Spec;
use serde_json::{Map, Value};

use super::mounts;

pub(super) fn of_spec(spec: &Spec) -> Value {
    // It was written by serde_json a moment ago. Reading and writing the spec
    // has already taken YAML, a version's `v` and the like out.
    let mut spec: Value = serde_json::from_slice(&spec.to_json()).unwrap_or_default();
    edits(&mut spec);
    if let Some(Value::Array(devices)) = spec.get_mut("devices") {
        devices.iter_mut().for_each(edits);
    }
    by(&mut spec, "devices", |device| text(device, "name"));
    spec
}

/// Of an OCI runtime config. The order of device rules, hooks, system call
/// rules and whatever is not named here counts.
pub(super) fn of_config(config: &Value) -> Value {
    let mut config = config.clone();
    if let Some(process) = config.get_mut("process") {
        variables(process);
        by(process, "rlimits", |limit| text(limit, "type"));
        if let Some(user) = process.get_mut("user") {
            set(user, "additionalGids");
        }
        if let Some(Value::Object(capabilities)) = process.get_mut("capabilities") {
            let names: Vec<String> = capabilities.keys().cloned().collect();
            let mut all = Value::Object(std::mem::take(capabilities));
            for name in &names {
                set(&mut all, name);
            }
            if let Value::Object(all) = all {
                *capabilities = all;
            }
        }
    }
    mounts::by_target(&mut config);
    if let Some(linux) = config.get_mut("linux") {
        by(linux, "devices", |device| text(device, "path"));
        by(linux, "namespaces", |namespace| text(namespace, "type"));
        set(linux, "maskedPaths");
        set(linux, "readonlyPaths");
    }
    config
}

/// Of the edits that `owner` has: a spec or a device.
fn edits(owner: &mut Value) {
    let Some(edits) = owner.get_mut("containerEdits") else {
        return;
    };
    variables(edits);
    if let Some(Value::Array(nodes)) = edits.get_mut("deviceNodes") {
        nodes.iter_mut().for_each(node);
    }
    by(edits, "deviceNodes", |node| text(node, "path"));
    by(edits, "netDevices", |device| {
        text(device, "hostInterfaceName")
    });
    by(edits, "mounts", |mount| text(mount, "containerPath"));
    hooks(edits);
    if let Some(Value::Array(gids)) = edits.get_mut("additionalGids") {
        // Runtimes pass over it.
        gids.retain(|gid| *gid != 0);
    }
    set(edits, "additionalGids");
}

/// What Go's library reads the same: no number and 0, no permissions and all,
/// no path on the host and the same.
fn node(node: &mut Value) {
    let Value::Object(node) = node else { return };
    node.retain(|name, value| !(matches!(name.as_str(), "major" | "minor") && *value == 0));
    if node.get("hostPath") == node.get("path") {
        node.shift_remove("hostPath");
    }
    node.entry("permissions").or_insert_with(|| "rwm".into());
}

/// In the order of their moment, which is all that their order means.
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

/// The list `env` by names; a variable that is set twice has the last value.
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

/// The list `name` by what `key` finds in each element; as it is if there is
/// one without.
fn by(owner: &mut Value, name: &str, key: impl Fn(&Value) -> Option<String>) {
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

/// The list `name` as a set.
fn set(owner: &mut Value, name: &str) {
    by(owner, name, |element| {
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
