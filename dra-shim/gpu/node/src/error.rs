//! Errors of Prepare, one sentence each.

use dra_checkpoint::ClaimRef;
use dra_common::{Advice, error_chain};
use gpu_api::ConfigError;
use gpu_api::names::DRIVER_NAME;

use crate::effects::EffectError;
use crate::hardware::HardwareError;

/// Why a claim is not prepared.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum PrepareError {
    /// The claim was allocated no device of this driver.
    #[error("the claim has no device of {DRIVER_NAME}")]
    #[advice(
        code = "no-gpu",
        hint = "request a device of the class gpu.nvidia.com or mig.nvidia.com",
        permanent
    )]
    NoDevice,
    /// A config of the claim cannot be used.
    #[error(transparent)]
    #[advice(from)]
    Config(#[from] ConfigError),
    /// The device is from a `ResourceSlice` that this driver did not publish.
    #[error(
        "{DRIVER_NAME} does not publish device {device} in pool {pool}: the pool of a node's GPUs is the node's name"
    )]
    #[advice(
        code = "foreign-device",
        hint = "delete the ResourceSlice of that pool, then the claim and its pods",
        permanent
    )]
    ForeignDevice {
        /// The device.
        device: String,
        /// The device's pool.
        pool: String,
    },
    /// Another claim has the hardware, or a part of it.
    #[error(
        "device {device} is still in use by claim {holder}{}",
        under_name(device, held_as)
    )]
    #[advice(
        code = "device-held",
        hint = "wait until the pod that uses the device ends; the plugin frees the device at most 3 minutes after the pod and its claim are deleted",
        retry
    )]
    InUse {
        /// The device.
        device: String,
        /// The claim that holds it.
        holder: ClaimRef,
        /// The name under which the claim holds it.
        held_as: String,
    },
    /// Another claim has a share of the device, with other settings.
    #[error(
        "device {device} is shared with claim {holder}, which has other settings: {held}; this claim has {wanted}"
    )]
    #[advice(
        code = "shared-config-conflict",
        hint = "use equal opaque configs in all claims that share the device, or wait until the pods of the other claims end",
        retry
    )]
    OtherSettings {
        /// The device.
        device: String,
        /// The claim that has a share.
        holder: Box<ClaimRef>,
        /// Its settings.
        held: String,
        /// The settings that the claim asks for.
        wanted: String,
    },
    /// The GPUs of the node are not known now.
    #[error("the GPUs of this node are not known: {reason}")]
    #[advice(
        code = "gpus-unknown",
        hint = "see the plugin's /readyz on this node, or run cdi-gen gpus there",
        retry
    )]
    NotKnown {
        /// Why.
        reason: String,
    },
    /// The node has no such device now.
    #[error("this node has no device {device} now{}", because(reason))]
    #[advice(
        code = "gpu-missing",
        hint = "run cdi-gen gpus on the node; if the device does not come back, delete the pod, so that its claim is allocated again",
        retry
    )]
    NoSuchDevice {
        /// The device.
        device: String,
        /// Why it is not published; empty if unknown.
        reason: String,
    },
    /// Device nodes or files of the driver are missing.
    #[error("device {device} cannot be given to a container: {reason}")]
    #[advice(
        code = "gpu-not-usable",
        hint = "load the driver's modules on this node (modprobe nvidia; nvidia-modprobe -u), or run cdi-gen gpus there",
        retry
    )]
    NotUsable {
        /// The device.
        device: String,
        /// Why.
        reason: String,
    },
    /// The driver cannot change the time slice of a GPU.
    #[error("the time slice of GPU {gpu} cannot be changed: {reason}")]
    #[advice(
        code = "time-slice-not-supported",
        hint = "remove timeSlicingConfig from the claim, its template or the DeviceClass: this GPU or its driver has no such setting",
        permanent
    )]
    TimeSliceNotSupported {
        /// Its UUID.
        gpu: String,
        /// What the driver answers.
        reason: String,
    },
    /// A GPU cannot be changed as the claim wants it, or what an earlier claim has changed cannot be undone.
    #[error("{0}")]
    #[advice(
        code = "gpu-not-changed",
        hint = "run nvidia-smi compute-policy --list on the node; see the plugin's log",
        retry
    )]
    NotChanged(String),
    /// The journals cannot be used, or another claim has been changing one of the GPUs for seconds.
    #[error("what claims change on GPUs cannot be written down: {reason}")]
    #[advice(
        code = "gpu-journal",
        hint = "check the directory effects beside the checkpoint; if a lock is held, another claim is changing the GPU, which takes long only if nvidia-smi hangs: see the node's event GPUNotRestored",
        retry
    )]
    Journal {
        /// Why.
        reason: String,
    },
    /// A reason that claims of every driver have.
    #[error(transparent)]
    #[advice(from)]
    Claim(#[from] node_claims::PrepareError),
}

// === impl PrepareError ===

impl PrepareError {
    /// The claim that holds the device, if that is the cause. It may be deleted already.
    pub fn holder(&self) -> Option<&ClaimRef> {
        match self {
            Self::InUse { holder, .. } => Some(holder),
            Self::OtherSettings { holder, .. } => Some(holder),
            _ => None,
        }
    }
}

impl From<EffectError> for PrepareError {
    fn from(error: EffectError) -> Self {
        match error {
            EffectError::Gpu {
                gpu,
                source: HardwareError::NotSupported { reason },
                ..
            } => Self::TimeSliceNotSupported { gpu, reason },
            EffectError::Journal(error) => Self::Journal {
                reason: error_chain(&error),
            },
            other @ EffectError::Gpu { .. } => Self::NotChanged(error_chain(&other)),
        }
    }
}

/// ` under the name gpu-1`, if that is another one.
fn under_name(device: &str, held_as: &str) -> String {
    if device == held_as {
        String::new()
    } else {
        format!(" as {held_as}")
    }
}

fn because(reason: &str) -> String {
    if reason.is_empty() {
        String::new()
    } else {
        format!(": {reason}")
    }
}
