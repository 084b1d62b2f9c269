//! Control of a cluster component from inside the cluster, through the state directory of
//! `hack/cluster.sh`: the script's own commands work only from outside.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::until;

/// The admin's kubeconfig: the `KUBECONFIG` of every process inside the cluster.
///
/// # Errors
/// If this process is not inside.
pub fn admin_kubeconfig() -> Result<PathBuf> {
    let config = std::env::var_os("KUBECONFIG").context("no KUBECONFIG")?;
    Ok(PathBuf::from(config))
}

/// The cluster's state directory, with the admin's kubeconfig in it (`kubeconfig/admin`).
///
/// # Errors
/// If `KUBECONFIG` is not that of a process inside the cluster.
pub fn state_directory() -> Result<PathBuf> {
    let config = admin_kubeconfig()?;
    let state = config
        .ancestors()
        .nth(2)
        .context("KUBECONFIG is not a path of a test cluster")?;
    Ok(state.to_owned())
}

/// One component, such as `kubelet-1` or `apiserver`.
#[derive(Debug, Clone)]
pub struct Component {
    state: PathBuf,
    name: &'static str,
}

impl Component {
    /// The component of that name (`hack/cluster.sh` lists them).
    ///
    /// # Errors
    /// As [`state_directory`].
    pub fn of_cluster(name: &'static str) -> Result<Self> {
        let state = state_directory()?;
        Ok(Self { state, name })
    }

    /// The cluster's state directory.
    pub fn state_directory(&self) -> &Path {
        &self.state
    }

    /// Sends a signal, such as `STOP`, without waiting for its effect.
    ///
    /// # Errors
    /// If the request cannot be written.
    pub fn signal(&self, signal: &str) -> Result<()> {
        self.request(&format!("kill {} {signal}", self.name))
    }

    /// Sends SIGTERM and waits until the component has ended.
    ///
    /// # Errors
    /// As [`Component::signal`].
    pub async fn stop(&self) -> Result<()> {
        self.signal("TERM")?;
        self.until_state("exited").await;
        Ok(())
    }

    /// Starts it and waits until its process runs.
    ///
    /// # Errors
    /// As [`Component::signal`].
    pub async fn start(&self) -> Result<()> {
        self.request(&format!("start {}", self.name))?;
        self.until_state("running").await;
        Ok(())
    }

    /// Its output so far.
    pub fn log(&self) -> String {
        let path = self.state.join("log").join(format!("{}.log", self.name));
        String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
    }

    fn request(&self, line: &str) -> Result<()> {
        // Opened read-write, it does not wait for a reader.
        let mut control = OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.state.join("control"))?;
        Ok(writeln!(control, "{line}")?)
    }

    async fn until_state(&self, state: &str) {
        until(&format!("{} is {state}", self.name), async || {
            let now = fs::read_to_string(self.state.join("components").join(self.name))?;
            if !now.starts_with(state) {
                bail!("it is {now}");
            }
            Ok(())
        })
        .await;
    }
}
