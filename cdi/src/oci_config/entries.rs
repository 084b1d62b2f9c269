//! The JSON of entries of an OCI config, as Go's library writes them: empty lists and
//! strings are omitted, zero device numbers are not.

use serde_json::{Value, json};

use super::{DeviceRule, PlannedDevice};
use crate::{Hook, IntelRdt, Mount};

/// A process with only the fields that OCI requires.
pub(super) fn process() -> Value {
    json!({"user": {"uid": 0, "gid": 0}, "cwd": ""})
}

/// A fifo has numbers too, which OCI allows.
pub(super) fn device(device: &PlannedDevice) -> Value {
    let PlannedDevice {
        path,
        device_type,
        major,
        minor,
        file_mode,
        uid,
        gid,
    } = device;
    let mut json = json!({"path": path, "type": device_type, "major": major, "minor": minor});
    for (key, value) in [("fileMode", file_mode), ("uid", uid), ("gid", gid)] {
        if let Some(value) = value {
            insert(&mut json, key, *value);
        }
    }
    json
}

pub(super) fn rule(rule: &DeviceRule) -> Value {
    let DeviceRule {
        device_type,
        major,
        minor,
        access,
    } = rule;
    json!({
        "allow": true,
        "type": device_type,
        "major": major,
        "minor": minor,
        "access": access,
    })
}

pub(super) fn net_device(name: &str) -> Value {
    json!({"name": name})
}

pub(super) fn mount(mount: &Mount) -> Value {
    let Mount {
        host_path,
        container_path,
        options,
        fs_type,
    } = mount;
    let mut json = json!({"destination": container_path});
    insert_text(&mut json, "type", fs_type.as_deref().unwrap_or_default());
    insert(&mut json, "source", host_path.as_str());
    insert_texts(&mut json, "options", options);
    json
}

pub(super) fn hook(hook: &Hook) -> Value {
    let Hook {
        hook_name: _, // the list that the hook goes to
        path,
        args,
        env,
        timeout,
    } = hook;
    let mut json = json!({"path": path});
    insert_texts(&mut json, "args", args);
    insert_texts(&mut json, "env", env);
    if let Some(timeout) = timeout {
        insert(&mut json, "timeout", *timeout);
    }
    json
}

pub(super) fn rdt(rdt: &IntelRdt) -> Value {
    let IntelRdt {
        clos_id,
        l3_cache_schema,
        mem_bw_schema,
        schemata,
        enable_monitoring,
    } = rdt;
    let mut json = json!({});
    insert_text(&mut json, "closID", clos_id);
    insert_text(&mut json, "l3CacheSchema", l3_cache_schema);
    insert_text(&mut json, "memBwSchema", mem_bw_schema);
    insert_texts(
        &mut json,
        "schemata",
        schemata.as_deref().unwrap_or_default(),
    );
    if *enable_monitoring {
        insert(&mut json, "enableMonitoring", true);
    }
    json
}

fn insert_text(json: &mut Value, key: &str, text: &str) {
    if !text.is_empty() {
        insert(json, key, text);
    }
}

fn insert_texts(json: &mut Value, key: &str, texts: &[String]) {
    if !texts.is_empty() {
        insert(json, key, texts);
    }
}

fn insert(json: &mut Value, key: &str, value: impl Into<Value>) {
    if let Some(members) = json.as_object_mut() {
        members.insert(key.to_owned(), value.into());
    }
}
