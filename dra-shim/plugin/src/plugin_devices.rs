//! What the parts need of a driver.

use std::sync::Arc;

use dra_checkpoint::{BootId, View};
use durable_file::Dir;
use node_claims::{Devices, NodeClaims, StartError, StartReport};

/// A driver's devices on this node, and the facts that their CDI specs depend on.
pub trait PluginDevices: Send + Sync + 'static {
    /// The devices. Facts are compared: when they change, the specs of prepared claims are written again.
    type Devices: Devices<Facts: PartialEq>;

    /// The driver's name, such as `gpu.nvidia.com`.
    const DRIVER: &'static str;

    /// The types of devices in the Go driver's metric `nvidia_dra_prepared_devices`.
    const DEVICE_TYPES: &'static [&'static str];

    /// Opens the node's claims: [`NodeClaims::start`] with the driver's CDI kind, devices and
    /// [`facts`](Self::facts). Blocks.
    ///
    /// # Errors
    /// [`StartError`]: the plugin tries again.
    fn start(
        &self,
        checkpoint: Arc<dyn Dir>,
        cdi: Arc<dyn Dir>,
        boot: BootId,
    ) -> Result<(NodeClaims<Self::Devices>, StartReport), StartError>;

    /// The facts now. May block: reads small files at most. While they are not known, such as without the NVIDIA
    /// driver, [`Devices::recorded_spec`] fails with them, and existing specs stay as they are.
    fn facts(&self) -> Facts<Self>;

    /// The number of devices that prepared claims hold, for each of [`DEVICE_TYPES`](Self::DEVICE_TYPES).
    fn prepared(
        view: &View<<Self::Devices as Devices>::Group>,
    ) -> impl IntoIterator<Item = (&'static str, usize)>;
}

/// The facts of a driver's devices.
pub type Facts<P> = <<P as PluginDevices>::Devices as Devices>::Facts;
