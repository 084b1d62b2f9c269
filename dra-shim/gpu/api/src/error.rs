//! Why a claim's configuration cannot be used.

use compute_domain_api::gates::Gate;
use dra_claim::ParametersError;
use dra_common::{Advice, OneLine};

use crate::names::DeviceType;

const REMOVE_SHARING: &str = "remove sharing from the opaque config in the claim, its template or the DeviceClass, and recreate the claim";

/// Why a claim cannot be prepared as its configuration asks. All errors are permanent, because the allocation of a
/// claim is immutable.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
#[advice(permanent)]
pub enum ConfigError {
    /// Not a config of the API version, or fields of it are unknown, duplicate or of another type.
    #[error(transparent)]
    #[advice(from, hint = parameters_hint(_0))]
    Parameters(#[from] ParametersError),
    /// A kind of the same API version that belongs to `ComputeDomains`.
    #[error("kind {kind:?} belongs to compute-domain.nvidia.com, and does not configure a GPU")]
    #[advice(
        code = "config-of-unknown-kind",
        hint = "use a GpuConfig or MigDeviceConfig, or no opaque config for the driver gpu.nvidia.com"
    )]
    OtherKind {
        /// The kind.
        kind: String,
    },
    /// A config names the request of a device that it cannot configure. The message is the Go driver's.
    #[error(
        "cannot apply {} to device {device:?} of type {:?} (request: {request})",
        .config_type.config_kind(),
        .device_type.as_str()
    )]
    #[advice(
        code = "config-of-other-device-type",
        hint = other_type_hint(*config_type)
    )]
    OtherDeviceType {
        /// The type of the devices that the config is for.
        config_type: DeviceType,
        /// The allocated device.
        device: String,
        /// Its type.
        device_type: DeviceType,
        /// The request that it satisfies.
        request: String,
    },
    /// An unknown `sharing.strategy`. The message is like the Go driver's.
    #[error(
        "unknown GPU sharing strategy: {strategy:?}, supported GPU sharing strategies: TimeSlicing, MPS"
    )]
    #[advice(code = "config-field-value", hint = REMOVE_SHARING)]
    UnknownStrategy {
        /// The value; empty if absent.
        strategy: String,
    },
    /// The strategy's feature gate is off. The message is the Go driver's.
    #[error(
        "{strategy:?} is selected as the GPU sharing strategy, but the {:?} feature gate is not enabled",
        .gate.name()
    )]
    #[advice(code = "config-needs-feature-gate", hint = REMOVE_SHARING)]
    GateOff {
        /// The strategy.
        strategy: &'static str,
        /// Its gate.
        gate: Gate,
    },
    /// The configuration of one strategy with the other strategy.
    #[error("sharing.{field} cannot be used with the strategy {strategy:?}")]
    #[advice(
        code = "config-field-value",
        hint = "remove the configuration of the other strategy"
    )]
    OtherStrategy {
        /// The field.
        field: &'static str,
        /// The strategy.
        strategy: &'static str,
    },
    /// An unknown `interval`. The message is the Go driver's.
    #[error(
        "unknown time-slice interval: {}, supported time-slice intervals: Default, Short, Medium, Long",
        OneLine(interval)
    )]
    #[advice(code = "config-field-value", hint = REMOVE_SHARING)]
    UnknownInterval {
        /// The value.
        interval: String,
    },
    /// `defaultActiveThreadPercentage` is not a percentage. The message begins like the Go driver's.
    #[error(
        "active thread percentage must not be {}: defaultActiveThreadPercentage is {percentage}",
        if *percentage < 0 { "negative" } else { "greater than 100" }
    )]
    #[advice(
        code = "config-field-value",
        hint = "set defaultActiveThreadPercentage to a number from 0 to 100, or remove it"
    )]
    ThreadPercentage {
        /// The value.
        percentage: i64,
    },
    /// A limit of pinned memory is less than MPS can set.
    #[error("{field} is less than 1Mi, the smallest limit")]
    #[advice(code = "config-field-value", hint = "increase the limit, or remove it")]
    LimitTooLow {
        /// The field, with the device for a device's limit.
        field: String,
    },
    /// The allocated device has none of the driver's names.
    #[error(
        "gpu.nvidia.com does not publish the allocated device {device:?}: its devices are named gpu-MINOR or gpu-MINOR-mig-PROFILE"
    )]
    #[advice(
        code = "not-a-gpu",
        hint = "delete the ResourceSlice that has this device, then the claim and its pods"
    )]
    NotAGpu {
        /// The device.
        device: String,
    },
    /// MPS on a device that the claim has a share of.
    #[error(
        "GPU sharing strategy \"MPS\" cannot be used with a share of device {device}: the clients of an MPS control daemon are the containers of one claim, and consumableShares gives the device to several claims"
    )]
    #[advice(code = "mps-with-shares", hint = REMOVE_SHARING)]
    MpsWithShares {
        /// The device.
        device: String,
    },
    /// Two shares of one device with different settings.
    #[error("the claim has device {device} more than once, with different configs")]
    #[advice(
        code = "config-conflict",
        hint = "use one config for all requests, or the constraint distinctAttribute: gpu.nvidia.com/uuid, and recreate the claim"
    )]
    TwoConfigs {
        /// The device.
        device: String,
    },
    /// This version does not run MPS.
    #[error(
        "GPU sharing strategy \"MPS\" is not supported: this version of the driver does not run MPS control daemons"
    )]
    #[advice(code = "mps-not-supported", hint = REMOVE_SHARING)]
    MpsNotSupported,
    /// This version does not pass GPUs to virtual machines.
    #[error(
        "device {device:?} (VfioDeviceConfig) is not supported: this version of the driver does not pass GPUs to virtual machines"
    )]
    #[advice(
        code = "vfio-not-supported",
        hint = "request a device of the class gpu.nvidia.com or mig.nvidia.com, and remove the VfioDeviceConfig"
    )]
    VfioNotSupported {
        /// The device.
        device: String,
    },
}

fn parameters_hint(error: &ParametersError) -> &'static str {
    match error {
        ParametersError::UnknownKind { .. }
        | ParametersError::MissingKind
        | ParametersError::MissingApiVersion => {
            "set apiVersion: resource.nvidia.com/v1beta1, and kind: GpuConfig or MigDeviceConfig"
        }
        ParametersError::Strict { .. } => {
            "remove or correct the fields; their names are case-sensitive"
        }
        other => other.hint(),
    }
}

fn other_type_hint(config_type: DeviceType) -> &'static str {
    match config_type {
        DeviceType::Gpu | DeviceType::Mig => {
            "use a GpuConfig for requests of whole GPUs, and a MigDeviceConfig for requests of MIG devices; a config without requests applies to the devices of its kind"
        }
        DeviceType::Vfio => {
            "remove the VfioDeviceConfig: this version of the driver does not pass GPUs to virtual machines"
        }
    }
}
