//! Reads the node's GPUs: at the start, when driver or devices change, and every few minutes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use daemon_runtime::Heartbeat;
use dra_common::error_chain;
use gpu_inventory::{Inventory, Sources, read};
use gpu_node::{HostGpus, HostPaths, PrepareError};
use imex_cdi::DriverParams;
use nvidia_driver_files::{DriverFiles, DriverVersion, RuntimePaths, find_version};
use nvml_session::DriverRoot;
use tokio::sync::{Notify, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::args::Paths;
use crate::hook;
use crate::node_gpus::NodeGpus;

/// Pause between two looks at the files that change with the driver and its devices.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Pause between two readings without a reason.
const READ_EVERY: Duration = Duration::from_secs(5 * 60);

/// Pause after a reading in which NVML failed, and between two readings for claims.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The node's GPUs. Cheap to clone.
#[derive(Clone)]
pub(crate) struct GpuMonitor(Arc<Shared>);

struct Shared {
    reader: Reader,
    latest: watch::Sender<NodeGpus>,
    /// A claim needs a device that the last reading does not have.
    wanted: Notify,
}

/// Reads the GPUs once.
#[derive(Clone)]
struct Reader {
    sources: Sources,
    host_driver_root: String,
    hook: Option<PathBuf>,
    data_dir: PathBuf,
}

/// The files that change with the driver and its devices: each read is a few microseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Look {
    version: Option<Vec<u8>>,
    majors: Option<Vec<u8>>,
    gpus: Vec<std::ffi::OsString>,
}

// === impl GpuMonitor ===

impl GpuMonitor {
    pub(crate) fn new(paths: &Paths) -> Self {
        let root = DriverRoot::new(paths.driver_root.clone());
        let sources = Sources {
            proc: paths.proc.clone(),
            sys: paths.sys.clone(),
            ..Sources::this_host(root)
        };
        Self(Arc::new(Shared {
            reader: Reader {
                sources,
                host_driver_root: paths.host_driver_root.clone(),
                hook: paths.hook.clone(),
                data_dir: paths.data_dir.clone(),
            },
            latest: watch::Sender::default(),
            wanted: Notify::new(),
        }))
    }

    /// Follows the readings.
    pub(crate) fn subscribe(&self) -> watch::Receiver<NodeGpus> {
        self.0.latest.subscribe()
    }

    /// The devices for claims, if they are known now.
    pub(crate) fn host(&self) -> Option<Arc<HostGpus>> {
        self.0.latest.borrow().host.clone()
    }

    /// The devices for a claim, or why they are not known now.
    pub(crate) fn host_for_claim(&self) -> Result<Arc<HostGpus>, PrepareError> {
        let latest = self.0.latest.borrow();
        latest.host.clone().ok_or_else(|| PrepareError::NotKnown {
            reason: match &latest.no_driver {
                Some(reason) => reason.clone(),
                None => "they have not been read yet".to_owned(),
            },
        })
    }

    /// Has the GPUs read again soon: a claim needs a device that the last reading does not have.
    pub(crate) fn read_again(&self) {
        self.0.wanted.notify_one();
    }

    /// Reads until `shutdown`.
    pub(crate) async fn run(self, heartbeat: Heartbeat, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.watch(&heartbeat)).await;
    }

    async fn watch(&self, heartbeat: &Heartbeat) {
        let mut seen = None;
        let mut read_at = Instant::now();
        loop {
            heartbeat.beat();
            let reader = self.0.reader.clone();
            let Ok(look) = spawn_blocking(move || reader.look()).await else {
                return; // the tokio runtime is shutting down
            };
            if seen.as_ref() != Some(&look) || Instant::now() >= read_at {
                let before = self.0.latest.borrow().clone();
                let reader = self.0.reader.clone();
                let Ok(now) = spawn_blocking(move || reader.read(&before)).await else {
                    return;
                };
                seen = Some(look);
                let pause = match now.no_driver {
                    Some(_) => RETRY_AFTER,
                    None => READ_EVERY,
                };
                read_at = Instant::now() + pause;
                self.0.latest.send_if_modified(|latest| {
                    let is_new = *latest != now;
                    *latest = now;
                    is_new
                });
            }
            tokio::select! {
                () = sleep(LOOK_EVERY) => {}
                () = self.0.wanted.notified() => read_at = read_at.min(Instant::now() + RETRY_AFTER),
            }
        }
    }
}

// === impl Reader ===

impl Reader {
    fn look(&self) -> Look {
        let proc = &self.sources.proc;
        let driver = proc.join("driver/nvidia");
        let entries = std::fs::read_dir(driver.join("gpus"));
        let mut gpus: Vec<_> = entries
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name())
            .collect();
        gpus.sort();
        Look {
            version: std::fs::read(driver.join("version")).ok(),
            majors: std::fs::read(proc.join("devices")).ok(),
            gpus,
        }
    }

    /// What is known of the GPUs after a reading. Blocks for as long as the driver does.
    fn read(&self, before: &NodeGpus) -> NodeGpus {
        let inventory = read(&self.sources);
        let host = self.host(&inventory);
        before.next(&inventory, host)
    }

    fn host(&self, inventory: &Inventory) -> HostGpus {
        let hook = match &self.hook {
            Some(hook) => Ok(hook.clone()),
            None => hook::install(&self.data_dir),
        };
        let files = driver_files(&self.sources, inventory);
        let files = files.and_then(|files| hook.as_ref().map(|_| files).map_err(Clone::clone));
        let params = self.sources.proc.join("driver/nvidia/params");
        let params = DriverParams::read(&params).unwrap_or_else(|error| {
            warn!(
                error = error_chain(&error),
                "device nodes get the driver's default modes"
            );
            DriverParams::default()
        });
        let hook = hook.unwrap_or_default();
        let paths = HostPaths {
            proc: &self.sources.proc,
            runtime: RuntimePaths {
                driver_root: &self.host_driver_root,
                hook: &hook.to_string_lossy(),
            },
            params,
        };
        HostGpus::new(inventory, files.as_ref().map_err(Clone::clone), &paths)
    }
}

/// The files of the version of the kernel module.
fn driver_files(sources: &Sources, inventory: &Inventory) -> Result<DriverFiles, String> {
    let version = driver_version(&sources.driver_root, inventory)?;
    Ok(DriverFiles::find(&sources.driver_root, &version))
}

fn driver_version(root: &DriverRoot, inventory: &Inventory) -> Result<DriverVersion, String> {
    match inventory.driver.module.known() {
        Some(version) => version
            .parse()
            .map_err(|error| format!("the kernel module's version: {}", error_chain(&error))),
        None => find_version(root).map_err(|error| error_chain(&error)),
    }
}
