//! The memory of the example driver, in its own process.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use serde_json::json;

use super::api;
use super::claim::{AT_ONCE, at_once, prepare};
use crate::dra_caller::{Caller, service_socket};
use crate::table::verdict;
use crate::{kubeconfig, proc};

/// The limit for the example's anonymous memory.
const AIM_KIB: u64 = 6 * 1024;
/// The example opens its sockets within milliseconds.
const GIVE_UP: Duration = Duration::from_secs(20);

/// `RssAnon` in KiB.
pub(super) struct Memory {
    at_start: u64,
    one_by_one: u64,
    at_once: u64,
}

impl Memory {
    /// Runs `examples/echo` from this program's directory with an API server in this process.
    pub(super) async fn of_the_example() -> anyhow::Result<Self> {
        let api = api::serve().await?;
        let root = tempfile::tempdir()?;
        let kubeconfig = root.path().join("kubeconfig.json");
        let cluster = json!({"server": format!("http://{api}")});
        kubeconfig::write(&kubeconfig, &cluster, &json!({}))?;
        let driver = Running::start(root.path(), &kubeconfig)?;
        let caller = Caller::connect(&driver.socket(root.path()).await?).await?;
        let at_start = driver.anonymous_kib()?;
        for number in 0..AT_ONCE {
            prepare(&caller, number).await?;
        }
        let one_by_one = driver.anonymous_kib()?;
        at_once(&caller, AT_ONCE).await?;
        Ok(Self {
            at_start,
            one_by_one,
            at_once: driver.anonymous_kib()?,
        })
    }

    pub(super) fn write(&self, out: &mut impl Write) -> anyhow::Result<()> {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let mib = |kib: u64| format!("{:.2}", kib as f64 / 1024.0);
        writeln!(
            out,
            "Anonymous memory of examples/echo, MiB; its API server speaks plain HTTP\n\n\
             | at start | after {AT_ONCE} Prepares | after {AT_ONCE} more, at once | aim | |\n\
             |--:|--:|--:|--:|---|\n\
             | {} | {} | {} | {} | {} |",
            mib(self.at_start),
            mib(self.one_by_one),
            mib(self.at_once),
            mib(AIM_KIB),
            verdict(self.one_by_one.max(self.at_once) <= AIM_KIB),
        )?;
        Ok(())
    }
}

/// The running example. Dropping it kills the process.
struct Running(Child);

impl Running {
    fn start(root: &Path, kubeconfig: &Path) -> anyhow::Result<Self> {
        let own = std::env::current_exe()?;
        let built = own
            .parent()
            .context("this program has no parent directory")?;
        let program = built.join("examples/echo");
        let child = Command::new(&program)
            .args(["--node-name", "node-1", "--kubeconfig"])
            .arg(kubeconfig)
            .arg("--kubelet-root")
            .arg(root)
            .arg("--cdi-dir")
            .arg(root.join("cdi"))
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self(child))
    }

    async fn socket(&self, root: &Path) -> anyhow::Result<std::path::PathBuf> {
        let data = root.join("plugins/echo.example.com");
        let opened = async {
            loop {
                if let Some(socket) = service_socket(&data) {
                    return socket;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let opened = tokio::time::timeout(GIVE_UP, opened).await;
        opened.context("the example has not opened a service socket")
    }

    fn anonymous_kib(&self) -> anyhow::Result<u64> {
        proc::anonymous_kib(self.0.id())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if it has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
