//! A node: its directories, its driver, its kubelet, the plugin's process, and the API server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use dra_checkpoint::LOCK_FILE;
use dra_kubelet::testing::{Answers, CallError, FakeKubelet, Options, Times};
use dra_kubelet::{ClaimRef, PreparedDevice};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::api::{ApiServer, NODE};
use crate::driver_root;
use crate::ground::Ground;
use crate::kept::Kept;
use crate::plugin::Plugin;

const DRIVER: &str = "compute-domain.nvidia.com";

/// kubelet's 45 s, shortened, because a failing call takes this long. Long enough for a successful call on a busy
/// machine.
pub(crate) const CALL: Duration = Duration::from_secs(10);

/// Log texts of a plugin that is ready to work.
const READY: [&str; 3] = [
    "registered with kubelet",
    "checkpoint open",
    "identified fabric clique",
];

/// A node named [`NODE`]. Dropping it kills the plugin.
pub(crate) struct Node {
    dir: TempDir,
    pub(crate) api: ApiServer,
    pub(crate) kubelet: FakeKubelet,
    pub(crate) plugin: Plugin,
    starts: u32,
    /// The plugin's boot ID, if it is not the machine's.
    boot: Option<String>,
    /// Further arguments of the plugin.
    arguments: Vec<String>,
}

impl Node {
    /// A node with a ready plugin, and claims `a` and `b` for the same device.
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Like [`start`](Self::start), with further arguments.
    pub(crate) async fn start_with(arguments: &[&str]) -> Self {
        let mut node = Self::start_early(arguments, driver_root::HEALTHY, &[]).await;
        node.until_ready().await;
        node
    }

    /// Like [`start_with`](Self::start_with), with the driver in this state and the plugin started by
    /// `wrapper`. Does not wait until the plugin is ready.
    pub(crate) async fn start_early(arguments: &[&str], driver: &str, wrapper: &[String]) -> Self {
        Self::start_on(Ground::new().await, arguments, driver, wrapper)
    }

    /// Like [`start_early`](Self::start_early), on a node that another driver has used.
    pub(crate) fn start_on(
        ground: Ground,
        arguments: &[&str],
        driver: &str,
        wrapper: &[String],
    ) -> Self {
        let Ground { dir, api, boot } = ground;
        driver_root::configure(&dir.path().join("driver"), driver);
        let options = Options {
            times: Times {
                call: CALL,
                ..Times::fast()
            },
            ..Options::default()
        };
        let kubelet = FakeKubelet::start(dir.path(), options).unwrap();
        let arguments: Vec<_> = arguments.iter().map(|&it| it.to_owned()).collect();
        let boot_file = boot.as_ref().map(|_| dir.path().join("boot_id"));
        let command = command(dir.path(), boot_file.as_deref(), &arguments, wrapper);
        let plugin = Plugin::start(command, &dir.path().join("plugin-1.log"));
        Self {
            dir,
            api,
            kubelet,
            plugin,
            starts: 1,
            boot,
            arguments,
        }
    }

    /// Restarts the dead plugin with `wrapper`.
    pub(crate) fn restart_below(&mut self, wrapper: &[String]) {
        assert!(self.plugin.has_died());
        self.starts += 1;
        let log = self.path(&format!("plugin-{}.log", self.starts));
        let boot = self.boot.as_ref().map(|_| self.path("boot_id"));
        let command = command(self.dir.path(), boot.as_deref(), &self.arguments, wrapper);
        self.plugin = Plugin::start(command, &log);
    }

    pub(crate) fn restart(&mut self) {
        self.restart_below(&[]);
    }

    pub(crate) fn kill(&mut self) {
        self.plugin.kill();
    }

    /// Kills the plugin and starts it in another boot. The CDI directory is usually on a tmpfs.
    pub(crate) async fn reboot(&mut self, boot: &str, loses_cdi: bool) {
        self.kill();
        self.kubelet.stop().await;
        fs::write(self.path("boot_id"), format!("{boot}\n")).unwrap();
        self.boot = Some(boot.to_owned());
        if loses_cdi {
            fs::remove_dir_all(self.cdi()).unwrap();
        }
        self.restart();
        self.kubelet.restart().await.unwrap();
    }

    pub(crate) async fn until_ready(&mut self) {
        self.plugin.until_printed(&READY).await;
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The directory of checkpoint, lock and sockets.
    pub(crate) fn data(&self) -> PathBuf {
        self.path("plugins").join(DRIVER)
    }

    pub(crate) fn cdi(&self) -> PathBuf {
        self.path("cdi")
    }

    pub(crate) fn lock_file(&self) -> PathBuf {
        self.data().join(LOCK_FILE)
    }

    pub(crate) fn configure_driver(&self, driver: &str) {
        driver_root::configure(&self.path("driver"), driver);
    }

    /// One call of kubelet.
    pub(crate) async fn prepare(&self, claim: &ClaimRef) -> Result<Vec<PreparedDevice>, String> {
        let answers = self.kubelet.prepare(DRIVER, std::slice::from_ref(claim));
        one(answers.await, claim)
    }

    /// One call of kubelet.
    pub(crate) async fn unprepare(&self, claim: &ClaimRef) -> Result<(), String> {
        let answers = self.kubelet.unprepare(DRIVER, std::slice::from_ref(claim));
        one(answers.await, claim).map(drop)
    }

    /// Repeats kubelet's call until one succeeds, within `limit`.
    pub(crate) async fn until_prepared(
        &self,
        claim: &ClaimRef,
        limit: Duration,
    ) -> Vec<PreparedDevice> {
        let began = Instant::now();
        loop {
            match self.prepare(claim).await {
                Ok(devices) => return devices,
                Err(error) => self.check_time(began, limit, &error),
            }
            sleep(PAUSE).await;
        }
    }

    /// Repeats kubelet's call until one succeeds, within `limit`.
    pub(crate) async fn until_unprepared(&self, claim: &ClaimRef, limit: Duration) {
        let began = Instant::now();
        while let Err(error) = self.unprepare(claim).await {
            self.check_time(began, limit, &error);
            sleep(PAUSE).await;
        }
    }

    fn check_time(&self, began: Instant, limit: Duration, error: &str) {
        let is_over = began.elapsed() > limit;
        let printed = || self.plugin.printed();
        assert!(!is_over, "not within {limit:?}: {error}\n{}", printed());
    }

    /// The node's files on disk.
    pub(crate) fn kept(&self) -> Kept {
        Kept::read(&self.data(), &self.cdi())
    }
}

/// kubelet's pause of 60 s to 90 s after a failure, shortened.
const PAUSE: Duration = Duration::from_millis(300);

/// A claim whose name is the first part of its UID.
pub(crate) fn claim(uid: &str) -> ClaimRef {
    let name = uid.split('-').next().unwrap_or(uid);
    ClaimRef {
        namespace: "ns".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
    }
}

fn one(
    answers: Result<Answers, CallError>,
    claim: &ClaimRef,
) -> Result<Vec<PreparedDevice>, String> {
    let mut answers = answers.map_err(|error| error.to_string())?;
    answers.remove(&claim.uid).unwrap()
}

/// The plugin's command line. Each program in front of it execs the next one.
fn command(dir: &Path, boot: Option<&Path>, arguments: &[String], wrapper: &[String]) -> Command {
    let path = |name: &str| dir.join(name).into_os_string().into_string().unwrap();
    let mut words = Vec::new();
    if let Some(boot) = boot {
        let mount = r#"mount --bind "$1" /proc/sys/kernel/random/boot_id && shift && exec "$@""#;
        words.extend(["unshare", "--mount", "sh", "-c", mount, "sh"].map(str::to_owned));
        words.push(boot.to_str().unwrap().to_owned());
    }
    words.extend_from_slice(wrapper);
    words.push(env!("CARGO_BIN_EXE_compute-domain-kubelet-plugin").to_owned());
    words.extend([
        format!("--node-name={NODE}"),
        "--feature-gates=HostManagedIMEX=true".to_owned(),
        format!("--kubelet-root={}", dir.to_str().unwrap()),
        format!("--cdi-root={}", path("cdi")),
        format!("--container-driver-root={}", path("driver")),
        format!("--container-host-root={}", path("host")),
        format!("--alt-proc-devices-path={}", path("driver/proc-devices")),
        format!("--kubeconfig={}", path("kubeconfig")),
    ]);
    words.extend_from_slice(arguments);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}
