//! Reads the node's GPUs: at the start, when driver or devices change, and every few minutes.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
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
    /// The directory of the loaded module: sysfs gives it a new inode at each loading.
    module: Option<u64>,
    /// Whether the hook is there: a reading installs it.
    has_hook: bool,
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
                None => "they are being read".to_owned(),
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

    /// What is known may be wrong until a reading ends, so claims wait for it.
    // req: GPU-43
    fn claims_wait(&self) {
        self.0.latest.send_modify(|latest| latest.host = None);
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
                if seen.as_ref().is_some_and(|seen| *seen != look) {
                    self.claims_wait();
                }
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
        let module = std::fs::metadata(self.sources.sys.join("module/nvidia"));
        Look {
            module: module.ok().map(|found| found.ino()),
            has_hook: hook::path(&self.data_dir).exists(),
            version: std::fs::read(driver.join("version")).ok(),
            majors: std::fs::read(proc.join("devices")).ok(),
            gpus,
        }
    }

    /// What is known of the GPUs after a reading. Blocks for as long as the driver does.
    fn read(&self, before: &NodeGpus) -> NodeGpus {
        let inventory = read(&self.sources);
        let (host, problems) = self.host(&inventory);
        before.next(&inventory, host, problems)
    }

    /// The devices for claims, and what is wrong with the driver's files, one line each.
    // req: GPU-42
    fn host(&self, inventory: &Inventory) -> (HostGpus, Vec<String>) {
        // The driver may be in a root within the root, like that of a driver container in the host's.
        let root = self.sources.driver_root.with_library();
        let inside = root.path().strip_prefix(self.sources.driver_root.path());
        let driver_root =
            Path::new(&self.host_driver_root).join(inside.unwrap_or_else(|_| Path::new("")));
        let hook = match &self.hook {
            Some(hook) => Ok(hook.clone()),
            None => hook::install(&self.data_dir),
        };
        let files = driver_files(&root, inventory);
        let found = files.iter().flat_map(|files| &files.problems);
        let mut problems: Vec<_> = found
            .map(|problem| format!("{problem}; {}", problem.hint()))
            .collect();
        let files = files.and_then(|files| hook.as_ref().map(|_| files).map_err(Clone::clone));
        let params = self.sources.proc.join("driver/nvidia/params");
        let params = DriverParams::read(&params).unwrap_or_else(|error| {
            let error = error_chain(&error);
            problems.push(format!(
                "device nodes get the driver's default modes: {error}"
            ));
            DriverParams::default()
        });
        let hook = hook.unwrap_or_default();
        let paths = HostPaths {
            proc: &self.sources.proc,
            runtime: RuntimePaths {
                driver_root: &driver_root.to_string_lossy(),
                hook: &hook.to_string_lossy(),
            },
            params,
        };
        let host = HostGpus::new(inventory, files.as_ref().map_err(Clone::clone), &paths);
        problems.extend(host.not_usable());
        (host, problems)
    }
}

/// The files of the version of the kernel module.
fn driver_files(root: &DriverRoot, inventory: &Inventory) -> Result<DriverFiles, String> {
    let version = driver_version(root, inventory)?;
    Ok(DriverFiles::find(root, &version))
}

fn driver_version(root: &DriverRoot, inventory: &Inventory) -> Result<DriverVersion, String> {
    match inventory.driver.module.known() {
        Some(version) => version
            .parse()
            .map_err(|error| format!("the kernel module's version: {}", error_chain(&error))),
        None => find_version(root).map_err(|error| error_chain(&error)),
    }
}

#[cfg(test)]
mod tests {
    use mock_host::{MockHost, library};

    use super::*;

    fn mk_inventory() -> Inventory {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/inventory/tests/inventories/h100.json"
        );
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    fn reader(root: &Path, host: &MockHost, hook: &str) -> Reader {
        Reader {
            sources: Sources {
                proc: host.path("proc"),
                sys: host.path("sys"),
                ..Sources::this_host(DriverRoot::new(root))
            },
            host_driver_root: "/".to_owned(),
            hook: (!hook.is_empty()).then(|| hook.into()),
            data_dir: root.join("data"),
        }
    }

    // req: GPU-42
    #[test]
    fn files_come_from_the_root_of_a_driver_container_and_missing_ones_are_problems() {
        let root = tempfile::tempdir().unwrap();
        let inventory = mk_inventory();
        let dir = root.path().join("run/nvidia/driver");
        std::fs::create_dir_all(&dir).unwrap();
        let host = MockHost::new(&dir, &inventory, library());
        host.write("proc/driver/nvidia/params", "DeviceFileMode: 438\n");
        let reader = reader(root.path(), &host, "/hook");
        let (_, problems) = reader.host(&inventory);
        assert!(problems[0].starts_with("libcuda.so"), "{problems:?}");

        host.install_cuda(library(), "580.82.07");
        let (gpus, problems) = reader.host(&inventory);
        assert_eq!(problems, [""; 0]);
        let mounted = "\"/run/nvidia/driver/usr/lib64/libcuda.so.580.82.07\"";
        assert!(format!("{gpus:?}").contains(mounted), "{gpus:?}");
    }

    // req: GPU-43
    #[test]
    fn claims_wait_for_a_reading_when_the_module_is_loaded_again_or_the_hook_is_gone() {
        let root = tempfile::tempdir().unwrap();
        let host = MockHost::new(root.path(), &mk_inventory(), library());
        let reader = reader(root.path(), &host, "");
        host.write("sys/module/nvidia/version", "580.82.07");
        let before = reader.look();
        assert_eq!(reader.look(), before);
        let old = host.path("sys/module/nvidia");
        std::fs::rename(old, host.path("sys/module/old")).unwrap();
        host.write("sys/module/nvidia/version", "580.82.07");
        let reloaded = reader.look();
        assert_ne!(reloaded, before);
        host.write("data/imex-dra-cdi-hook", "a program");
        assert_ne!(reader.look(), reloaded);

        let (gpus, problems) = reader.host(&mk_inventory());
        let monitor = monitor_with(reader);
        let known = NodeGpus::default().next(&mk_inventory(), gpus, problems);
        monitor.0.latest.send_replace(known);
        monitor.claims_wait();
        let waits = monitor.host_for_claim().unwrap_err().to_string();
        assert!(waits.contains("they are being read"), "{waits}");
        assert_eq!(
            monitor.0.latest.borrow().devices.len(),
            8,
            "still published"
        );
    }

    fn monitor_with(reader: Reader) -> GpuMonitor {
        GpuMonitor(Arc::new(Shared {
            reader,
            latest: watch::Sender::default(),
            wanted: Notify::new(),
        }))
    }

    // req: GPU-42
    #[test]
    fn without_a_hook_no_container_can_have_a_gpu() {
        let root = tempfile::tempdir().unwrap();
        let inventory = mk_inventory();
        let host = MockHost::new(root.path(), &inventory, library());
        host.install_cuda(library(), "580.82.07");
        host.write("proc/driver/nvidia/params", "DeviceFileMode: 438\n");
        let (_, problems) = reader(root.path(), &host, "").host(&inventory);
        let [problem] = &problems[..] else {
            panic!("{problems:?}");
        };
        let expected =
            "no container can have a GPU: the hook /usr/bin/nvidia-cdi-hook cannot be read";
        assert!(problem.starts_with(expected), "{problem}");
    }
}
