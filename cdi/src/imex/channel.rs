//! IMEX channels: ids, names, device nodes, and the edits that give a container
//! one.
//!
//! | of channel N | is |
//! |---|---|
//! | device minor | N |
//! | device node | `/dev/nvidia-caps-imex-channels/channelN` |
//! | DRA device | `channel-N` |

use std::fmt;

use dra_common::Advice;

use crate::{
    ClaimDevice, ClaimSpec, ContainerEdits, DeviceName, DeviceNode, DeviceType, Major, Permissions,
};

/// Directory of the channels' device nodes, in a container and on a host.
pub const CHANNEL_DIR: &str = "/dev/nvidia-caps-imex-channels";

/// Permission bits of a channel's node: any user in the container may open it, as
/// with NVIDIA's driver. The device cgroup decides which containers can.
const CHANNEL_MODE: u32 = 0o666;

/// What precedes the id in a DRA device name.
const DEVICE_PREFIX: &str = "channel-";

/// An IMEX channel; also the minor of its device node.
///
/// Below 2^20, as minors have 20 bits. How many channels the driver of a host
/// provides is its module option `NVreg_ImexChannelCount` (default 2048).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(u32);

/// Not an IMEX channel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum ChannelIdError {
    /// The number is not a device minor.
    #[error("IMEX channel {0} is not below {limit}", limit = ChannelId::LIMIT)]
    #[advice(
        code = "imex-channel-out-of-range",
        hint = "request a channel below the driver's NVreg_ImexChannelCount"
    )]
    OutOfRange(u32),
    /// The device's name is not `channel-` and a number.
    #[error("device {0:?} is not an IMEX channel")]
    #[advice(
        code = "not-an-imex-channel",
        hint = "request a device named channel-N, where N is the channel's id"
    )]
    NotAChannel(String),
}

/// The edits that make `channel`'s node in a container and let it be opened:
/// just [`channel_node`].
// req: CDI-3, CDI-10
pub fn channel_edits(channel: ChannelId, major: Major) -> ContainerEdits {
    ContainerEdits {
        device_nodes: vec![channel_node(channel, major)],
        ..ContainerEdits::default()
    }
}

/// `channel`'s device node in a container: mode 0666, access `rw`.
///
/// Fully specified (type, major, minor) and without a host path, so that the
/// runtime neither needs nor copies a node of the host. The minor is written
/// even if it is 0: CDI's Go library omits a zero and reads an absent minor as
/// 0, but a reader that takes an absent minor for unknown would refuse channel 0.
///
/// For another owner, mode or host path, change the returned node.
// req: CDI-27
pub fn channel_node(channel: ChannelId, major: Major) -> DeviceNode {
    DeviceNode {
        path: format!("{CHANNEL_DIR}/channel{channel}"),
        host_path: None,
        device_type: Some(DeviceType::Char),
        major: Some(major.get().into()),
        minor: Some(channel.get().into()),
        file_mode: Some(CHANNEL_MODE),
        permissions: Some(Permissions::READ_WRITE),
        uid: None,
        gid: None,
    }
}

// === impl ChannelId ===

impl ChannelId {
    /// One more than the highest id: 2^20, as minors have 20 bits.
    pub const LIMIT: u32 = 1 << 20;

    /// The channel `id`.
    pub fn new(id: u32) -> Result<Self, ChannelIdError> {
        if id < Self::LIMIT {
            Ok(Self(id))
        } else {
            Err(ChannelIdError::OutOfRange(id))
        }
    }

    /// The channel of the DRA device `channel-N`: the inverse of
    /// [`device_name`](Self::device_name), so no sign and no leading zeros.
    pub fn from_device_name(name: &str) -> Result<Self, ChannelIdError> {
        let not_a_channel = || ChannelIdError::NotAChannel(name.to_owned());
        let digits = name.strip_prefix(DEVICE_PREFIX).ok_or_else(not_a_channel)?;
        let id: u32 = digits.parse().map_err(|_| not_a_channel())?;
        if id.to_string() != digits {
            return Err(not_a_channel());
        }
        Self::new(id)
    }

    /// The id as a number.
    pub fn get(self) -> u32 {
        self.0
    }

    /// The name of the DRA device for this channel, `channel-N`.
    pub fn device_name(self) -> DeviceName {
        // A letter first, a digit last, a dash between: always a name.
        DeviceName::from_valid(format!("{DEVICE_PREFIX}{self}"))
    }
}

impl TryFrom<u32> for ChannelId {
    type Error = ChannelIdError;

    // req: CDI-29
    fn try_from(id: u32) -> Result<Self, ChannelIdError> {
        Self::new(id)
    }
}

impl fmt::Display for ChannelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// === impl ClaimSpec ===

impl ClaimSpec {
    /// The device `channel-N` with the edits for IMEX channel N.
    pub fn imex_channel(channel: ChannelId, major: Major) -> Self {
        let device = ClaimDevice {
            name: channel.device_name(),
            edits: channel_edits(channel, major),
        };
        Self {
            common: ContainerEdits::default(),
            devices: vec![device],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: CDI-3
    #[test]
    fn the_minor_is_written_even_if_it_is_0() {
        let edits = channel_edits(ChannelId::new(0).unwrap(), Major::new(235).unwrap());
        assert_eq!(
            serde_json::to_string(&edits).unwrap(),
            r#"{"deviceNodes":[{"path":"/dev/nvidia-caps-imex-channels/channel0","type":"c","major":235,"minor":0,"fileMode":438,"permissions":"rw"}]}"#
        );
    }
}
