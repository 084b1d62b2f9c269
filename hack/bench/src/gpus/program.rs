//! A measured program, and its mock hosts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use gpu_inventory::{Fact, Inventory};
use mock_host::{MockHost, repeated};
use serde_json::json;

use super::objects::DRIVER;
use crate::accounts::Account;
use crate::plugin::Plugin;

const H100: &str = include_str!("../../../../dra-shim/gpu/inventory/tests/inventories/h100.json");

/// The number of GPUs in a usual host, which is that of the inventory.
pub(super) const GPUS: usize = 8;
/// The number of GPUs in a host for many claims.
pub(super) const MANY_GPUS: usize = 72;

/// The options of a plugin that follows the health of GPUs and publishes them for several claims.
const MONITORED: [&str; 2] = [
    "--feature-gates=NVMLDeviceHealthCheck=true,ConsumableShares=true",
    "--consumable-shares=10",
];

/// The recovery action of a GPU that needs a reset.
const RESET: u32 = 1;

/// Never run: no container starts.
const HOOK: &str = "/usr/bin/nvidia-cdi-hook";

pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) path: PathBuf,
    node: String,
    kubeconfig: PathBuf,
    /// Its hosts, in which the program may change files, and its output.
    dir: PathBuf,
    /// The usual one.
    host: MockHost,
}

// === impl Program ===

impl Program {
    /// Makes its hosts in `dir`.
    pub(super) fn new(
        name: &'static str,
        path: &Path,
        node: &str,
        account: &Account,
        dir: &Path,
    ) -> anyhow::Result<Self> {
        let dir = dir.join(name);
        host(&dir, MANY_GPUS)?;
        Ok(Self {
            name,
            path: path.to_owned(),
            node: node.to_owned(),
            kubeconfig: account.kubeconfig.clone(),
            host: host(&dir, GPUS)?,
            dir,
        })
    }

    /// Starts it on its host with this number of GPUs.
    pub(super) fn start(&self, gpus: usize) -> anyhow::Result<Plugin> {
        self.start_with(gpus, &[])
    }

    /// Starts it on its usual host with health checks and shares. Its GPUs need no reset.
    pub(super) fn start_monitored(&self) -> anyhow::Result<Plugin> {
        self.host.replace_inventory(&inventory(GPUS)?);
        self.start_with(GPUS, &MONITORED)
    }

    /// An XID of a GPU of its usual host. This GPU and those before need a reset.
    pub(super) fn xid(&self, gpu: usize) -> anyhow::Result<()> {
        let mut inventory = inventory(GPUS)?;
        for gpu in inventory.gpus.iter_mut().take(gpu + 1) {
            gpu.recovery_action = Fact::Known(RESET);
        }
        self.host.replace_inventory(&inventory);
        self.host.event(&json!({"gpu": gpu, "type": 8, "data": 79}));
        Ok(())
    }

    fn start_with(&self, gpus: usize, args: &[&str]) -> anyhow::Result<Plugin> {
        let host = host_dir(&self.dir, gpus);
        let mut command = Command::new(&self.path);
        command.args(args);
        for (option, path) in [
            ("--nvidia-driver-root", host.clone()),
            ("--container-driver-root", host.clone()),
            ("--gpu-proc-path", host.join("proc")),
            ("--gpu-sys-path", host.join("sys")),
            ("--nvidia-cdi-hook-path", HOOK.into()),
        ] {
            command.arg(option).arg(path);
        }
        command.env("KUBECONFIG", &self.kubeconfig);
        Plugin::start(DRIVER, command, &self.node, &self.dir.join("log"))
    }
}

fn host_dir(dir: &Path, gpus: usize) -> PathBuf {
    dir.join(format!("host-{gpus}"))
}

fn host(dir: &Path, gpus: usize) -> anyhow::Result<MockHost> {
    let dir = host_dir(dir, gpus);
    fs::create_dir_all(&dir)?;
    let nvml = std::env::current_exe()?.with_file_name("libnvml_mock.so");
    let inventory = inventory(gpus)?;
    let version = inventory.driver.module.known();
    let version = version.context("the inventory has no driver version")?;
    let host = MockHost::new(&dir, &inventory, &nvml);
    // No container starts, so any file will do for libcuda.
    host.install_cuda(&nvml, version);
    Ok(host)
}

/// A host with this number of H100.
fn inventory(gpus: usize) -> anyhow::Result<Inventory> {
    Ok(repeated(&serde_json::from_str(H100)?, gpus.try_into()?))
}
