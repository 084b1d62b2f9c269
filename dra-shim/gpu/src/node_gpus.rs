//! What the plugin knows about the node's GPUs, across readings.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpu_inventory::published::{Attribute, Device, published};
use gpu_inventory::{Fact, GpuFacts, Inventory};
use gpu_node::HostGpus;

/// The GPUs of the node, according to the last reading and those before it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct NodeGpus {
    /// Whether there was a reading.
    pub(crate) is_read: bool,
    /// The devices for claims. `None`: not known now.
    pub(crate) host: Option<Arc<HostGpus>>,
    /// The devices to publish.
    pub(crate) devices: Vec<KnownDevice>,
    /// Why the driver cannot be used now, in one line.
    pub(crate) no_driver: Option<String>,
    /// Why GPUs and MIG devices are not published, one line each.
    pub(crate) skipped: Vec<String>,
    /// UUIDs of GPUs whose MIG devices cannot all be read.
    pub(crate) unread_mig: BTreeSet<String>,
    /// Whether there is a GPU whose UUID cannot be read.
    pub(crate) has_unnamed: bool,
    /// What is wrong with the driver's files, and why containers cannot have devices, one line each.
    pub(crate) problems: Vec<String>,
}

/// A device that can be published.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KnownDevice {
    pub(crate) device: Device,
    pub(crate) state: DeviceState,
    /// The ids of GPU instance and compute instance of a MIG device.
    pub(crate) instance: Option<(u32, u32)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DeviceState {
    /// The last reading has it.
    Present,
    /// An earlier reading had it, and the driver does not answer for it any more.
    Lost,
    /// An earlier reading had it, and the driver is not loaded now.
    NoDriver,
}

// === impl NodeGpus ===

impl NodeGpus {
    /// What is known after a reading.
    // req: GPU-39
    pub(crate) fn next(
        &self,
        inventory: &Inventory,
        host: HostGpus,
        problems: Vec<String>,
    ) -> Self {
        if let Some(reason) = no_driver(inventory) {
            return Self {
                is_read: true,
                host: None,
                devices: self.all_in(DeviceState::NoDriver),
                no_driver: Some(reason),
                ..Self::default()
            };
        }
        let now = published(inventory);
        let mut devices: Vec<_> = now
            .devices
            .into_iter()
            .map(|device| KnownDevice {
                instance: instance(inventory, &device),
                device,
                state: DeviceState::Present,
            })
            .collect();
        for before in &self.devices {
            let is_lost = before.is_gpu()
                && !passed_through(inventory, before.address())
                && !in_mig_mode(inventory, before.uuid())
                && devices.iter().all(|it| it.uuid() != before.uuid());
            let is_name_free = devices
                .iter()
                .all(|it| it.device.name != before.device.name);
            if is_lost && is_name_free {
                devices.push(KnownDevice {
                    device: before.device.clone(),
                    state: DeviceState::Lost,
                    instance: None,
                });
            }
        }
        devices.sort_by(|one, other| one.address().cmp(&other.address()));
        Self {
            is_read: true,
            host: Some(Arc::new(host)),
            devices,
            no_driver: None,
            skipped: now
                .skipped
                .into_iter()
                .map(|it| format!("{}: {}", it.gpu, it.reason))
                .collect(),
            unread_mig: unread_mig(inventory),
            has_unnamed: inventory.gpus.iter().any(is_unnamed),
            problems,
        }
    }

    /// Whether the driver lists this device, or may have it: what cannot be read is not gone.
    pub(crate) fn may_have(&self, uuid: &str, gpu: &str) -> bool {
        self.has_unnamed
            || self.unread_mig.contains(gpu)
            || self.devices.iter().any(|it| it.uuid() == Some(uuid))
    }

    fn all_in(&self, state: DeviceState) -> Vec<KnownDevice> {
        let devices = self.devices.iter();
        devices
            .map(|it| KnownDevice {
                state,
                ..it.clone()
            })
            .collect()
    }

    /// The state in one line. It changes only with the state.
    pub(crate) fn describe(&self) -> String {
        let in_state = |state| {
            let names = self.devices.iter().filter(move |it| it.state == state);
            names
                .map(|it| it.device.name.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let mut parts = Vec::new();
        match &self.no_driver {
            Some(reason) => parts.push(reason.clone()),
            None => parts.push(format!("devices: {}", in_state(DeviceState::Present))),
        }
        let lost = in_state(DeviceState::Lost);
        if !lost.is_empty() {
            parts.push(format!("lost: {lost}"));
        }
        parts.extend(self.skipped.iter().map(|it| format!("not published: {it}")));
        parts.extend(self.problems.iter().cloned());
        parts.join("; ")
    }

    /// Whether an administrator has something to do.
    pub(crate) fn has_problem(&self) -> bool {
        let is_lost = |it: &KnownDevice| it.state == DeviceState::Lost;
        let lines = self.skipped.iter().chain(&self.problems);
        self.no_driver.is_some() || lines.count() > 0 || self.devices.iter().any(is_lost)
    }
}

/// The ids of GPU instance and compute instance of a MIG device.
fn instance(inventory: &Inventory, device: &Device) -> Option<(u32, u32)> {
    let Some(Attribute::Text(uuid)) = device.attributes.get("uuid") else {
        return None;
    };
    let mig = inventory.gpus.iter().filter_map(|gpu| gpu.mig.known());
    let mut devices = mig.flat_map(|it| &it.devices).filter_map(Fact::known);
    let found = devices.find(|it| it.uuid == *uuid)?;
    Some((found.gpu_instance.id, found.compute_instance))
}

/// Why NVML cannot be used at all.
fn no_driver(inventory: &Inventory) -> Option<String> {
    let failure = inventory.driver.gpu_count.failure()?;
    Some(match inventory.driver.module {
        Fact::Absent => format!("the NVIDIA kernel module is not loaded ({failure})"),
        _ => format!("NVML cannot be used: {failure}"),
    })
}

fn passed_through(inventory: &Inventory, address: Option<&str>) -> bool {
    let mut gpus = inventory.gpus.iter();
    gpus.any(|gpu| {
        let is_it = gpu
            .pci
            .known()
            .is_some_and(|it| Some(it.to_string().as_str()) == address);
        is_it && gpu.is_passed_through()
    })
}

fn unread_mig(inventory: &Inventory) -> BTreeSet<String> {
    let is_unread = |gpu: &&GpuFacts| match &gpu.mig {
        Fact::Known(mig) => mig.devices.iter().any(|it| it.failure().is_some()),
        Fact::Failed(_) => true,
        Fact::Absent => false,
    };
    let gpus = inventory.gpus.iter().filter(is_unread);
    gpus.filter_map(|gpu| gpu.uuid.known().cloned()).collect()
}

fn is_unnamed(gpu: &GpuFacts) -> bool {
    gpu.uuid.known().is_none() && !gpu.is_passed_through()
}

fn in_mig_mode(inventory: &Inventory, uuid: Option<&str>) -> bool {
    let mut gpus = inventory.gpus.iter();
    gpus.any(|gpu| {
        let is_it = gpu.uuid.known().map(String::as_str) == uuid;
        is_it && gpu.mig.known().is_some_and(|mig| mig.enabled)
    })
}

// === impl KnownDevice ===

impl KnownDevice {
    pub(crate) fn uuid(&self) -> Option<&str> {
        self.text("uuid")
    }

    /// The UUID of the GPU: a MIG device's is that of its parent.
    pub(crate) fn gpu_uuid(&self) -> &str {
        let uuid = self.text("parentUUID").or_else(|| self.uuid());
        uuid.unwrap_or_default()
    }

    pub(crate) fn device_type(&self) -> &str {
        self.text("type").unwrap_or("unknown")
    }

    fn is_gpu(&self) -> bool {
        self.device_type() == "gpu"
    }

    fn address(&self) -> Option<&str> {
        self.text("resource.kubernetes.io/pciBusID")
    }

    fn text(&self, name: &str) -> Option<&str> {
        match self.device.attributes.get(name) {
            Some(Attribute::Text(text)) => Some(text),
            _ => None,
        }
    }
}

#[cfg(test)]
#[path = "node_gpus_tests.rs"]
mod tests;
