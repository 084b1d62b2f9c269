//! Devices of a Completed record: the Go driver's `preparedDevices`, field for
//! field, grouped by configuration.
//!
//! ```text
//! DeviceGroup    = {"devices": [PreparedDevice…], "configState": {"Type", "ComputeDomain"}}
//! PreparedDevice = {"channel": DeviceDetails | null, "daemon": DeviceDetails | null}   both keys always
//! DeviceDetails  = {"info": {"id": N}, "device": KubeletDevice | null}
//! ```
//!
//! The checkpoint preserves fields that a newer Go driver adds, as long as the
//! record does not change. A known field in another case (`Channel`) makes the
//! record damaged: Go matches field names case-insensitively, so ignoring the
//! field would free a device that is in use.
//!
//! This crate writes only channel groups. It reads and preserves daemon groups of
//! a Go driver in driver-managed mode; Unprepare removes them.

use dra_checkpoint::{KubeletDevice, Payload, from_go_json};
use serde::{Deserialize, Serialize};

/// The `configState.Type` of a channel claim.
const CHANNEL_TYPE: &str = "channel";

/// Devices of a claim with a common config.
// req: CKPT-18
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeviceGroup {
    /// In the order of the allocation's results.
    pub devices: Vec<PreparedDevice>,
    /// The config.
    #[serde(rename = "configState")]
    pub config_state: ConfigState,
}

/// The part of a group's config that Go's Unprepare needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigState {
    /// The kind of config.
    #[serde(rename = "Type")]
    pub kind: String,
    /// The UID of the `ComputeDomain`.
    #[serde(rename = "ComputeDomain")]
    pub compute_domain: String,
}

/// A channel or a daemon: exactly one of the two is set.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PreparedDevice {
    /// An IMEX channel.
    pub channel: Option<DeviceDetails>,
    /// An IMEX daemon of the driver-managed mode.
    pub daemon: Option<DeviceDetails>,
}

/// A device that its claim holds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeviceDetails {
    /// Its number.
    pub info: DeviceInfo,
    /// The device in the answer to kubelet.
    pub device: Option<KubeletDevice>,
}

/// The number of a channel or daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// The channel id (also its minor number), or the daemon's index.
    pub id: u32,
}

// === impl DeviceGroup ===

impl DeviceGroup {
    /// The group of one prepared channel.
    pub(crate) fn with_channel(id: u32, device: KubeletDevice, compute_domain: &str) -> Self {
        Self {
            devices: vec![PreparedDevice {
                channel: Some(DeviceDetails {
                    info: DeviceInfo { id },
                    device: Some(device),
                }),
                daemon: None,
            }],
            config_state: ConfigState {
                kind: CHANNEL_TYPE.to_owned(),
                compute_domain: compute_domain.to_owned(),
            },
        }
    }

    /// The channels of the group, each with the device in kubelet's answer.
    pub fn channels(&self) -> impl Iterator<Item = &DeviceDetails> {
        self.devices
            .iter()
            .filter_map(|prepared| prepared.channel.as_ref())
    }

    /// Every device of the group, as in the answer to kubelet.
    pub fn kubelet_devices(&self) -> impl Iterator<Item = &KubeletDevice> {
        self.devices.iter().filter_map(|prepared| {
            prepared
                .channel
                .as_ref()
                .or(prepared.daemon.as_ref())?
                .device
                .as_ref()
        })
    }
}

impl Payload for DeviceGroup {
    fn from_legacy(json: &str) -> Result<Self, serde_json::Error> {
        let legacy: LegacyGroup = from_go_json(json)?;
        Ok(Self {
            devices: legacy
                .devices
                .into_iter()
                .map(PreparedDevice::from)
                .collect(),
            config_state: legacy.config_state,
        })
    }
}

// === the layout of 25.3.0-rc.2: devices with keys in snake case ===

#[derive(Deserialize)]
struct LegacyGroup {
    devices: Vec<LegacyPreparedDevice>,
    #[serde(rename = "configState")]
    config_state: ConfigState,
}

#[derive(Deserialize)]
struct LegacyPreparedDevice {
    channel: Option<LegacyDeviceDetails>,
    daemon: Option<LegacyDeviceDetails>,
}

#[derive(Deserialize)]
struct LegacyDeviceDetails {
    info: DeviceInfo,
    device: Option<LegacyKubeletDevice>,
}

#[derive(Deserialize)]
struct LegacyKubeletDevice {
    #[serde(default)]
    request_names: Option<Vec<String>>,
    #[serde(default)]
    pool_name: String,
    #[serde(default)]
    device_name: String,
    #[serde(default)]
    cdi_device_ids: Option<Vec<String>>,
}

impl From<LegacyPreparedDevice> for PreparedDevice {
    fn from(prepared: LegacyPreparedDevice) -> Self {
        Self {
            channel: prepared.channel.map(DeviceDetails::from),
            daemon: prepared.daemon.map(DeviceDetails::from),
        }
    }
}

impl From<LegacyDeviceDetails> for DeviceDetails {
    fn from(held: LegacyDeviceDetails) -> Self {
        Self {
            info: held.info,
            device: held.device.map(KubeletDevice::from),
        }
    }
}

impl From<LegacyKubeletDevice> for KubeletDevice {
    fn from(device: LegacyKubeletDevice) -> Self {
        Self {
            requests: device.request_names,
            pool_name: device.pool_name,
            device_name: device.device_name,
            cdi_device_ids: device.cdi_device_ids,
            share_id: None,
            metadata: None,
        }
    }
}

#[cfg(test)]
#[path = "device_group_tests.rs"]
mod tests;
