//! GPUs as the devices of this plugin's parts.

use std::sync::Arc;

use dra_checkpoint::{BootId, View};
use durable_file::Dir;
use gpu_api::FeatureGates;
use gpu_api::names::DRIVER_NAME;
use gpu_node::{GpuGroup, Gpus, HostGpus, NodeClaims, prepared};
use node_claims::{StartError, StartReport};
use plugin_parts::PluginDevices;

use crate::monitor::GpuMonitor;

/// The node's claims, once the checkpoint is open.
pub(crate) type SharedClaims = plugin_parts::SharedClaims<Gpus>;

/// GPUs, and the node's devices as the facts for their specs.
pub(crate) struct GpuDevices {
    pub(crate) node: String,
    pub(crate) gates: FeatureGates,
    pub(crate) monitor: GpuMonitor,
}

impl PluginDevices for GpuDevices {
    type Devices = Gpus;

    const DRIVER: &'static str = DRIVER_NAME;
    const DEVICE_TYPES: &'static [&'static str] = &["gpu", "mig", "vfio", "unknown"];

    fn start(
        &self,
        checkpoint: Arc<dyn Dir>,
        cdi: Arc<dyn Dir>,
        boot: BootId,
    ) -> Result<(NodeClaims, StartReport), StartError> {
        let gpus = Gpus {
            node: self.node.clone(),
            gates: self.gates.clone(),
        };
        gpus.start(checkpoint, cdi, boot, self.facts().as_ref())
    }

    fn facts(&self) -> Option<Arc<HostGpus>> {
        self.monitor.host()
    }

    fn prepared(view: &View<GpuGroup>) -> impl IntoIterator<Item = (&'static str, usize)> {
        prepared(view)
    }
}
