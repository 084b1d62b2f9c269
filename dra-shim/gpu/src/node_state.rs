//! What is known of the node at one moment, as slice, device health and text. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use dra_kubelet::{DesiredPool, DeviceHealth, Health};
use gpu_api::ConsumableShares;
use gpu_api::names::{GPU_LOST_TAINT, NO_DRIVER_TAINT, RENAMED_TAINT};
use gpu_node::HeldDevice;
use k8s_openapi::api::resource::v1::DeviceTaint;
use plugin_parts::UnsupportedFields;

use crate::device_plugin::BesideDevicePlugin;
use crate::health::{Effect, Fault, HealthReport};
use crate::held_devices::ChangedDevices;
use crate::node_gpus::{DeviceState, KnownDevice, NodeGpus};
use crate::slice_device::{slice_device, taint};

/// What is known of the node at one moment.
#[derive(Debug, Default)]
pub(crate) struct NodeState {
    pub(crate) gpus: NodeGpus,
    /// `None` until they are known.
    pub(crate) faults: Option<Arc<HealthReport>>,
    pub(crate) changed: ChangedDevices,
    /// Fields that the API server has dropped.
    pub(crate) unsupported: UnsupportedFields,
    /// The sockets of NVIDIA's device plugin.
    pub(crate) device_plugin: BTreeSet<String>,
    pub(crate) settings: PublishSettings,
}

/// Settings of what is published.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PublishSettings {
    pub(crate) shares: ConsumableShares,
    pub(crate) beside_device_plugin: BesideDevicePlugin,
}

// === impl NodeState ===

impl NodeState {
    /// Whether the slice can be written. Without its taints, the scheduler would give a device to claims.
    pub(crate) fn is_known(&self) -> bool {
        self.gpus.is_read && self.faults.is_some()
    }

    /// The desired content of the node's slices.
    // req: GPU-39, GPU-40, GPU-41
    pub(crate) fn desired_pool(&self) -> DesiredPool {
        if !self.is_known() {
            return DesiredPool::Undecided;
        }
        if self.gpus.no_driver.is_some() && self.gpus.devices.is_empty() || self.is_withdrawn() {
            return DesiredPool::Withdrawn;
        }
        let devices = self.gpus.devices.iter().filter_map(|known| {
            let taints = self.taints(known);
            let informs = |it: &DeviceTaint| it.effect == Effect::None.as_str();
            // Without its taint, the scheduler would give the device to claims.
            (!self.unsupported.taints || taints.iter().all(informs))
                .then(|| slice_device(&known.device, taints, self.settings.shares))
        });
        DesiredPool::Devices(devices.collect())
    }

    /// The health of the devices for kubelet.
    // req: GPU-45, GPU-65
    pub(crate) fn health(&self, pool: &str) -> Vec<DeviceHealth> {
        let gone = &self.changed.gone;
        // A device of a new MIG layout may have the name of one that is gone. kubelet knows devices by name.
        let devices = self.gpus.devices.iter();
        let devices = devices.filter(|known| gone.iter().all(|it| it.name != known.device.name));
        let devices = devices.map(|known| (&known.device.name, self.why_unhealthy(known)));
        let gone = gone.iter().map(|it| (&it.name, Some(gone_message(it))));
        devices
            .chain(gone)
            .map(|(device, why_unhealthy)| DeviceHealth {
                pool: pool.to_owned(),
                device: device.clone(),
                health: match why_unhealthy {
                    None => Health::Healthy,
                    Some(_) => Health::Unhealthy,
                },
                message: why_unhealthy.unwrap_or_default(),
            })
            .collect()
    }

    /// The state in one line.
    // req: GPU-55
    pub(crate) fn describe(&self) -> String {
        let mut text = self.gpus.describe();
        let mut add = |title: &str, of: Vec<String>| {
            if !of.is_empty() {
                text.push_str("; ");
                text.push_str(title);
                text.push_str(&of.join(", "));
            }
        };
        add("unhealthy: ", self.unhealthy());
        let renamed = self.changed.renamed.iter().cloned().collect();
        add("a claim holds a GPU that has another name now: ", renamed);
        let gone = self.changed.gone.iter();
        let gone = gone.map(|it| format!("{} ({}/{})", it.name, it.claim.namespace, it.claim.name));
        add("a claim holds a device that is gone: ", gone.collect());
        if self.lacks_shares() {
            text.push_str("; only one claim at a time can have a device, because the API server drops allowMultipleAllocations (feature gate DRAConsumableCapacity)");
        }
        if !self.device_plugin.is_empty() {
            text.push_str("; NVIDIA's device plugin runs on this node (");
            let sockets: Vec<_> = self.device_plugin.iter().map(String::as_str).collect();
            text.push_str(&sockets.join(", "));
            text.push_str(match self.settings.beside_device_plugin {
                BesideDevicePlugin::Report => {
                    "), so a GPU may be given to two pods; remove it from this node"
                }
                BesideDevicePlugin::Withdraw => "), so no GPU is published",
            });
        }
        text
    }

    /// Whether an administrator has something to do.
    pub(crate) fn has_problem(&self) -> bool {
        self.gpus.has_problem()
            || !self.unhealthy().is_empty()
            || self.changed != ChangedDevices::default()
            || self.lacks_shares()
            || !self.device_plugin.is_empty() && !self.is_withdrawn()
    }

    fn is_withdrawn(&self) -> bool {
        !self.device_plugin.is_empty()
            && self.settings.beside_device_plugin == BesideDevicePlugin::Withdraw
    }

    /// Devices are to be shared, and the API server does not store that.
    fn lacks_shares(&self) -> bool {
        self.unsupported.sharing && self.settings.shares != ConsumableShares::Disabled
    }

    /// The devices with faults that keep claims away, each with its reason.
    fn unhealthy(&self) -> Vec<String> {
        let devices = self.gpus.devices.iter().filter_map(|known| {
            let worst = self.worst(known)?;
            Some(format!("{} ({})", known.device.name, worst.message))
        });
        devices.collect()
    }

    fn why_unhealthy(&self, known: &KnownDevice) -> Option<String> {
        match known.state {
            DeviceState::Present => Some(self.worst(known)?.message.clone()),
            DeviceState::Lost => {
                Some("the driver does not answer for this GPU any more".to_owned())
            }
            DeviceState::NoDriver => Some(self.gpus.no_driver.clone().unwrap_or_default()),
        }
    }

    /// The fault that keeps claims away from the device.
    fn worst(&self, known: &KnownDevice) -> Option<&Fault> {
        let mut faults = self.faults_of(known).into_iter();
        faults.find(|it| it.effect == Effect::NoSchedule)
    }

    fn faults_of(&self, known: &KnownDevice) -> Vec<&Fault> {
        let faults = self.faults.as_ref();
        let faults = faults.map(|it| it.faults(known.gpu_uuid(), known.instance));
        faults.unwrap_or_default()
    }

    fn taints(&self, known: &KnownDevice) -> Vec<DeviceTaint> {
        let of_state = match known.state {
            DeviceState::Present => None,
            DeviceState::Lost => Some(GPU_LOST_TAINT),
            DeviceState::NoDriver => Some(NO_DRIVER_TAINT),
        };
        let is_renamed = self.changed.renamed.contains(&known.device.name);
        let of_name = is_renamed.then_some(RENAMED_TAINT);
        let keys = of_state.into_iter().chain(of_name);
        let keys = keys.map(|key| taint(key, None, Effect::NoSchedule));
        let faults = self.faults_of(known).into_iter();
        keys.chain(faults.map(|it| taint(it.key, it.value.clone(), it.effect)))
            .collect()
    }
}

/// What is wrong with a device that is gone.
pub(crate) fn gone_message(held: &HeldDevice) -> String {
    format!(
        "{} ({}) does not exist any more: it was removed, or the MIG mode of its GPU was changed",
        held.name, held.uuid
    )
}

#[cfg(test)]
#[path = "node_state_tests.rs"]
mod tests;
