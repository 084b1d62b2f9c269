//! An OCI config as `oci_spec`'s type. The type drops unknown fields when a runtime reads its
//! config, before this crate sees it.

use oci_spec::runtime::{
    Hook as OciHook, Hooks, Linux, LinuxDevice, LinuxDeviceCgroup, LinuxIntelRdt, LinuxNetDevice,
    LinuxResources, Mount as OciMount, Process, Spec,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{ConfigError, ContainerFacts, DeviceRule, OciConfig, PlannedDevice, entries, lists};
use crate::{Hook, IntelRdt, Mount};

/// Feature `oci`.
impl OciConfig for Spec {
    /// Never an error: the type guarantees the structure.
    fn facts(&self) -> Result<ContainerFacts, ConfigError> {
        let user = self.process().as_ref().map(Process::user);
        Ok(
            user.map_or_else(ContainerFacts::default, |user| ContainerFacts {
                uid: user.uid(),
                gid: user.gid(),
            }),
        )
    }

    fn set_env(&mut self, assignments: &[&str]) {
        let env = process(self).env_mut().get_or_insert_default();
        let assignments = assignments.iter().copied().map(str::to_owned);
        lists::set_env(env, |other| Some(other.as_str()), assignments);
    }

    fn set_devices(&mut self, devices: &[&PlannedDevice]) {
        let list = linux(self).devices_mut().get_or_insert_default();
        let devices = devices.iter().map(|device| typed(entries::device(device)));
        lists::set_devices(list, path, devices);
    }

    fn allow_device(&mut self, rule: &DeviceRule) {
        let resources: &mut LinuxResources = linux(self)
            .resources_mut()
            .get_or_insert_with(|| typed(json!({})));
        let rule: LinuxDeviceCgroup = typed(entries::rule(rule));
        resources.devices_mut().get_or_insert_default().push(rule);
    }

    fn set_net_device(&mut self, host_name: &str, name: &str) {
        let device: LinuxNetDevice = typed(entries::net_device(name));
        let devices = linux(self).net_devices_mut().get_or_insert_default();
        devices.insert(host_name.to_owned(), device);
    }

    fn set_mounts(&mut self, mounts: &[&Mount]) {
        let list = self.mounts_mut().get_or_insert_default();
        let mounts = mounts.iter().map(|mount| typed(entries::mount(mount)));
        lists::set_mounts(list, target, mounts);
    }

    fn add_hook(&mut self, hook: &Hook) {
        let hooks: &mut Hooks = self.hooks_mut().get_or_insert_default();
        let list = match hook.hook_name.as_str() {
            "prestart" => hooks.prestart_mut(),
            "createRuntime" => hooks.create_runtime_mut(),
            "createContainer" => hooks.create_container_mut(),
            "startContainer" => hooks.start_container_mut(),
            "poststart" => hooks.poststart_mut(),
            "poststop" => hooks.poststop_mut(),
            // No `Spec` has one.
            _ => return,
        };
        let hook: OciHook = typed(entries::hook(hook));
        list.get_or_insert_default().push(hook);
    }

    fn set_intel_rdt(&mut self, rdt: &IntelRdt) {
        let rdt: LinuxIntelRdt = typed(entries::rdt(rdt));
        linux(self).set_intel_rdt(Some(rdt));
    }

    fn add_gids(&mut self, gids: &[u32]) {
        let user = process(self).user_mut();
        let list = user.additional_gids_mut().get_or_insert_default();
        lists::add_gids(list, |gid| Some(*gid), gids.iter().copied());
    }
}

fn path(device: &LinuxDevice) -> Option<&str> {
    device.path().to_str()
}

fn target(mount: &OciMount) -> Option<&str> {
    mount.destination().to_str()
}

/// `Process::default()` would have the container run `sh` with capabilities.
fn process(config: &mut Spec) -> &mut Process {
    config
        .process_mut()
        .get_or_insert_with(|| typed(entries::process()))
}

/// `Linux::default()` would give the container namespaces and masked paths.
fn linux(config: &mut Spec) -> &mut Linux {
    config.linux_mut().get_or_insert_with(|| typed(json!({})))
}

#[expect(
    clippy::expect_used,
    reason = "the JSON is built in this file and has the fields that the type requires; tests cover every call"
)]
fn typed<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).expect("the JSON has the fields that the type requires")
}
