//! The node's hardware, watched: what NVML says of the fabric, and the major of
//! IMEX channels.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use compute_domain_node::Hardware;
use imex_runtime::StartError;
use nvml_clique::{
    DriverRoot, Fabric, FabricWatch, NodeFabricState, NvmlProbe, Pending, Reading, WatchConfig,
};
use tokio::sync::Notify;

/// How often the channel major is read again: how late a driver that is loaded
/// or reloaded is noticed, against one read of a small file.
const MAJOR_EVERY: Duration = Duration::from_secs(2);

/// Watches the hardware on a thread of its own.
pub(crate) struct HardwareMonitor {
    proc_devices: PathBuf,
    changed: Notify,
    watch: OnceLock<FabricWatch>,
}

impl HardwareMonitor {
    /// Starts to watch the driver below `driver_root`.
    pub(crate) fn start(
        driver_root: PathBuf,
        proc_devices: PathBuf,
    ) -> Result<Arc<Self>, StartError> {
        let monitor = Arc::new(Self {
            proc_devices,
            changed: Notify::new(),
            watch: OnceLock::new(),
        });
        let notified = Arc::downgrade(&monitor);
        let on_change = move |_: &Reading| {
            if let Some(monitor) = notified.upgrade() {
                monitor.changed.notify_one();
            }
        };
        let probe = NvmlProbe::new(DriverRoot::new(driver_root));
        let watch = FabricWatch::spawn(probe, WatchConfig::default(), on_change)
            .map_err(|error| StartError::new(&error, "raise the limits on threads"))?;
        // Nobody else sets it.
        let _ = monitor.watch.set(watch);
        Ok(monitor)
    }

    /// The hardware now, without waiting for NVML. Reads one small file: call it
    /// where blocking is allowed.
    pub(crate) fn snapshot(&self) -> Hardware {
        let (state, fabric) = match self.watch.get() {
            Some(watch) => {
                let reading = watch.latest();
                (reading.state, reading.fabric)
            }
            None => (
                NodeFabricState::NotReadYet,
                Fabric::Pending(Pending::NotReadYet),
            ),
        };
        Hardware {
            state,
            fabric,
            major: imex_cdi::read_channel_major(&self.proc_devices),
        }
    }

    /// Returns when another [`snapshot`](Self::snapshot) is due: the fabric has
    /// changed, or the channel major may have.
    pub(crate) async fn changed(&self) {
        tokio::select! {
            () = self.changed.notified() => {}
            () = tokio::time::sleep(MAJOR_EVERY) => {}
        }
    }
}
