//! A config after a plan, minus the reported losses.

use std::collections::{BTreeMap, BTreeSet};

use imex_cdi::{Change, DeviceRule, Loss, LossReason, Permissions};
use serde_json::{Value, json};

use crate::cases::Case;

/// The config with its devices as NRI can give them.
pub(crate) fn with_losses(case: &Case) -> Value {
    let mut config = case.planned.clone();
    // First, because the removed rules may belong to other devices.
    for loss in &case.adjusted.losses {
        lose(&mut config, loss);
    }
    for loss in &case.adjusted.losses {
        if let (
            Change::AllowDevice(rule),
            LossReason::MoreAccess(given) | LossReason::LessAccess(given),
        ) = (&loss.change, loss.reason)
        {
            rules(&mut config).push(rule_json(rule, given));
        }
    }
    config
}

fn lose(config: &mut Value, Loss { change, reason }: &Loss) {
    match (change, reason) {
        (Change::SetEnv(assignment), _) => {
            let (name, _) = assignment.split_once('=').unwrap();
            remove(&mut config["process"]["env"], |item| {
                item.as_str().unwrap().split_once('=').unwrap().0 == name
            });
        }
        (Change::SetDevice(device), LossReason::UnknownUser) => {
            let devices = config["linux"]["devices"].as_array_mut().unwrap();
            assert!(devices.iter().any(|item| item["path"] == device.path));
        }
        (Change::SetDevice(device), _) => {
            remove(&mut config["linux"]["devices"], |item| {
                item["path"] == device.path
            });
        }
        (Change::AllowDevice(rule), LossReason::LessAccess(_)) => {
            let rule = rule_json(rule, rule.access);
            remove(&mut config["linux"]["resources"]["devices"], |item| {
                *item == rule
            });
        }
        (Change::AllowDevice(_), _) => {}
        (Change::SetNetDevice(device), _) => {
            let devices = config["linux"]["netDevices"].as_object_mut().unwrap();
            devices.remove(&device.host_interface_name);
        }
        (Change::SetMount(mount), _) => {
            remove(&mut config["mounts"], |item| {
                item["destination"] == mount.container_path
            });
        }
        (Change::SetIntelRdt(_), LossReason::NoField) => {
            let rdt = config["linux"]["intelRdt"].as_object_mut().unwrap();
            rdt.remove("l3CacheSchema").unwrap();
            rdt.remove("memBwSchema").unwrap();
        }
        (Change::SetIntelRdt(_), _) => {
            config["linux"]
                .as_object_mut()
                .unwrap()
                .remove("intelRdt")
                .unwrap();
        }
        (Change::AddGid(gid), _) => {
            remove(&mut config["process"]["user"]["additionalGids"], |item| {
                *item == json!(gid)
            });
        }
        other => unreachable!("NRI can say {other:?}"),
    }
}

fn remove(list: &mut Value, is_lost: impl Fn(&Value) -> bool) {
    list.as_array_mut().unwrap().retain(|item| !is_lost(item));
}

fn rules(config: &mut Value) -> &mut Vec<Value> {
    config["linux"]["resources"]["devices"]
        .as_array_mut()
        .unwrap()
}

fn rule_json(rule: &DeviceRule, access: Permissions) -> Value {
    json!({"allow": true, "type": rule.device_type.as_str(), "major": rule.major,
           "minor": rule.minor, "access": String::from(access)})
}

/// What a container sees of its config: rules add up, and mounts of one depth are in no
/// order.
pub(crate) fn seen(config: &Value) -> Value {
    let mut config = config.clone();
    let mut access = BTreeMap::<String, BTreeSet<char>>::new();
    for rule in rules(&mut config).drain(..) {
        let device = format!(
            "{} {} {} {}",
            rule["allow"], rule["type"], rule["major"], rule["minor"]
        );
        let letters = rule["access"].as_str().unwrap().chars();
        access.entry(device).or_default().extend(letters);
    }
    access.retain(|_, letters| !letters.is_empty());
    config["linux"]["resources"] = json!(access);
    let mounts = config["mounts"].as_array_mut().unwrap();
    mounts.sort_by_key(|mount| mount["destination"].to_string());
    pruned(&config)
}

/// The value without empty parts, which Go omits.
fn pruned(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(key, member)| (key.clone(), pruned(member)));
            let is_empty = |member: &Value| match member {
                Value::Null => true,
                Value::Object(members) => members.is_empty(),
                Value::Array(items) => items.is_empty(),
                Value::String(text) => text.is_empty(),
                _ => false,
            };
            Value::Object(members.filter(|(_, member)| !is_empty(member)).collect())
        }
        other => other.clone(),
    }
}
