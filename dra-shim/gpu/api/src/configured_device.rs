//! Which config applies to which device of a claim.

use compute_domain_api::gates::FeatureGates;
use dra_claim::{ClaimStatus, DeviceConfig, DeviceResult};

use crate::error::ConfigError;
use crate::names::{DRIVER_NAME, DeviceType};
use crate::opaque::OpaqueConfig;
use crate::sharing::Sharing;

/// An allocated device of a claim with the settings that its container gets.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfiguredDevice<'a> {
    /// The allocation.
    pub result: &'a DeviceResult,
    /// The device's type, from its name.
    pub device_type: DeviceType,
    /// The settings. `None` leaves the device as it is: no config asks for any, or the device is allocated with
    /// `adminAccess`, and so may be in use by others.
    pub sharing: Option<Sharing>,
}

/// The claim's devices of the driver `gpu.nvidia.com`, in the allocator's order, with the settings of their
/// configs.
///
/// A device's config is the last that applies to it: those of the claim come after those of the class. A config
/// without requests applies to the devices of its kind. A config that names the device's request, or the request of
/// its subrequest, must be of the device's kind.
///
/// # Errors
/// A config is malformed, even one that another config overrides; a config names the request of a device of another
/// kind; a device's config has invalid values, or asks for what the feature gates or this version do not allow; the
/// claim has a device twice with different settings. All are permanent.
// req: GPU-15, GPU-17, GPU-18
pub fn configured_devices<'a>(
    status: &'a ClaimStatus,
    gates: &FeatureGates,
) -> Result<Vec<ConfiguredDevice<'a>>, ConfigError> {
    let configs = own_configs(status, OpaqueConfig::decode_strict)?;
    let results = status.results_of(DRIVER_NAME);
    let devices = results
        .map(|result| configured_device(result, &configs, |config| config.sharing(gates)))
        .collect::<Result<Vec<_>, _>>()?;
    refuse_two_settings(&devices)?;
    devices.iter().try_for_each(refuse_unsupported)?;
    Ok(devices)
}

/// The devices and settings of a prepared claim: feature gates do not count, nor what this version can apply, because
/// another version may have prepared the claim.
///
/// # Errors
/// As [`configured_devices`], but never for unknown fields.
// req: GPU-54
pub fn recorded_devices(status: &ClaimStatus) -> Result<Vec<ConfiguredDevice<'_>>, ConfigError> {
    let configs = own_configs(status, OpaqueConfig::decode_lenient)?;
    let results = status.results_of(DRIVER_NAME);
    let devices =
        results.map(|result| configured_device(result, &configs, OpaqueConfig::recorded_sharing));
    devices.collect()
}

/// The driver's decoded configs in rising precedence.
fn own_configs(
    status: &ClaimStatus,
    decode: fn(&str) -> Result<OpaqueConfig, ConfigError>,
) -> Result<Vec<(&DeviceConfig, OpaqueConfig)>, ConfigError> {
    let configs = status.configs_of(DRIVER_NAME);
    let decoded = configs.map(|it| Ok((it, decode(it.parameters())?)));
    decoded.collect()
}

fn configured_device<'a>(
    result: &'a DeviceResult,
    configs: &[(&DeviceConfig, OpaqueConfig)],
    sharing: impl Fn(&OpaqueConfig) -> Result<Option<Sharing>, ConfigError>,
) -> Result<ConfiguredDevice<'a>, ConfigError> {
    let device_type = DeviceType::of_device(result.device());
    let device_type = device_type.ok_or_else(|| ConfigError::NotAGpu {
        device: result.device().to_owned(),
    })?;
    let config = config_for(result, device_type, configs)?;
    let sharing = match config {
        Some(config) if !result.admin_access() => sharing(config)?,
        _ => None,
    };
    Ok(ConfiguredDevice {
        result,
        device_type,
        sharing,
    })
}

/// The effective config of a device. Without one, nothing is set: NVIDIA's defaults have no settings, either.
fn config_for<'a>(
    result: &DeviceResult,
    device_type: DeviceType,
    configs: &'a [(&DeviceConfig, OpaqueConfig)],
) -> Result<Option<&'a OpaqueConfig>, ConfigError> {
    let falling = configs.iter().rev();
    for (config, decoded) in falling.filter(|(config, _)| config.applies_to(result)) {
        if decoded.device_type == device_type {
            return Ok(Some(decoded));
        }
        if !config.requests().is_empty() {
            return Err(ConfigError::OtherDeviceType {
                config_type: decoded.device_type,
                device: result.device().to_owned(),
                device_type,
                request: result.request().to_owned(),
            });
        }
    }
    Ok(None)
}

/// Fails if this version cannot apply the settings of the device. A claim must not seem prepared with settings that
/// were not applied.
fn refuse_unsupported(device: &ConfiguredDevice<'_>) -> Result<(), ConfigError> {
    if device.device_type == DeviceType::Vfio {
        return Err(ConfigError::VfioNotSupported {
            device: device.result.device().to_owned(),
        });
    }
    match &device.sharing {
        Some(Sharing::Mps(_)) if device.result.share_id().is_some() => {
            Err(ConfigError::MpsWithShares {
                device: device.result.device().to_owned(),
            })
        }
        None | Some(Sharing::TimeSlicing(_)) => Ok(()),
        Some(Sharing::Mps(_)) => Err(ConfigError::MpsNotSupported),
    }
}

/// Fails if the claim has several shares of a device, and asks for different settings of it.
// req: GPU-56
fn refuse_two_settings(devices: &[ConfiguredDevice<'_>]) -> Result<(), ConfigError> {
    let own = devices.iter().filter(|it| !it.result.admin_access());
    for (number, device) in own.clone().enumerate() {
        let name = device.result.device();
        let mut before = own.clone().take(number);
        let conflict = before.any(|other| {
            other.result.device() == name
                && !Sharing::are_equal(device.sharing.as_ref(), other.sharing.as_ref())
        });
        if conflict {
            return Err(ConfigError::TwoConfigs {
                device: name.to_owned(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "configured_device_tests.rs"]
mod tests;
