//! An OCI config as a JSON document: fields that no edit names are preserved, including unknown
//! ones, and so is their order.

use serde_json::{Map, Value};

use super::{
    ConfigError, ContainerFacts, DeviceRule, OciConfig, PlannedDevice, entries, lists, validate,
};
use crate::{Hook, IntelRdt, Mount};

/// Fields that no edit names are preserved, in their order if `serde_json` has its
/// feature `preserve_order`. In a document that [`facts`](OciConfig::facts) would
/// refuse, malformed sections are replaced.
impl OciConfig for Value {
    fn facts(&self) -> Result<ContainerFacts, ConfigError> {
        validate::facts(self)
    }

    fn set_env(&mut self, assignments: &[&str]) {
        let env = array(process(self), "env");
        let assignments = assignments.iter().map(|assignment| (*assignment).into());
        lists::set_env(env, Self::as_str, assignments);
    }

    fn set_devices(&mut self, devices: &[&PlannedDevice]) {
        let list = array(object(members(self), "linux"), "devices");
        let devices = devices.iter().map(|device| entries::device(device));
        lists::set_devices(list, |other| text(other, "path"), devices);
    }

    fn allow_device(&mut self, rule: &DeviceRule) {
        let resources = object(object(members(self), "linux"), "resources");
        array(resources, "devices").push(entries::rule(rule));
    }

    fn set_net_device(&mut self, host_name: &str, name: &str) {
        let devices = object(object(members(self), "linux"), "netDevices");
        devices.insert(host_name.to_owned(), entries::net_device(name));
    }

    fn set_mounts(&mut self, mounts: &[&Mount]) {
        let list = array(members(self), "mounts");
        let mounts = mounts.iter().map(|mount| entries::mount(mount));
        lists::set_mounts(list, |other| text(other, "destination"), mounts);
    }

    fn add_hook(&mut self, hook: &Hook) {
        let hooks = object(members(self), "hooks");
        array(hooks, &hook.hook_name).push(entries::hook(hook));
    }

    fn set_intel_rdt(&mut self, rdt: &IntelRdt) {
        let linux = object(members(self), "linux");
        linux.insert("intelRdt".to_owned(), entries::rdt(rdt));
    }

    fn add_gids(&mut self, gids: &[u32]) {
        let list = array(object(process(self), "user"), "additionalGids");
        lists::add_gids(list, validate::id, gids.iter().copied());
    }
}

fn process(config: &mut Value) -> &mut Map<String, Value> {
    let members = members(config);
    if !members.get("process").is_some_and(Value::is_object) {
        members.insert("process".to_owned(), entries::process());
    }
    object(members, "process")
}

fn object<'a>(members: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    self::members(members.entry(key).or_insert(Value::Null))
}

// req: CDI-25
fn members(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(members) => members,
        _ => unreachable!("the value was set to an object above"),
    }
}

fn array<'a>(members: &'a mut Map<String, Value>, key: &str) -> &'a mut Vec<Value> {
    let value = members.entry(key).or_insert(Value::Null);
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    match value {
        Value::Array(items) => items,
        _ => unreachable!("the value was set to an array above"),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}
