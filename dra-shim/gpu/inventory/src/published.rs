//! The devices that a DRA driver publishes for GPUs, with the names, attributes and capacities of NVIDIA's driver
//! `gpu.nvidia.com`.
//!
//! Pure functions of an [`Inventory`]: equal inventories have equal devices in the same order.

mod mig;

use std::collections::BTreeMap;
use std::fmt;

use nvml_session::Fact;

use crate::facts::{DriverFacts, GpuFacts, Inventory};
use crate::nvml_names;

/// A device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The name: `gpu-0`, or `gpu-0-mig-1g10gb-19-3` of a MIG device.
    pub name: String,
    /// The attributes. Names without a domain are in the driver's domain.
    pub attributes: BTreeMap<&'static str, Attribute>,
    /// The capacities: bytes, or numbers of engines.
    pub capacity: BTreeMap<String, u64>,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attribute {
    /// A text.
    Text(String),
    /// A number.
    Int(i64),
    /// A semantic version.
    Version(String),
}

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

/// A GPU's memory that differs by less than this from the host's is the host's.
const MIB: u64 = 1 << 20;

/// Derives the devices of a host.
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
    let (minor, uuid) = match (identity(gpu), gpu.index.known()) {
        (Ok(identity), Some(_)) => identity,
        (Err(reason), _) => return published.skip(gpu, reason),
        (_, None) => return published.skip(gpu, "NVML does not enumerate it".to_owned()),
    };
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
            let memory = own_memory(inventory, gpu).unwrap_or(0);
            for device in &mig.devices {
                match mig::mig_device(&inventory.driver, gpu, (minor, uuid), mig, memory, device) {
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
fn identity(gpu: &GpuFacts) -> Result<(u32, &str), String> {
    fn known<'a, T>(what: &str, fact: &'a Fact<T>) -> Result<&'a T, String> {
        match fact {
            Fact::Known(value) => Ok(value),
            Fact::Absent => Err(format!("it has no {what}")),
            Fact::Failed(failure) => Err(format!("it has no {what}: {failure}")),
        }
    }
    known("PCI address", &gpu.pci)?;
    Ok((
        *known("minor number", &gpu.minor)?,
        known("UUID", &gpu.uuid)?,
    ))
}

/// The attributes that a GPU and its MIG devices have.
fn common(driver: &DriverFacts, gpu: &GpuFacts) -> BTreeMap<&'static str, Attribute> {
    let mut attributes = BTreeMap::new();
    let mut put = |name, value: Option<Attribute>| {
        attributes.extend(value.map(|value| (name, value)));
    };
    put(
        "productName",
        gpu.name.known().map(String::as_str).map(text),
    );
    put(
        "brand",
        gpu.brand.known().map(|it| text(nvml_names::brand(*it))),
    );
    put(
        "architecture",
        gpu.architecture
            .known()
            .map(|it| text(nvml_names::architecture(*it))),
    );
    put(
        "cudaComputeCapability",
        gpu.compute_capability
            .known()
            .map(|(major, minor)| version(&format!("{major}.{minor}"))),
    );
    put("driverVersion", driver_version(driver).map(version));
    put(
        "cudaDriverVersion",
        driver
            .cuda
            .known()
            .map(|it| version(&format!("{}.{}", it / 1000, it % 1000 / 10))),
    );
    put(
        "addressingMode",
        gpu.addressing_mode
            .known()
            .and_then(|it| nvml_names::addressing_mode(*it))
            .map(text),
    );
    put(
        "resource.kubernetes.io/pciBusID",
        gpu.pci.known().map(|it| text(it.to_string())),
    );
    put(
        "resource.kubernetes.io/pcieRoot",
        gpu.pcie_root.known().map(String::as_str).map(text),
    );
    put(
        "resource.kubernetes.io/numaNode",
        gpu.numa_node.known().map(|it| Attribute::Int((*it).into())),
    );
    attributes
}

fn driver_version(driver: &DriverFacts) -> Option<&str> {
    let version = driver.nvml.known().or_else(|| driver.module.known());
    version.map(String::as_str)
}

fn with<const N: usize>(
    mut attributes: BTreeMap<&'static str, Attribute>,
    more: [(&'static str, Attribute); N],
) -> BTreeMap<&'static str, Attribute> {
    attributes.extend(more);
    attributes
}

fn text(text: impl Into<String>) -> Attribute {
    Attribute::Text(text.into())
}

/// A version with exactly three numbers without leading zeros: `580.105.8` of `580.105.08`.
fn version(text: &str) -> Attribute {
    let numbers = text.split('.').chain(["0", "0"]).take(3);
    let numbers: Vec<&str> = numbers
        .map(|number| match number.trim_start_matches('0') {
            "" => "0",
            number => number,
        })
        .collect();
    Attribute::Version(numbers.join("."))
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
