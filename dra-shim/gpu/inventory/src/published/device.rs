//! A device, and the attributes that GPUs and MIG devices have.

use std::collections::BTreeMap;

use crate::facts::{DriverFacts, GpuFacts};
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

/// A GPU's memory that differs by less than this from the host's is the host's.
pub(super) const MIB: u64 = 1 << 20;

/// The attributes that a GPU and its MIG devices have.
pub(super) fn common(driver: &DriverFacts, gpu: &GpuFacts) -> BTreeMap<&'static str, Attribute> {
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

/// Adds attributes.
pub(super) fn with<const N: usize>(
    mut attributes: BTreeMap<&'static str, Attribute>,
    more: [(&'static str, Attribute); N],
) -> BTreeMap<&'static str, Attribute> {
    attributes.extend(more);
    attributes
}

pub(super) fn text(text: impl Into<String>) -> Attribute {
    Attribute::Text(text.into())
}

/// A version with exactly three numbers without leading zeros: `580.105.8` of `580.105.08`.
pub(super) fn version(text: &str) -> Attribute {
    let numbers = text.split('.').chain(["0", "0"]).take(3);
    let numbers: Vec<&str> = numbers
        .map(|number| match number.trim_start_matches('0') {
            "" => "0",
            number => number,
        })
        .collect();
    Attribute::Version(numbers.join("."))
}
