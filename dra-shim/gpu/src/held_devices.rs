//! Compares the devices that claims hold with those of the node.

use std::collections::BTreeSet;

use dra_checkpoint::View;
use gpu_node::{GpuGroup, HeldDevice, held_devices};

use crate::node_gpus::NodeGpus;

/// Held devices that are not as they were when their claims were prepared.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ChangedDevices {
    /// Names of devices whose hardware a claim holds under another name, with that other name.
    pub(crate) renamed: BTreeSet<String>,
    /// Devices that the driver does not list any more, such as those of a MIG layout that was changed.
    pub(crate) gone: Vec<HeldDevice>,
}

// === impl ChangedDevices ===

impl ChangedDevices {
    /// Read the records before the GPUs: then the GPUs have every device that was there when a claim was prepared.
    // req: GPU-41, GPU-65
    pub(crate) fn new(records: &View<GpuGroup>, gpus: &NodeGpus) -> Self {
        let mut changed = Self::default();
        // Without a driver nothing is listed, which says nothing about a single device.
        if !gpus.is_read || gpus.no_driver.is_some() {
            return changed;
        }
        for held in held_devices(records) {
            let mut devices = gpus.devices.iter();
            match devices.find(|it| it.uuid() == Some(&held.uuid)) {
                Some(now) if now.device.name != held.name => {
                    changed.renamed.insert(now.device.name.clone());
                    changed.renamed.insert(held.name);
                }
                Some(_) => {}
                // Records of an earlier boot are about to go.
                None if records.check_recovered().is_err() => {}
                None if gpus.may_have(&held.uuid, &held.gpu) => {}
                None => changed.gone.push(held),
            }
        }
        changed
    }
}
