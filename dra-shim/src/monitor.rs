//! The node's hardware, watched: what NVML reports about the fabric, and the
//! major of IMEX channels.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use compute_domain_node::Hardware;
use imex_cdi::Major;
use imex_runtime::StartError;
use nvml_clique::{DriverRoot, Fabric, FabricWatch, Gpu, NvmlProbe, WatchConfig};
use tokio::sync::Notify;

/// How often the channel major is read again: how late a driver that is loaded
/// or reloaded is noticed, against one read of a small file.
const MAJOR_EVERY: Duration = Duration::from_secs(2);

/// Watches the hardware for as long as it lives.
pub(crate) struct HardwareMonitor {
    proc_devices: PathBuf,
    changed: Arc<Notify>,
    watch: FabricWatch,
    /// The channel major of the last snapshot, if there was one.
    major: Mutex<Option<Major>>,
}

impl HardwareMonitor {
    /// Starts to watch the driver below `driver_root`.
    pub(crate) fn start(driver_root: PathBuf, proc_devices: PathBuf) -> Result<Self, StartError> {
        let changed = Arc::new(Notify::new());
        let notify = Arc::clone(&changed);
        let probe = NvmlProbe::new(DriverRoot::new(driver_root));
        let watch = FabricWatch::spawn(probe, WatchConfig::default(), move |_| notify.notify_one())
            .map_err(|error| StartError::new(&error, "raise the limits on threads"))?;
        Ok(Self {
            proc_devices,
            changed,
            watch,
            major: Mutex::new(None),
        })
    }

    /// The hardware now, without waiting for NVML. Reads one small file: call it
    /// where blocking is allowed.
    pub(crate) fn snapshot(&self) -> Hardware {
        let major = imex_cdi::read_channel_major(&self.proc_devices);
        self.compare_major(major.as_ref().ok().copied());
        let reading = self.watch.latest();
        Hardware {
            state: reading.state,
            fabric: reading.fabric,
            major,
        }
    }

    /// As [`snapshot`](Self::snapshot), for a claim that is to be prepared: since NVML
    /// is read rarely, asks for a reading, which a later attempt gets.
    pub(crate) fn snapshot_for_claim(&self) -> Hardware {
        self.watch.read_soon();
        self.snapshot()
    }

    /// The GPUs as they were last enumerated.
    pub(crate) fn gpus(&self) -> Arc<[Gpu]> {
        self.watch.latest().gpus.unwrap_or_default()
    }

    /// Another major is another driver, of which the last reading says nothing.
    fn compare_major(&self, major: Option<Major>) {
        let mut last = self.major.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != major {
            *last = major;
            self.watch.read_now();
        }
    }

    /// The clique that the node is in, as `<cluster UUID>.<id>`. Never blocks.
    pub(crate) fn clique(&self) -> Option<String> {
        match self.watch.latest().fabric {
            Fabric::Clique(clique) => Some(clique.id.to_string()),
            _ => None,
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
