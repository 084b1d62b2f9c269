//! Changes of one kind together, for the primitives that take all at once.

use std::mem;

use super::{Change, Step};
use crate::{Mount, OciConfig, PlannedDevice};

/// The changes of the kinds whose primitive takes all of a plan; each kind is
/// changed as a whole where its first step stands. No kind's section is
/// another's, so nothing shows but the order in which sections are made.
#[derive(Default)]
struct Batches<'a> {
    env: Vec<&'a str>,
    devices: Vec<&'a PlannedDevice>,
    mounts: Vec<&'a Mount>,
    gids: Vec<u32>,
}

pub(super) fn apply(steps: &[Step], config: &mut impl OciConfig) {
    let mut batches = Batches::of(steps);
    for step in steps {
        batches.apply(&step.change, config);
    }
}

impl<'a> Batches<'a> {
    fn of(steps: &'a [Step]) -> Self {
        let mut batches = Self::default();
        for step in steps {
            match &step.change {
                Change::SetEnv(assignment) => batches.env.push(assignment),
                Change::SetDevice(device) => batches.devices.push(device),
                Change::SetMount(mount) => batches.mounts.push(mount),
                Change::AddGid(gid) => batches.gids.push(*gid),
                Change::AllowDevice(_)
                | Change::SetNetDevice(_)
                | Change::AddHook(_)
                | Change::SetIntelRdt(_) => {}
            }
        }
        batches
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
