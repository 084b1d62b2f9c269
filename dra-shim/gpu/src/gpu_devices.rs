//! GPUs as the devices of this plugin's parts.

use std::path::PathBuf;
use std::sync::Arc;

use dra_checkpoint::{BootId, View};
use dra_common::error_chain;
use durable_file::{Dir, OsDir};
use gpu_api::FeatureGates;
use gpu_api::names::DRIVER_NAME;
use gpu_node::{Effects, GpuGroup, Gpus, Hardware, HostGpus, NodeClaims, prepared};
use node_claims::{StartError, StartReport};
use plugin_parts::{DATA_MODE, PluginDevices};

use crate::monitor::GpuMonitor;

/// The node's claims, once the checkpoint is open.
pub(crate) type SharedClaims = plugin_parts::SharedClaims<Gpus>;

/// GPUs, and the node's devices as the facts for their specs.
pub(crate) struct GpuDevices {
    pub(crate) node: String,
    pub(crate) gates: FeatureGates,
    pub(crate) monitor: GpuMonitor,
    /// The journals of changed GPUs.
    pub(crate) effects_dir: PathBuf,
    pub(crate) hardware: Arc<dyn Hardware>,
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
        let effects = OsDir::create(&self.effects_dir, DATA_MODE)
            .and_then(|dir| Effects::open(Arc::new(dir), &boot, Arc::clone(&self.hardware)));
        let effects = effects.map_err(|error| StartError::Hardware {
            reason: error_chain(&error),
        })?;
        let gpus = Gpus {
            node: self.node.clone(),
            gates: self.gates.clone(),
            effects,
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
