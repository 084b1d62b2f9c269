//! Devices and channels in the cached records.

use compute_domain_api::names::DRIVER_NAME;
use dra_claim::DeviceResult;
use imex_cdi::ChannelId;

use crate::node_claims::NodeClaims;
use crate::request::ChannelRequest;
use crate::spec::own_channel;

impl NodeClaims {
    /// The channel that a claim opens, according to cached records. `None` unless it is prepared
    /// with a channel.
    pub fn channel(&self, uid: &str) -> Option<ChannelId> {
        own_channel(self.store.view().get(uid)?)
    }

    /// Whether a record in any state is of a claim for the device that stands for the node.
    /// Unreadable claims count.
    pub fn records_node_device(&self) -> bool {
        let view = self.store.view();
        view.records_unchecked().any(|(_, record)| {
            let request = ChannelRequest::from_status(&record.status);
            request.map_or(true, |request| request.is_node_device())
        })
    }

    /// Whether a record in any state is of a claim with a share of a device. Only the device that
    /// stands for the node is ever shared. `None` while this is unknown because of damage.
    pub fn records_share(&self) -> Option<bool> {
        let is_share =
            |result: &DeviceResult| result.driver() == DRIVER_NAME && result.share_id().is_some();
        let view = self.store.view();
        let mut records = view.records_unchecked();
        let found = records.any(|(_, record)| record.status.results().iter().any(is_share));
        (found || view.check_recovered().is_ok()).then_some(found)
    }
}
