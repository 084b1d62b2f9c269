//! Reads the node's GPUs: at the start, when driver or devices change, and every few minutes.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::args::Paths;
use crate::health_reading::{self, HealthReading};
use crate::hook;
use crate::node_gpus::NodeGpus;

/// Pause between two looks at the files that change with the driver and its devices.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Pause between two readings without a reason.
const READ_EVERY: Duration = Duration::from_secs(5 * 60);

/// Pause after a reading in which NVML failed, and between two readings for claims.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Shortest pause before a reading that is urgent.
const URGENT_AFTER: Duration = Duration::from_secs(1);

/// The node's GPUs. Cheap to clone.
#[derive(Clone)]
pub(crate) struct GpuMonitor(Arc<Shared>);

struct Shared {
    reader: Reader,
    latest: watch::Sender<NodeGpus>,
    /// What each reading says about the health of GPUs, also if nothing has changed.
    health: watch::Sender<Option<Arc<HealthReading>>>,
    /// A claim needs a device that the last reading does not have.
    wanted: Notify,
    /// A GPU has reported an event.
    urgent: Notify,
    /// Whether a GPU may recover, which nothing reports.
    often: AtomicBool,
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
    /// The compute instances: the driver has a directory for each.
    instances: Vec<PathBuf>,
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
        Self::with(Reader {
            sources,
            host_driver_root: paths.host_driver_root.clone(),
            hook: paths.hook.clone(),
            data_dir: paths.data_dir.clone(),
        })
    }

    /// Reads a host that is a directory, with another program in place of this one.
    #[cfg(test)]
    pub(crate) fn of_host(sources: Sources, data_dir: PathBuf) -> Self {
        let reader = Reader {
            sources,
            host_driver_root: "/".to_owned(),
            hook: Some("/hook".into()),
            data_dir,
        };
        Self::with(reader)
    }

    fn with(reader: Reader) -> Self {
        Self(Arc::new(Shared {
            reader,
            latest: watch::Sender::default(),
            health: watch::Sender::default(),
            wanted: Notify::new(),
            urgent: Notify::new(),
            often: AtomicBool::new(false),
        }))
    }

    /// Where the GPUs are read.
    pub(crate) fn sources(&self) -> &Sources {
        &self.0.reader.sources
    }

    /// Follows what readings say about the health of GPUs.
    pub(crate) fn health(&self) -> watch::Receiver<Option<Arc<HealthReading>>> {
        self.0.health.subscribe()
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

    /// Has the GPUs read again at once, but at most once a second: a GPU has reported an event.
    pub(crate) fn read_now(&self) {
        self.0.urgent.notify_one();
    }

    /// Whether the GPUs are read every few seconds, because one may recover.
    pub(crate) fn read_often(&self, often: bool) {
        self.0.often.store(often, Ordering::Relaxed);
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
        let mut ended_at = read_at;
        loop {
            heartbeat.beat();
            let reader = self.0.reader.clone();
            let Ok(look) = spawn_blocking(move || reader.look()).await else {
                return; // the tokio runtime is shutting down
            };
            if self.0.often.load(Ordering::Relaxed) {
                read_at = read_at.min(ended_at + RETRY_AFTER);
            }
            if seen.as_ref() != Some(&look) || Instant::now() >= read_at {
                if seen.as_ref().is_some_and(|seen| *seen != look) {
                    self.claims_wait();
                }
                let Some(pause) = self.read(look.module).await else {
                    return;
                };
                seen = Some(look);
                ended_at = Instant::now();
                read_at = ended_at + pause;
            }
            let next = read_at.min(Instant::now() + LOOK_EVERY);
            tokio::select! {
                () = sleep_until(next) => {}
                () = self.0.wanted.notified() => read_at = read_at.min(Instant::now() + RETRY_AFTER),
                () = self.0.urgent.notified() => read_at = read_at.min(ended_at + URGENT_AFTER),
            }
        }
    }

    /// Reads once, and returns the pause until the next reading. `None` while the tokio runtime is shutting down.
    async fn read(&self, module: Option<u64>) -> Option<Duration> {
        let before = self.0.latest.borrow().clone();
        let reader = self.0.reader.clone();
        let reading = spawn_blocking(move || reader.read(&before, module)).await;
        let (now, health) = reading.ok()?;
        let pause = match now.no_driver {
            Some(_) => RETRY_AFTER,
            None => READ_EVERY,
        };
        self.0.health.send_replace(Some(Arc::new(health)));
        self.0.latest.send_if_modified(|latest| {
            let is_new = *latest != now;
            *latest = now;
            is_new
        });
        Some(pause)
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
            instances: compute_instances(&driver),
        }
    }

    /// What is known of the GPUs after a reading. Blocks for as long as the driver does.
    fn read(&self, before: &NodeGpus, module: Option<u64>) -> (NodeGpus, HealthReading) {
        let begun_at = health_reading::now();
        let inventory = read(&self.sources);
        let (host, problems) = self.host(&inventory);
        let gpus = before.next(&inventory, host, problems);
        (gpus, HealthReading::new(&inventory, module, begun_at))
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

/// The directories of compute instances: `capabilities/gpu0/mig/gi1/ci0`.
// req: GPU-50
fn compute_instances(driver: &Path) -> Vec<PathBuf> {
    let below = |dir: &Path, prefix: &str| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let has_prefix = |name: &std::ffi::OsStr| name.as_bytes().starts_with(prefix.as_bytes());
        let entries = entries.filter(|it| has_prefix(&it.file_name()));
        entries.map(|it| it.path()).collect()
    };
    let gpus = below(&driver.join("capabilities"), "gpu");
    let instances = gpus.iter().flat_map(|gpu| below(&gpu.join("mig"), "gi"));
    let mut found: Vec<_> = instances.flat_map(|it| below(&it, "ci")).collect();
    found.sort();
    found
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
        let monitor = GpuMonitor::with(reader);
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

    // req: GPU-50
    #[test]
    fn a_changed_mig_layout_is_noticed_at_the_next_look() {
        let root = tempfile::tempdir().unwrap();
        let host = MockHost::new(root.path(), &mk_inventory(), library());
        let reader = reader(root.path(), &host, "/hook");
        let before = reader.look();
        let mig = "proc/driver/nvidia/capabilities/gpu0/mig";
        host.write(&format!("{mig}/config"), "");
        host.write(&format!("{mig}/gi1/access"), "");
        assert_eq!(reader.look(), before, "nothing that a claim can have");
        host.write(&format!("{mig}/gi1/ci0/access"), "");
        let one = reader.look();
        assert_ne!(one, before);
        host.write(&format!("{mig}/gi2/ci0/access"), "");
        assert_ne!(reader.look(), one);
        host.remove(&format!("{mig}/gi2"));
        assert_eq!(reader.look(), one);
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
