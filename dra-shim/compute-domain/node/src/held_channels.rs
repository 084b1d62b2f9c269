//! Devices and channels in the records.

use compute_domain_api::names::DRIVER_NAME;
use dra_checkpoint::View;
use dra_claim::DeviceResult;
use imex_cdi::ChannelId;

use crate::channels::own_channel;
use crate::device_group::DeviceGroup;
use crate::request::ChannelRequest;

/// The number of channels that Completed records hold.
pub fn prepared_channels(view: &View<DeviceGroup>) -> usize {
    view.records_unchecked()
        .flat_map(|(_, record)| record.devices())
        .flat_map(DeviceGroup::channels)
        .count()
}

/// The channel that a claim opens. `None` unless it is prepared with a channel.
pub fn channel_of(view: &View<DeviceGroup>, uid: &str) -> Option<ChannelId> {
    own_channel(view.get(uid)?)
}

/// Whether a record in any state is of a claim for the device that stands for the node.
/// Unreadable claims count.
pub fn records_node_device(view: &View<DeviceGroup>) -> bool {
    view.records_unchecked().any(|(_, record)| {
        let request = ChannelRequest::from_status(&record.status);
        request.map_or(true, |request| request.is_node_device())
    })
}

/// Whether a record in any state is of a claim with a share of a device. Only the device that
/// stands for the node is ever shared. `None` while this is unknown because of damage.
pub fn records_share(view: &View<DeviceGroup>) -> Option<bool> {
    let is_share =
        |result: &DeviceResult| result.driver() == DRIVER_NAME && result.share_id().is_some();
    let mut records = view.records_unchecked();
    let found = records.any(|(_, record)| record.status.results().iter().any(is_share));
    (found || view.check_recovered().is_ok()).then_some(found)
}
