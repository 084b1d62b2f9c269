//! IMEX channels as the devices of this plugin's parts.

use std::sync::Arc;

use compute_domain_api::names::DRIVER_NAME;
use compute_domain_node::{
    DeviceGroup, HolderPolicy, ImexChannels, ImexDaemon, NodeClaims, prepared_channels,
};
use dra_checkpoint::{BootId, View};
use durable_file::Dir;
use imex_cdi::Major;
use node_claims::{StartError, StartReport};
use plugin_parts::PluginDevices;

use crate::monitor::HardwareMonitor;

/// The node's claims, once the checkpoint is open.
pub(crate) type SharedClaims = plugin_parts::SharedClaims<ImexChannels>;

/// IMEX channels, and the channel major as the fact for their specs.
pub(crate) struct ChannelDevices {
    pub(crate) holder_policy: HolderPolicy,
    /// Only in the driver-managed mode.
    pub(crate) daemon: Option<ImexDaemon>,
    pub(crate) hardware: Arc<HardwareMonitor>,
}

impl PluginDevices for ChannelDevices {
    type Devices = ImexChannels;

    const DRIVER: &'static str = DRIVER_NAME;
    const DEVICE_TYPES: &'static [&'static str] = &["channel"];

    fn start(
        &self,
        checkpoint: Arc<dyn Dir>,
        cdi: Arc<dyn Dir>,
        boot: BootId,
    ) -> Result<(NodeClaims, StartReport), StartError> {
        let channels = ImexChannels::new(self.holder_policy);
        let channels = match &self.daemon {
            Some(daemon) => channels.with_daemon(daemon.clone()),
            None => channels,
        };
        channels.start(checkpoint, cdi, boot, self.facts())
    }

    fn facts(&self) -> Option<Major> {
        self.hardware.major()
    }

    fn prepared(view: &View<DeviceGroup>) -> impl IntoIterator<Item = (&'static str, usize)> {
        [("channel", prepared_channels(view))]
    }
}
