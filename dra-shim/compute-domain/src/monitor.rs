//! Watches the node's hardware: the fabric state that NVML reports, and the major of
//! IMEX channels.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use compute_domain_node::Hardware;
use daemon_runtime::StartError;
use imex_cdi::{DriverParams, Major, ReadMajorError};
use nvml_clique::{DriverRoot, FabricProbe, FabricWatch, Gpu, NvmlProbe, WatchConfig};
use tokio::sync::Notify;

/// Interval between reads of the channel major, and the delay until a loaded or reloaded
/// driver is noticed. Each read is of one small file.
const MAJOR_EVERY: Duration = Duration::from_secs(2);

/// Watches the hardware until it is dropped.
pub(crate) struct HardwareMonitor {
    proc_devices: PathBuf,
    driver_params: PathBuf,
    changed: Arc<Notify>,
    watch: FabricWatch,
    /// The channel major as last read, if any.
    major: Mutex<Option<Major>>,
}

impl HardwareMonitor {
    /// Starts watching the driver below `driver_root`.
    pub(crate) fn start(driver_root: PathBuf, proc_devices: PathBuf) -> Result<Self, StartError> {
        let probe = NvmlProbe::new(DriverRoot::new(driver_root));
        Self::watch(probe, WatchConfig::default(), proc_devices)
            .map_err(|error| StartError::new(&error, "raise the limits on threads"))
    }

    /// Starts watching with `probe`.
    pub(crate) fn watch(
        probe: impl FabricProbe,
        config: WatchConfig,
        proc_devices: PathBuf,
    ) -> io::Result<Self> {
        let changed = Arc::new(Notify::new());
        let notify = Arc::clone(&changed);
        let watch = FabricWatch::spawn(probe, config, move |_| notify.notify_one())?;
        let major = imex_cdi::read_channel_major(&proc_devices).ok();
        Ok(Self {
            // Both files are in the same /proc.
            driver_params: proc_devices.with_file_name("driver/nvidia/params"),
            proc_devices,
            changed,
            watch,
            major: Mutex::new(major),
        })
    }

    /// The current state of the hardware, without waiting for NVML. Blocks: reads two
    /// small files.
    pub(crate) fn snapshot(&self) -> Hardware {
        let major = self.read_major();
        let params = DriverParams::read(&self.driver_params).ok();
        let reading = self.watch.latest();
        Hardware {
            state: reading.state,
            fabric: reading.fabric,
            major,
            channel_count: params.and_then(|params| params.imex_channel_count),
        }
    }

    /// The current channel major, if any. Blocks: reads one small file.
    pub(crate) fn major(&self) -> Option<Major> {
        self.read_major().ok()
    }

    // req: NODE-28
    fn read_major(&self) -> Result<Major, ReadMajorError> {
        let major = imex_cdi::read_channel_major(&self.proc_devices);
        self.compare_major(major.as_ref().ok().copied());
        major
    }

    /// Like [`snapshot`](Self::snapshot), for a Prepare. It also requests a new NVML
    /// reading, because these are rare; a retry gets that one.
    pub(crate) fn snapshot_for_claim(&self) -> Hardware {
        self.watch.read_soon();
        self.snapshot()
    }

    /// The GPUs as last enumerated.
    pub(crate) fn gpus(&self) -> Arc<[Gpu]> {
        self.watch.latest().gpus.unwrap_or_default()
    }

    /// The channel major as last read, if any. Never blocks.
    pub(crate) fn last_major(&self) -> Option<Major> {
        *self.major.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests a new NVML reading if the major has changed: the driver was loaded or reloaded.
    fn compare_major(&self, major: Option<Major>) {
        let mut last = self.major.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != major {
            *last = major;
            self.watch.read_now();
        }
    }

    /// The node's clique, as `<cluster UUID>.<id>`. Never blocks.
    pub(crate) fn clique(&self) -> Option<String> {
        let fabric = self.watch.latest().fabric;
        fabric.clique().map(|clique| clique.to_string())
    }

    /// Returns when another [`snapshot`](Self::snapshot) is due: the fabric has changed, or
    /// the channel major may have changed.
    pub(crate) async fn changed(&self) {
        tokio::select! {
            () = self.changed.notified() => {}
            () = tokio::time::sleep(MAJOR_EVERY) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use nvml_clique::{GpuFabricState, GpuRef, ProbeError};

    use super::*;

    const GIVE_UP: Duration = Duration::from_secs(30);
    const NEVER: Duration = Duration::from_secs(3600);

    /// A host without a fabric that reports each read.
    struct Host(Sender<()>);

    impl FabricProbe for Host {
        fn read(&self) -> Result<Vec<Gpu>, ProbeError> {
            // The test may have ended.
            let _ = self.0.send(());
            Ok(vec![Gpu {
                id: GpuRef {
                    index: 0,
                    uuid: None,
                },
                name: None,
                fabric: GpuFabricState::NotSupported,
                health: None,
            }])
        }
    }

    fn write_major(path: &Path, major: u32) {
        let devices = format!("Character devices:\n{major} nvidia-caps-imex-channels\n");
        fs::write(path, devices).unwrap();
    }

    /// A monitor that never reads again by itself, and for a claim after `pause`. The
    /// receiver gets its reads after the first.
    fn fixture(proc_devices: &Path, pause: Duration) -> (HardwareMonitor, Receiver<()>) {
        let (to, reads) = channel();
        let config = WatchConfig::default()
            .pending_pause(Duration::ZERO, NEVER)
            .final_pause(pause, NEVER);
        let monitor = HardwareMonitor::watch(Host(to), config, proc_devices.into()).unwrap();
        reads.recv_timeout(GIVE_UP).unwrap();
        while !monitor.watch.latest().state.is_final() {
            std::thread::yield_now();
        }
        (monitor, reads)
    }

    #[test]
    fn a_prepare_triggers_an_nvml_reading_and_a_snapshot_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let proc_devices = dir.path().join("devices");
        let (monitor, reads) = fixture(&proc_devices, Duration::ZERO);
        monitor.snapshot();
        let early = reads.recv_timeout(Duration::from_millis(200));
        assert!(early.is_err(), "read again for nothing");
        monitor.snapshot_for_claim();
        reads.recv_timeout(GIVE_UP).unwrap();
    }

    #[test]
    fn a_loaded_or_replaced_driver_triggers_an_nvml_reading_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let proc_devices = dir.path().join("devices");
        let (monitor, reads) = fixture(&proc_devices, NEVER);
        for major in [235, 236] {
            write_major(&proc_devices, major);
            monitor.snapshot();
            reads.recv_timeout(GIVE_UP).unwrap();
            monitor.snapshot();
            monitor.snapshot_for_claim();
            let again = reads.recv_timeout(Duration::from_millis(200));
            assert!(again.is_err(), "read again although nothing changed");
        }
    }
}
