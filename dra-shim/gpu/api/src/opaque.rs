//! The opaque configs of claims: `spec.devices.config[].opaque.parameters` of a `ResourceClaim` or `DeviceClass`.

use std::collections::BTreeMap;

use dra_claim::{Parameters, ParametersError};

use crate::error::ConfigError;
use crate::names::{API_VERSION, DeviceType};

/// The opaque config of a claim as it was written: a `GpuConfig`, `MigDeviceConfig` or `VfioDeviceConfig`. Types are
/// checked, values are not; see [`OpaqueConfig::sharing`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpaqueConfig {
    /// The type of the devices that it configures, which is its kind.
    pub device_type: DeviceType,
    /// `sharing` of a `GpuConfig` or `MigDeviceConfig`. A `VfioDeviceConfig` has none; its own fields are not read.
    pub sharing: Option<SharingConfig>,
}

/// How the processes of a claim's containers share its devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharingConfig {
    /// `strategy`; empty if absent.
    pub strategy: String,
    /// `timeSlicingConfig` of a `GpuConfig`; a `MigDeviceConfig` has no such field.
    pub time_slicing: Option<TimeSlicingConfig>,
    /// `mpsConfig`.
    pub mps: Option<MpsConfig>,
}

/// The time slice of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeSlicingConfig {
    /// `interval`.
    pub interval: Option<String>,
}

/// The limits of an MPS control daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MpsConfig {
    /// `defaultActiveThreadPercentage`: a client's share of the multiprocessors.
    pub active_thread_percentage: Option<i64>,
    /// `defaultPinnedDeviceMemoryLimit` in bytes: a client's memory on each device.
    pub pinned_memory_limit: Option<u64>,
    /// `defaultPerDevicePinnedMemoryLimit` in bytes, by a device's UUID or by its index in the claim. Overrides
    /// [`pinned_memory_limit`](Self::pinned_memory_limit).
    pub pinned_memory_limits: BTreeMap<String, u64>,
    /// `multiUser`: whether processes of different users can be clients.
    pub multi_user: bool,
}

/// Kinds of the same API version that belong to `ComputeDomains`.
const OTHER_KINDS: [&str; 4] = [
    "ComputeDomainChannelConfig",
    "ComputeDomainDaemonConfig",
    "ComputeDomain",
    "ComputeDomainClique",
];

// The paths of the fields; `*` is any name. The chart's policy for configs has them, too.
const META: &[&str] = &["apiVersion", "kind"];
const SHARING: &[&str] = &["sharing", "sharing.strategy"];
const TIME_SLICING: &[&str] = &[
    "sharing.timeSlicingConfig",
    "sharing.timeSlicingConfig.interval",
];
const MPS: &[&str] = &[
    "sharing.mpsConfig",
    "sharing.mpsConfig.defaultActiveThreadPercentage",
    "sharing.mpsConfig.defaultPinnedDeviceMemoryLimit",
    "sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit",
    "sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit.*",
    "sharing.mpsConfig.multiUser",
];
const IOMMU: &[&str] = &["iommu", "iommu.backendPolicy", "iommu.enableAPIDevice"];

// === impl OpaqueConfig ===

impl OpaqueConfig {
    /// Decodes the config of a claim for Prepare. Unknown and duplicate fields are errors, so that a typo is found
    /// before a device is prepared. Field names are case-sensitive, and null means absent.
    ///
    /// # Errors
    /// All errors are permanent, because the config of a claim is immutable.
    // req: GPU-13, GPU-14
    pub fn decode_strict(json: &str) -> Result<Self, ConfigError> {
        let parameters = Parameters::parse(json)?;
        let device_type = device_type_of(&parameters)?;
        parameters.deny_unknown(&fields(device_type))?;
        Self::from_parameters(device_type, &parameters)
    }

    /// Decodes a stored config, which another version may have accepted: for example, that of a prepared claim in a
    /// checkpoint. Unknown fields are ignored, and of several fields with one name the last that is not null is used.
    ///
    /// # Errors
    /// As for [`OpaqueConfig::decode_strict`], but never [`ParametersError::Strict`].
    // req: GPU-13
    pub fn decode_lenient(json: &str) -> Result<Self, ConfigError> {
        let parameters = Parameters::parse(json)?;
        Self::from_parameters(device_type_of(&parameters)?, &parameters)
    }

    fn from_parameters(
        device_type: DeviceType,
        parameters: &Parameters<'_>,
    ) -> Result<Self, ConfigError> {
        let sharing = match device_type {
            DeviceType::Vfio => None,
            DeviceType::Gpu | DeviceType::Mig => parameters.object("sharing")?,
        };
        let sharing = sharing.map(|sharing| SharingConfig::from_parameters(device_type, &sharing));
        Ok(Self {
            device_type,
            sharing: sharing.transpose()?,
        })
    }
}

fn device_type_of(parameters: &Parameters<'_>) -> Result<DeviceType, ConfigError> {
    let kind = parameters.kind_of(API_VERSION)?;
    let types = [DeviceType::Gpu, DeviceType::Mig, DeviceType::Vfio];
    match types.into_iter().find(|it| it.config_kind() == kind) {
        Some(device_type) => Ok(device_type),
        None if OTHER_KINDS.contains(&kind.as_str()) => Err(ConfigError::OtherKind { kind }),
        None => Err(ParametersError::UnknownKind {
            kind,
            api_version: API_VERSION.to_owned(),
        }
        .into()),
    }
}

/// The paths of all fields of a config for devices of this type.
fn fields(device_type: DeviceType) -> Vec<&'static str> {
    match device_type {
        DeviceType::Gpu => [META, SHARING, TIME_SLICING, MPS].concat(),
        DeviceType::Mig => [META, SHARING, MPS].concat(),
        DeviceType::Vfio => [META, IOMMU].concat(),
    }
}

// === impl SharingConfig ===

impl SharingConfig {
    fn from_parameters(
        device_type: DeviceType,
        sharing: &Parameters<'_>,
    ) -> Result<Self, ConfigError> {
        let time_slicing = match device_type {
            DeviceType::Gpu => sharing.object("timeSlicingConfig")?,
            DeviceType::Mig | DeviceType::Vfio => None,
        };
        let time_slicing = time_slicing.map(|config| {
            let interval = config.string("interval")?;
            Ok::<_, ConfigError>(TimeSlicingConfig { interval })
        });
        let mps = sharing.object("mpsConfig")?;
        Ok(Self {
            strategy: sharing.string("strategy")?.unwrap_or_default(),
            time_slicing: time_slicing.transpose()?,
            mps: mps
                .map(|mps| MpsConfig::from_parameters(&mps))
                .transpose()?,
        })
    }
}

// === impl MpsConfig ===

impl MpsConfig {
    fn from_parameters(mps: &Parameters<'_>) -> Result<Self, ConfigError> {
        let mut limits = BTreeMap::new();
        if let Some(by_device) = mps.object("defaultPerDevicePinnedMemoryLimit")? {
            for device in by_device.names() {
                let limit = by_device.quantity(device)?;
                limits.extend(limit.map(|limit| (device.to_owned(), limit)));
            }
        }
        Ok(Self {
            active_thread_percentage: mps.integer("defaultActiveThreadPercentage")?,
            pinned_memory_limit: mps.quantity("defaultPinnedDeviceMemoryLimit")?,
            pinned_memory_limits: limits,
            multi_user: mps.bool("multiUser")?.unwrap_or(false),
        })
    }
}

#[cfg(test)]
#[path = "opaque_tests.rs"]
mod tests;
