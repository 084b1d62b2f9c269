//! A measured program, and its mock hosts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use gpu_inventory::Inventory;
use mock_host::{MockHost, repeated};

use super::objects::DRIVER;
use crate::accounts::Account;
use crate::plugin::Plugin;

const H100: &str = include_str!("../../../../dra-shim/gpu/inventory/tests/inventories/h100.json");

/// The number of GPUs in a usual host, which is that of the inventory.
pub(super) const GPUS: usize = 8;
/// The number of GPUs in a host for many claims.
pub(super) const MANY_GPUS: usize = 72;

/// Never run: no container starts.
const HOOK: &str = "/usr/bin/nvidia-cdi-hook";

pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) path: PathBuf,
    node: String,
    kubeconfig: PathBuf,
    /// Its hosts, in which the program may change files, and its output.
    dir: PathBuf,
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
        let nvml = std::env::current_exe()?.with_file_name("libnvml_mock.so");
        let program = Self {
            name,
            path: path.to_owned(),
            node: node.to_owned(),
            kubeconfig: account.kubeconfig.clone(),
            dir: dir.join(name),
        };
        for gpus in [GPUS, MANY_GPUS] {
            let host = program.host(gpus);
            fs::create_dir_all(&host)?;
            let inventory = inventory(gpus)?;
            let version = inventory.driver.module.known();
            let version = version.context("the inventory has no driver version")?;
            // No container starts, so any file will do for libcuda.
            MockHost::new(&host, &inventory, &nvml).install_cuda(&nvml, version);
        }
        Ok(program)
    }

    /// Starts it on its host with this number of GPUs.
    pub(super) fn start(&self, gpus: usize) -> anyhow::Result<Plugin> {
        let host = self.host(gpus);
        let mut command = Command::new(&self.path);
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

    fn host(&self, gpus: usize) -> PathBuf {
        self.dir.join(format!("host-{gpus}"))
    }
}

/// A host with this number of H100.
fn inventory(gpus: usize) -> anyhow::Result<Inventory> {
    Ok(repeated(&serde_json::from_str(H100)?, gpus.try_into()?))
}
