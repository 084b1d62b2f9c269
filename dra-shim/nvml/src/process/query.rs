//! What a process with a session can be asked.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fact::Fact;
use crate::nvml_failure::NvmlFailure;
use crate::sys::{Device, Session};

/// A call of NVML. The answer's type is the one of the method of [`Session`] or [`Device`] with that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Query {
    /// [`Session::driver_version`].
    DriverVersion,
    /// [`Session::cuda_version`].
    CudaVersion,
    /// [`Session::device_count`].
    DeviceCount,
    /// A property of the GPU with this index.
    Gpu(u32, Property),
}

/// A property of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Property {
    /// [`Device::pci_address`].
    PciAddress,
    /// [`Device::uuid`].
    Uuid,
    /// [`Device::minor`].
    Minor,
    /// [`Device::name`].
    Name,
    /// [`Device::brand`].
    Brand,
    /// [`Device::architecture`].
    Architecture,
    /// [`Device::compute_capability`].
    ComputeCapability,
    /// [`Device::memory`].
    Memory,
    /// [`Device::addressing_mode`].
    AddressingMode,
    /// [`Device::module_id`].
    ModuleId,
    /// [`Device::virtualization_mode`].
    VirtualizationMode,
    /// [`Device::persistence_mode`].
    PersistenceMode,
    /// [`Device::compute_mode`].
    ComputeMode,
    /// [`Device::recovery_action`].
    RecoveryAction,
    /// [`Device::mig_mode`].
    MigMode,
    /// [`Device::max_mig_devices`].
    MaxMigDevices,
    /// [`Device::mig_device`] with this index.
    MigDevice(u32),
    /// [`Device::gpu_instance_profile`] with this index.
    GpuInstanceProfile(u32),
}

// === impl Query ===

impl Query {
    /// The function of `nvml.h`, the main one if there are several.
    pub fn call(self) -> &'static str {
        match self {
            Self::DriverVersion => "nvmlSystemGetDriverVersion",
            Self::CudaVersion => "nvmlSystemGetCudaDriverVersion_v2",
            Self::DeviceCount => "nvmlDeviceGetCount_v2",
            Self::Gpu(_, property) => property.call(),
        }
    }

    /// Makes the call.
    pub(super) fn run(self, session: &Session) -> Fact<Value> {
        match self {
            Self::DriverVersion => fact(session.driver_version()),
            Self::CudaVersion => fact(session.cuda_version()),
            Self::DeviceCount => fact(session.device_count()),
            Self::Gpu(index, property) => match session.device(index) {
                Ok(device) => property.read(&device),
                Err(failure) => Fact::Failed(failure.into()),
            },
        }
    }
}

// === impl Property ===

impl Property {
    /// The function of `nvml.h`, the main one if there are several.
    pub fn call(self) -> &'static str {
        match self {
            Self::PciAddress => "nvmlDeviceGetPciInfo_v3",
            Self::Uuid => "nvmlDeviceGetUUID",
            Self::Minor => "nvmlDeviceGetMinorNumber",
            Self::Name => "nvmlDeviceGetName",
            Self::Brand => "nvmlDeviceGetBrand",
            Self::Architecture => "nvmlDeviceGetArchitecture",
            Self::ComputeCapability => "nvmlDeviceGetCudaComputeCapability",
            Self::Memory => "nvmlDeviceGetMemoryInfo",
            Self::AddressingMode => "nvmlDeviceGetAddressingMode",
            Self::ModuleId => "nvmlDeviceGetModuleId",
            Self::VirtualizationMode => "nvmlDeviceGetVirtualizationMode",
            Self::PersistenceMode => "nvmlDeviceGetPersistenceMode",
            Self::ComputeMode => "nvmlDeviceGetComputeMode",
            Self::RecoveryAction => "nvmlDeviceGetFieldValues",
            Self::MigMode => "nvmlDeviceGetMigMode",
            Self::MaxMigDevices => "nvmlDeviceGetMaxMigDeviceCount",
            Self::MigDevice(_) => "nvmlDeviceGetMigDeviceHandleByIndex",
            Self::GpuInstanceProfile(_) => "nvmlDeviceGetGpuInstanceProfileInfo",
        }
    }

    fn read(self, device: &Device<'_>) -> Fact<Value> {
        match self {
            Self::PciAddress => fact(device.pci_address()),
            Self::Uuid => fact(device.uuid()),
            Self::Minor => fact(device.minor()),
            Self::Name => fact(device.name()),
            Self::Brand => fact(device.brand()),
            Self::Architecture => fact(device.architecture()),
            Self::ComputeCapability => fact(device.compute_capability()),
            Self::Memory => fact(device.memory()),
            Self::AddressingMode => fact(device.addressing_mode()),
            Self::ModuleId => fact(device.module_id()),
            Self::VirtualizationMode => fact(device.virtualization_mode()),
            Self::PersistenceMode => fact(device.persistence_mode()),
            Self::ComputeMode => fact(device.compute_mode()),
            Self::RecoveryAction => fact(device.recovery_action()),
            Self::MigMode => fact(device.mig_mode()),
            Self::MaxMigDevices => fact(device.max_mig_devices()),
            Self::MigDevice(index) => match device.mig_device(index) {
                Ok(None) => Fact::Absent,
                Ok(Some(mig)) => fact(Ok(mig)),
                Err(failure) => Fact::Failed(failure.into()),
            },
            Self::GpuInstanceProfile(index) => match device.gpu_instance_profile(index) {
                Err(NvmlFailure::Returned { code, .. })
                    if code == crate::NvmlCode::INVALID_ARGUMENT =>
                {
                    Fact::Absent
                }
                profile => fact(profile),
            },
        }
    }
}

fn fact<T: Serialize>(result: Result<T, NvmlFailure>) -> Fact<Value> {
    Fact::from(result).map(|value| serde_json::to_value(value).unwrap_or_default())
}
