//! What a Completed record holds: the Go driver's `preparedDevices`, field for
//! field, in groups of devices that share a configuration.
//!
//! ```text
//! Group  = {"devices": [Slot…], "configState": {"Type", "ComputeDomain"}}
//! Slot   = {"channel": Held | null, "daemon": Held | null}      both keys always
//! Held   = {"info": {"id": N}, "device": Device | null}
//! Device = {"Requests", "PoolName", "DeviceName", "CDIDeviceIDs", "ShareID"?, "Metadata"?}
//! ```
//!
//! Fields that a newer Go adds are carried by the checkpoint as long as the
//! record does not change. A known field in another case (`Channel`), which Go
//! would take for the known one, makes the record damaged: read as unknown, it
//! would turn a held device into a free one.
//!
//! We write channel groups only. Daemon groups of a Go driver in driver-managed
//! mode are read, carried unchanged, and undone.

use dra_checkpoint::{Payload, from_go_json};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The `configState.Type` of a channel claim.
const CHANNEL_TYPE: &str = "channel";

/// Devices that were prepared with one config.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Group {
    /// In the order of the allocation's results.
    pub devices: Vec<Slot>,
    /// What the config said.
    #[serde(rename = "configState")]
    pub config_state: ConfigState,
}

/// The config of a group, as far as undoing needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigState {
    /// The kind of config.
    #[serde(rename = "Type")]
    pub kind: String,
    /// The UID of the `ComputeDomain`.
    #[serde(rename = "ComputeDomain")]
    pub compute_domain: String,
}

/// One device: exactly one of the two is set.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Slot {
    /// An IMEX channel.
    pub channel: Option<Held>,
    /// An IMEX daemon of the driver-managed mode.
    pub daemon: Option<Held>,
}

/// A device that is held.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Held {
    /// Which one.
    pub info: Info,
    /// What kubelet was told about it.
    pub device: Option<Device>,
}

/// The number of a channel or daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Info {
    /// The channel id (also its minor number), or the daemon's index.
    pub id: u32,
}

/// A device as kubelet's gRPC answer names it; the keys are Go's field names.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Device {
    /// Base names of the claim's requests that it serves.
    pub requests: Option<Vec<String>>,
    /// Its pool: the node's name.
    pub pool_name: String,
    /// Its name in the slice, such as `channel-0`.
    pub device_name: String,
    /// The CDI devices that a container gets with it.
    #[serde(rename = "CDIDeviceIDs")]
    pub cdi_device_ids: Option<Vec<String>>,
    /// Set by drivers that share devices; carried.
    #[serde(rename = "ShareID", default, skip_serializing_if = "Option::is_none")]
    pub share_id: Option<String>,
    /// Set by drivers that publish metadata; carried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Box<RawValue>>,
}

impl Group {
    /// The group of one prepared channel.
    pub(crate) fn of_channel(id: u32, device: Device, compute_domain: &str) -> Self {
        Self {
            devices: vec![Slot {
                channel: Some(Held {
                    info: Info { id },
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

    /// The channels of the group, with what kubelet was told about each.
    pub fn channels(&self) -> impl Iterator<Item = &Held> {
        self.devices.iter().filter_map(|slot| slot.channel.as_ref())
    }

    /// Every device of the group as kubelet knows it.
    pub fn kubelet_devices(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter().filter_map(|slot| {
            slot.channel
                .as_ref()
                .or(slot.daemon.as_ref())?
                .device
                .as_ref()
        })
    }
}

impl Payload for Group {
    fn from_legacy(json: &str) -> Result<Self, serde_json::Error> {
        let legacy: LegacyGroup = from_go_json(json)?;
        Ok(Self {
            devices: legacy.devices.into_iter().map(Slot::from).collect(),
            config_state: legacy.config_state,
        })
    }
}

// === the layout of 25.3.0-rc.2: devices with keys in snake case ===

#[derive(Deserialize)]
struct LegacyGroup {
    devices: Vec<LegacySlot>,
    #[serde(rename = "configState")]
    config_state: ConfigState,
}

#[derive(Deserialize)]
struct LegacySlot {
    channel: Option<LegacyHeld>,
    daemon: Option<LegacyHeld>,
}

#[derive(Deserialize)]
struct LegacyHeld {
    info: Info,
    device: Option<LegacyDevice>,
}

#[derive(Deserialize)]
struct LegacyDevice {
    #[serde(default)]
    request_names: Option<Vec<String>>,
    #[serde(default)]
    pool_name: String,
    #[serde(default)]
    device_name: String,
    #[serde(default)]
    cdi_device_ids: Option<Vec<String>>,
}

impl From<LegacySlot> for Slot {
    fn from(slot: LegacySlot) -> Self {
        Self {
            channel: slot.channel.map(Held::from),
            daemon: slot.daemon.map(Held::from),
        }
    }
}

impl From<LegacyHeld> for Held {
    fn from(held: LegacyHeld) -> Self {
        Self {
            info: held.info,
            device: held.device.map(Device::from),
        }
    }
}

impl From<LegacyDevice> for Device {
    fn from(device: LegacyDevice) -> Self {
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
#[path = "payload_tests.rs"]
mod tests;
