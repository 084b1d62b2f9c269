//! Applying steps, grouped for the methods of [`OciConfig`] that take all items of
//! a kind at once.

use std::mem;

use super::{Change, Step};
use crate::{Mount, OciConfig, PlannedDevice};

/// The items of each grouped kind. A group is applied at the place of its first
/// step. Kinds have separate sections of the config, so that only the order in
/// which missing sections are created depends on it.
#[derive(Default)]
struct Groups<'a> {
    env: Vec<&'a str>,
    devices: Vec<&'a PlannedDevice>,
    mounts: Vec<&'a Mount>,
    gids: Vec<u32>,
}

pub(super) fn apply(steps: &[Step], config: &mut impl OciConfig) {
    let mut groups = Groups::new(steps);
    for step in steps {
        groups.apply(&step.change, config);
    }
}

impl<'a> Groups<'a> {
    fn new(steps: &'a [Step]) -> Self {
        let mut groups = Self::default();
        for step in steps {
            match &step.change {
                Change::SetEnv(assignment) => groups.env.push(assignment),
                Change::SetDevice(device) => groups.devices.push(device),
                Change::SetMount(mount) => groups.mounts.push(mount),
                Change::AddGid(gid) => groups.gids.push(*gid),
                Change::AllowDevice(_)
                | Change::SetNetDevice(_)
                | Change::AddHook(_)
                | Change::SetIntelRdt(_) => {}
            }
        }
        groups
    }

    fn apply(&mut self, change: &Change, config: &mut impl OciConfig) {
        match change {
            Change::SetEnv(_) => once(&mut self.env, |all| config.set_env(all)),
            Change::SetDevice(_) => once(&mut self.devices, |all| config.set_devices(all)),
            Change::AllowDevice(rule) => config.allow_device(rule),
            Change::SetNetDevice(device) => {
                config.set_net_device(&device.host_interface_name, &device.name);
            }
            Change::SetMount(_) => once(&mut self.mounts, |all| config.set_mounts(all)),
            Change::AddHook(hook) => config.add_hook(hook),
            Change::SetIntelRdt(rdt) => config.set_intel_rdt(rdt),
            Change::AddGid(_) => once(&mut self.gids, |all| config.add_gids(all)),
        }
    }
}

fn once<T>(all: &mut Vec<T>, change: impl FnOnce(&[T])) {
    let all = mem::take(all);
    if !all.is_empty() {
        change(&all);
    }
}
