//! What is known of a host's GPUs.

use std::collections::BTreeMap;

use nvml_session::{Fact, Failure, GpuInstanceProfile, MigDevice};
use serde::{Deserialize, Serialize};

use crate::pci_address::PciAddress;

/// The GPUs of a host, with what concerns all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    /// The host.
    #[serde(default)]
    pub host: HostFacts,
    /// The driver.
    #[serde(default)]
    pub driver: DriverFacts,
    /// The GPUs, in the order of their PCI addresses; GPUs without a known address are at the end.
    #[serde(default)]
    pub gpus: Vec<GpuFacts>,
}

/// Facts of the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostFacts {
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: Fact<String>,
    /// The kernel's release.
    pub kernel: Fact<String>,
    /// The memory of the host in bytes (`MemTotal`).
    pub memory: Fact<u64>,
    /// Whether the kernel has IOMMU groups.
    pub iommu: Fact<bool>,
    /// The majors of `/proc/devices` whose names begin with `nvidia`.
    pub majors: Fact<BTreeMap<String, u32>>,
}

/// Facts of the driver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DriverFacts {
    /// The version of the loaded kernel module; absent if none is loaded.
    pub module: Fact<String>,
    /// The version that NVML reports.
    pub nvml: Fact<String>,
    /// The newest CUDA version that the driver supports, as `major * 1000 + minor * 10`.
    pub cuda: Fact<u32>,
    /// The number of GPUs that NVML enumerates. Its failure is why NVML has no facts at all.
    pub gpu_count: Fact<u32>,
}

/// Facts of a GPU. Numbers are those of `nvml.h`, also those that this crate does not know.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuFacts {
    /// The PCI address; absent for GPUs that are not PCI devices.
    pub pci: Fact<PciAddress>,
    /// The index in NVML; absent if NVML does not enumerate the GPU.
    pub index: Fact<u32>,
    /// The minor number of `/dev/nvidiaN`.
    pub minor: Fact<u32>,
    /// The UUID, `GPU-…`.
    pub uuid: Fact<String>,
    /// The product name.
    pub name: Fact<String>,
    /// `nvmlBrandType_t`; [`brand`](crate::brand) is its name.
    pub brand: Fact<u32>,
    /// `nvmlDeviceArchitecture_t`; [`architecture`](crate::architecture) is its name.
    pub architecture: Fact<u32>,
    /// The CUDA compute capability: major and minor.
    pub compute_capability: Fact<(u32, u32)>,
    /// The total memory in bytes. A GPU that shares the host's memory has none, or reports the host's.
    pub memory: Fact<u64>,
    /// `nvmlDeviceAddressingModeType_t`; [`addressing_mode`](crate::addressing_mode) is its name.
    pub addressing_mode: Fact<u32>,
    /// The position of the GPU on its board; 0 is none.
    pub module_id: Fact<u32>,
    /// `nvmlGpuVirtualizationMode_t`: 0 none, 1 passthrough, 2 vGPU guest, 3 vGPU host.
    pub virtualization_mode: Fact<u32>,
    /// Whether persistence mode is on.
    pub persistence_mode: Fact<bool>,
    /// `nvmlComputeMode_t`: 0 default, 2 prohibited, 3 exclusive process.
    pub compute_mode: Fact<u32>,
    /// `nvmlDeviceGpuRecoveryAction_t`; [`recovery_action`](crate::recovery_action) is its name.
    pub recovery_action: Fact<u32>,
    /// MIG; absent if the GPU does not support it.
    pub mig: Fact<MigFacts>,
    /// The PCI device id, such as 0x2330.
    pub device_id: Fact<u32>,
    /// The NUMA node; absent if the kernel knows none.
    pub numa_node: Fact<u32>,
    /// The root complex of the bus, such as `pci0000:64`.
    pub pcie_root: Fact<String>,
    /// The kernel driver that is bound to the function, such as `nvidia` or `vfio-pci`; absent if none is.
    pub pci_driver: Fact<String>,
    /// The IOMMU group.
    pub iommu_group: Fact<u32>,
    /// The nodes of the kernel's graphics interface; absent if it has none.
    pub drm: Fact<Vec<DrmNode>>,
}

/// A device node below `/dev/dri`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DrmNode {
    /// The name: `card0` or `renderD128`.
    pub name: String,
    /// The major number.
    pub major: u32,
    /// The minor number.
    pub minor: u32,
}

// === impl GpuFacts ===

impl GpuFacts {
    /// Whether a driver for virtual machines is bound to the GPU.
    pub fn is_passed_through(&self) -> bool {
        let driver = self.pci_driver.known();
        driver.is_some_and(|driver| driver.contains("vfio"))
    }

    /// The failures of its facts, in the order of the fields.
    pub fn failures(&self) -> impl Iterator<Item = &Failure> {
        let Self {
            pci,
            index,
            minor,
            uuid,
            name,
            brand,
            architecture,
            compute_capability,
            memory,
            addressing_mode,
            module_id,
            virtualization_mode,
            persistence_mode,
            compute_mode,
            recovery_action,
            mig,
            device_id,
            numa_node,
            pcie_root,
            pci_driver,
            iommu_group,
            drm,
        } = self;
        [
            pci.failure(),
            index.failure(),
            minor.failure(),
            uuid.failure(),
            name.failure(),
            brand.failure(),
            architecture.failure(),
            compute_capability.failure(),
            memory.failure(),
            addressing_mode.failure(),
            module_id.failure(),
            virtualization_mode.failure(),
            persistence_mode.failure(),
            compute_mode.failure(),
            recovery_action.failure(),
            mig.failure(),
            mig.known().and_then(|mig| mig.profiles.failure()),
            device_id.failure(),
            numa_node.failure(),
            pcie_root.failure(),
            pci_driver.failure(),
            iommu_group.failure(),
            drm.failure(),
        ]
        .into_iter()
        .flatten()
        .chain(mig.known().into_iter().flat_map(MigFacts::device_failures))
    }
}

/// MIG on a GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigFacts {
    /// Whether MIG mode is on.
    pub enabled: bool,
    /// Whether MIG mode is on after the next reset.
    pub pending: bool,
    /// The profiles that the GPU offers, in the order of their indices.
    #[serde(default)]
    pub profiles: Fact<Vec<MigProfile>>,
    /// The MIG devices, by NVML's index. Absent: no device has this index. One that cannot be read is a failure.
    #[serde(default)]
    pub devices: Vec<Fact<MigDevice>>,
}

// === impl MigFacts ===

impl MigFacts {
    fn device_failures(&self) -> impl Iterator<Item = &Failure> {
        self.devices.iter().filter_map(Fact::failure)
    }
}

/// A profile of GPU instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigProfile {
    /// The index in `nvml.h` (`NVML_GPU_INSTANCE_PROFILE_…`).
    pub index: u32,
    /// The profile.
    #[serde(flatten)]
    pub info: GpuInstanceProfile,
}
