//! The devices that a DRA driver publishes for GPUs, with the names, attributes and capacities of NVIDIA's driver
//! `gpu.nvidia.com`.
//!
//! Pure functions of an [`Inventory`]: equal inventories have equal devices in the same order.

mod device;
mod mig;

use std::fmt;

use nvml_session::Fact;

pub use device::{Attribute, Device};

use self::device::{MIB, common, text, with};
use crate::facts::{GpuFacts, Inventory};

/// The devices of a host, and what is not published.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Published {
    /// The devices, by GPU.
    pub devices: Vec<Device>,
    /// What is not published.
    pub skipped: Vec<Skipped>,
}

/// A GPU or MIG device that is not published. Displays as one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The GPU: its PCI address, index or UUID.
    pub gpu: String,
    /// Why it is not published.
    pub reason: String,
}

/// Names of display adapters in DGX stations, which are not for compute.
const DISPLAY_ADAPTERS: [&str; 2] = ["DGX Display", "NVIDIA DGX Display"];

/// Derives the devices of a host.
// req: GPU-5
pub fn published(inventory: &Inventory) -> Published {
    let mut published = Published::default();
    for gpu in &inventory.gpus {
        add_gpu(inventory, gpu, &mut published);
    }
    published
}

/// The memory of the GPU itself in bytes. `None` if it uses the host's memory (GB10), and so reports none or the
/// host's.
pub fn own_memory(inventory: &Inventory, gpu: &GpuFacts) -> Option<u64> {
    let host = inventory.host.memory.known();
    let is_hosts = |memory: u64| host.is_some_and(|host| host.abs_diff(memory) < MIB);
    let memory = gpu.memory.known().copied();
    memory.filter(|memory| *memory > 0 && !is_hosts(*memory))
}

fn add_gpu(inventory: &Inventory, gpu: &GpuFacts, published: &mut Published) {
    if is_display_adapter(gpu) {
        return;
    }
    let (minor, uuid) = match (identity(inventory, gpu), gpu.index.known()) {
        (Ok(identity), Some(_)) => identity,
        (Err(reason), _) => return published.skip(gpu, reason),
        (_, None) => return published.skip(gpu, "NVML does not enumerate it".to_owned()),
    };
    // A GPU in MIG mode is no whole GPU.
    if let Fact::Failed(failure) = &gpu.mig {
        let reason = format!("whether it is in MIG mode is unknown: {failure}");
        return published.skip(gpu, reason);
    }
    match gpu.mig.known().filter(|mig| mig.enabled) {
        None => published.devices.push(Device {
            name: format!("gpu-{minor}"),
            attributes: with(
                common(&inventory.driver, gpu),
                [("type", text("gpu")), ("uuid", text(uuid))],
            ),
            capacity: own_memory(inventory, gpu)
                .map(|memory| ("memory".to_owned(), memory))
                .into_iter()
                .collect(),
        }),
        Some(mig) => {
            if mig.devices.is_empty() {
                published.skip(gpu, "it is in MIG mode and has no MIG devices".to_owned());
            }
            let memory = own_memory(inventory, gpu).unwrap_or(0);
            for device in &mig.devices {
                let device = match device {
                    Fact::Known(device) => {
                        mig::mig_device(&inventory.driver, gpu, (minor, uuid), mig, memory, device)
                    }
                    Fact::Failed(failure) => Err(format!("a MIG device cannot be read: {failure}")),
                    Fact::Absent => continue,
                };
                match device {
                    Ok(device) => published.devices.push(device),
                    Err(reason) => published.skip(gpu, reason),
                }
            }
        }
    }
}

fn is_display_adapter(gpu: &GpuFacts) -> bool {
    let name = gpu.name.known();
    name.is_some_and(|name| DISPLAY_ADAPTERS.contains(&name.as_str()))
}

/// The minor and UUID, without which a GPU can be neither given nor named.
///
/// # Errors
///
/// What is missing, or that another GPU has the same.
pub fn identity<'a>(inventory: &Inventory, gpu: &'a GpuFacts) -> Result<(u32, &'a str), String> {
    fn known<'a, T>(what: &str, fact: &'a Fact<T>) -> Result<&'a T, String> {
        match fact {
            Fact::Known(value) => Ok(value),
            Fact::Absent => Err(format!("it has no {what}")),
            Fact::Failed(failure) => Err(format!("it has no {what}: {failure}")),
        }
    }
    known("PCI address", &gpu.pci)?;
    let minor = *known("minor number", &gpu.minor)?;
    let uuid = known("UUID", &gpu.uuid)?;
    let same = inventory
        .gpus
        .iter()
        .filter(|other| other.minor == gpu.minor || other.uuid == gpu.uuid || other.pci == gpu.pci);
    if same.count() > 1 {
        return Err("another GPU has its PCI address, minor number or UUID".to_owned());
    }
    if !uuid.starts_with("GPU-") {
        return Err(format!("its UUID {uuid:?} does not begin with GPU-"));
    }
    Ok((minor, uuid))
}

// === impl Published ===

impl Published {
    fn skip(&mut self, gpu: &GpuFacts, reason: String) {
        self.skipped.push(Skipped {
            gpu: label(gpu),
            reason,
        });
    }
}

/// The name of a GPU in messages: its address, or else its index or UUID.
pub fn label(gpu: &GpuFacts) -> String {
    if let Some(address) = gpu.pci.known() {
        return address.to_string();
    }
    match (gpu.index.known(), gpu.uuid.known()) {
        (Some(index), _) => format!("index {index}"),
        (None, Some(uuid)) => uuid.clone(),
        (None, None) => "without a name".to_owned(),
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GPU {}: {}", self.gpu, self.reason)
    }
}

#[cfg(test)]
#[path = "published_tests.rs"]
mod tests;
