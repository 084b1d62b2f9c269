//! Devices of a Completed record: the Go driver's `preparedDevices`, field for field, grouped by configuration.
//!
//! ```text
//! GpuGroup       = {"devices": [PreparedDevice…], "configState": ConfigState}
//! PreparedDevice = {"gpu": HeldGpu | null, "mig": HeldMig | null, "vfio"?: HeldVfio}   the first two keys always
//! HeldGpu        = {"info": {"uuid"}, "device": KubeletDevice | null}
//! HeldMig        = {"concrete": MigInfo, "device": KubeletDevice | null}
//! ConfigState    = {"mpsControlDaemonID"?, "mpsApplied"?, "timeSliceApplied"?}
//! ```
//!
//! This crate writes full GPUs and MIG devices without settings. It reads and preserves what the Go driver has
//! written for others; Unprepare removes their records.

use dra_checkpoint::{KubeletDevice, Payload};
use serde::{Deserialize, Serialize};

use crate::unit::Unit;

/// Devices of a claim with a common config.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GpuGroup {
    /// In the order of the allocation's results.
    pub devices: Vec<PreparedDevice>,
    /// What the Go driver has changed for the group.
    #[serde(rename = "configState")]
    pub config_state: ConfigState,
}

/// What the Go driver has changed on the hardware for a group, and its Unprepare undoes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigState {
    /// The MPS daemon of the group.
    #[serde(
        rename = "mpsControlDaemonID",
        default,
        skip_serializing_if = "String::is_empty"
    )]
    pub mps_daemon: String,
    /// Never written by the Go driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mps_applied: Option<bool>,
    /// Whether the time slice was changed; absent if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_slice_applied: Option<bool>,
}

/// A full GPU, a MIG device or a VFIO device: exactly one is set.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PreparedDevice {
    /// A full GPU.
    pub gpu: Option<HeldGpu>,
    /// A MIG device.
    pub mig: Option<HeldMig>,
    /// A GPU that is passed to a virtual machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vfio: Option<HeldVfio>,
}

/// A full GPU of a claim.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HeldGpu {
    /// The GPU.
    pub info: GpuInfo,
    /// The device in the answer to kubelet.
    pub device: Option<KubeletDevice>,
}

/// The identity of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuInfo {
    /// The UUID, `GPU-…`.
    pub uuid: String,
}

/// A MIG device of a claim.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HeldMig {
    /// The MIG device.
    pub concrete: MigInfo,
    /// The device in the answer to kubelet.
    pub device: Option<KubeletDevice>,
}

/// The identity of a MIG device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MigInfo {
    /// The minor number of its GPU.
    pub parent_minor: u32,
    /// The id of the GPU instance.
    pub gi_id: u32,
    /// The id of the compute instance.
    pub ci_id: u32,
    /// The UUID, `MIG-…`.
    #[serde(rename = "migUUID")]
    pub mig_uuid: String,
    /// The UUID of its GPU.
    #[serde(rename = "parentUUID")]
    pub parent_uuid: String,
    /// The PCI address of its GPU.
    #[serde(
        rename = "parentPCIBusID",
        default,
        skip_serializing_if = "String::is_empty"
    )]
    pub parent_pci_bus_id: String,
}

/// A VFIO device of a claim.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HeldVfio {
    /// The device.
    pub info: VfioInfo,
    /// The device in the answer to kubelet.
    pub device: Option<KubeletDevice>,
}

/// The identity of a VFIO device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VfioInfo {
    /// A UUID made from the address.
    pub uuid: String,
    /// The PCI address.
    #[serde(rename = "pciBusID", default, skip_serializing_if = "String::is_empty")]
    pub pci_bus_id: String,
}

impl Payload for GpuGroup {
    // req: GPU-30
    const HAS_ABORTED: bool = false;
}

// === impl PreparedDevice ===

impl PreparedDevice {
    /// The device in the answer to kubelet.
    pub fn kubelet_device(&self) -> Option<&KubeletDevice> {
        let Self { gpu, mig, vfio } = self;
        let gpu = gpu.as_ref().and_then(|it| it.device.as_ref());
        let mig = mig.as_ref().and_then(|it| it.device.as_ref());
        let vfio = vfio.as_ref().and_then(|it| it.device.as_ref());
        gpu.or(mig).or(vfio)
    }

    /// The hardware that it is.
    pub fn unit(&self) -> Option<Unit> {
        let Self { gpu, mig, vfio } = self;
        let gpu = gpu.as_ref().map(|it| Unit::Gpu {
            uuid: it.info.uuid.clone(),
        });
        let mig = mig.as_ref().map(|it| Unit::Mig {
            gpu: it.concrete.parent_uuid.clone(),
            instance: it.concrete.gi_id,
        });
        let vfio = vfio.as_ref().map(|it| Unit::Function {
            address: it.info.pci_bus_id.clone(),
        });
        gpu.or(mig).or(vfio)
    }

    /// The Go driver's name of its type.
    pub fn device_type(&self) -> &'static str {
        match self {
            Self { gpu: Some(_), .. } => "gpu",
            Self { mig: Some(_), .. } => "mig",
            Self { vfio: Some(_), .. } => "vfio",
            _ => "unknown",
        }
    }
}
