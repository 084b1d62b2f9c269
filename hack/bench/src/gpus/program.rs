//! A measured program, and its mock hosts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use gpu_inventory::{Fact, GpuFacts, Inventory};
use mock_host::MockHost;

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

/// A host with this number of H100. Those of the model are repeated in other PCI domains.
fn inventory(gpus: usize) -> anyhow::Result<Inventory> {
    let mut inventory: Inventory = serde_json::from_str(H100)?;
    let models = inventory.gpus;
    let numbered = (0..gpus).zip(models.iter().cycle());
    let numbered = numbered.map(|(number, model)| mk_gpu(number, number / models.len(), model));
    inventory.gpus = numbered.collect::<anyhow::Result<_>>()?;
    inventory.driver.gpu_count = Fact::Known(gpus.try_into()?);
    Ok(inventory)
}

fn mk_gpu(number: usize, domain: usize, model: &GpuFacts) -> anyhow::Result<GpuFacts> {
    let in_domain = |text: String| text.replacen("0000:", &format!("{domain:04x}:"), 1);
    let address = model.pci.known().context("a model without a PCI address")?;
    let root = model.pcie_root.known().context("a model without a root")?;
    let index = number.try_into()?;
    Ok(GpuFacts {
        pci: Fact::Known(in_domain(address.to_string()).parse()?),
        pcie_root: Fact::Known(in_domain(root.clone())),
        index: Fact::Known(index),
        minor: Fact::Known(index),
        module_id: Fact::Known(index + 1),
        uuid: Fact::Known(format!("GPU-00000000-0000-4000-8000-{number:012x}")),
        ..model.clone()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_first_gpus_are_those_of_the_model_and_all_are_different() {
        let model: Inventory = serde_json::from_str(H100).unwrap();
        assert_eq!(inventory(GPUS).unwrap(), model);
        let many = inventory(MANY_GPUS).unwrap();
        assert_eq!(many.gpus[..GPUS], model.gpus);
        let pci: BTreeSet<_> = many.gpus.iter().filter_map(|gpu| gpu.pci.known()).collect();
        let uuids: BTreeSet<_> = many
            .gpus
            .iter()
            .filter_map(|gpu| gpu.uuid.known())
            .collect();
        assert_eq!((pci.len(), uuids.len()), (MANY_GPUS, MANY_GPUS));
    }
}
