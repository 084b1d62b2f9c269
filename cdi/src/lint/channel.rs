//! The IMEX channel of a node or a device.

use crate::{CHANNEL_DIR, ChannelId, Device, DeviceNode};

/// The channel of a device with exactly one channel node, and the node's index; `None` for a device
/// of several channels, such as `all`.
pub(super) fn only_channel(device: &Device) -> Option<(usize, ChannelId)> {
    let nodes = device.container_edits.device_nodes.iter().enumerate();
    let mut channels = nodes.filter_map(|(index, node)| Some((index, channel_of(node)?)));
    let channel = channels.next()?;
    channels.next().is_none().then_some(channel)
}

/// The channel of a node's path, in any spelling of the number.
pub(super) fn channel_of(node: &DeviceNode) -> Option<ChannelId> {
    let name = node.path.strip_prefix(CHANNEL_DIR)?.strip_prefix('/')?;
    let id = name.strip_prefix("channel")?.parse().ok()?;
    ChannelId::new(id).ok()
}
