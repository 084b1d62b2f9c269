//! The devices of a spec for GPUs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use dra_common::error_chain;
use gpu_inventory::published::identity;
use gpu_inventory::{Fact, GpuFacts, Inventory, MigFacts, MissingNode, Node, gpu_nodes, mig_nodes};
use imex_cdi::{ContainerEdits, Device, DeviceName, DeviceNode, DriverParams};
use nvidia_driver_files::RuntimePaths;

use crate::outcome::{Failure, Outcome};

/// The device with all GPUs.
const ALL: &str = "all";

/// The devices of a host.
#[derive(Debug)]
pub(super) struct Devices {
    pub(super) devices: Vec<Device>,
    /// GPUs and MIG devices without a device, with the reason and the fix. Those whose facts cannot be read are not
    /// among them: the inventory has the failures.
    pub(super) left_out: Vec<String>,
}

/// What the devices are made of.
pub(super) struct DeviceMaker<'a> {
    pub(super) inventory: &'a Inventory,
    pub(super) proc: &'a Path,
    pub(super) runtime: RuntimePaths<'a>,
    pub(super) params: DriverParams,
}

/// The names and edits of a device.
type Named = (Vec<String>, ContainerEdits);

// === impl DeviceMaker ===

impl DeviceMaker<'_> {
    // req: GPU-12
    /// Each GPU by NVML's index and UUID, each MIG device by GPU:INDEX and UUID, and all of them. Where NVML was not
    /// called, GPUs have no index. A GPU is left out if it cannot be identified, or if its MIG mode is unknown.
    pub(super) fn all(&self) -> Result<Devices, Failure> {
        let mut devices = Vec::new();
        let mut left_out = Vec::new();
        let mut names = BTreeSet::new();
        let mut all = ContainerEdits::default();
        for gpu in &self.inventory.gpus {
            let Ok((minor, uuid)) = identity(self.inventory, gpu) else {
                continue;
            };
            for (own, edits) in self.of_gpu(gpu, minor, uuid, &mut left_out)? {
                merge(&mut all, &edits);
                for name in own.into_iter().filter(|it| names.insert(it.clone())) {
                    devices.push(device(&name, edits.clone())?);
                }
            }
        }
        if !devices.is_empty() {
            devices.push(device(ALL, all)?);
        }
        Ok(Devices { devices, left_out })
    }

    // req: GPU-12
    fn of_gpu(
        &self,
        gpu: &GpuFacts,
        minor: u32,
        uuid: &str,
        left_out: &mut Vec<String>,
    ) -> Result<Vec<Named>, Failure> {
        let nvml_was_called = self.inventory.driver.gpu_count.known().is_some();
        match (gpu.index.known(), &gpu.mig) {
            (Some(index), Fact::Known(mig)) if mig.enabled => {
                Ok(self.of_mig(gpu, mig, *index, left_out))
            }
            (Some(index), Fact::Known(_) | Fact::Absent) => {
                let names = vec![index.to_string(), uuid.to_owned()];
                Ok(vec![(names, self.of_whole_gpu(gpu)?)])
            }
            (None, _) if !nvml_was_called && !self.has_mig_devices(minor) => {
                Ok(vec![(vec![uuid.to_owned()], self.of_whole_gpu(gpu)?)])
            }
            (None, _) if !nvml_was_called => {
                left_out.push(format!(
                    "GPU {uuid} has MIG devices, and is left out: only NVML, which is not called with --root, knows them; run cdi-gen generate gpu on the host"
                ));
                Ok(Vec::new())
            }
            // The failure is reported.
            _ => Ok(Vec::new()),
        }
    }

    fn of_whole_gpu(&self, gpu: &GpuFacts) -> Result<ContainerEdits, Failure> {
        let nodes = gpu_nodes(&self.inventory.host, gpu).map_err(|error| missing(&error))?;
        let graphics = gpu.pci.known().zip(gpu.drm.known());
        let hook = graphics.and_then(|(address, nodes)| {
            let names = nodes.iter().map(|node| node.name.as_str());
            self.runtime.by_path_hook(&address.to_string(), names)
        });
        Ok(ContainerEdits {
            device_nodes: cdi_nodes(&nodes, self.params),
            hooks: hook.into_iter().collect(),
            ..ContainerEdits::default()
        })
    }

    fn of_mig(
        &self,
        gpu: &GpuFacts,
        mig: &MigFacts,
        gpu_index: u32,
        left_out: &mut Vec<String>,
    ) -> Vec<Named> {
        let mut devices = Vec::new();
        for (index, device) in mig.devices.iter().enumerate() {
            let Some(device) = device.known() else {
                continue;
            };
            let nodes = match mig_nodes(&self.inventory.host, self.proc, gpu, device) {
                Ok(nodes) => nodes,
                Err(error) => {
                    left_out.push(format!(
                        "MIG device {} is left out: {}; {}",
                        device.uuid,
                        error_chain(&error),
                        missing_hint(&error)
                    ));
                    continue;
                }
            };
            let edits = ContainerEdits {
                device_nodes: cdi_nodes(&nodes, self.params),
                ..ContainerEdits::default()
            };
            devices.push((
                vec![format!("{gpu_index}:{index}"), device.uuid.clone()],
                edits,
            ));
        }
        devices
    }

    /// Whether the driver has capabilities of MIG devices of a GPU.
    fn has_mig_devices(&self, minor: u32) -> bool {
        let mig = format!("driver/nvidia/capabilities/gpu{minor}/mig");
        let entries = fs::read_dir(self.proc.join(mig)).into_iter().flatten();
        let names = entries.flatten().map(|entry| entry.file_name());
        names
            .into_iter()
            .any(|name| name.as_encoded_bytes().starts_with(b"gi"))
    }
}

fn merge(all: &mut ContainerEdits, edits: &ContainerEdits) {
    for node in &edits.device_nodes {
        if !all.device_nodes.contains(node) {
            all.device_nodes.push(node.clone());
        }
    }
    all.hooks.extend(edits.hooks.iter().cloned());
}

pub(super) fn cdi_nodes(nodes: &[Node], params: DriverParams) -> Vec<DeviceNode> {
    let nodes = nodes.iter();
    nodes
        .map(|it| params.device_node(&it.path, it.major, it.minor))
        .collect()
}

fn device(name: &str, container_edits: ContainerEdits) -> Result<Device, Failure> {
    let name = DeviceName::new(name)
        .map_err(|error| Failure::new(Outcome::Findings, error.to_string()).hint(error.hint()))?;
    Ok(Device {
        name,
        annotations: BTreeMap::new(),
        container_edits,
    })
}

pub(super) fn missing(error: &MissingNode) -> Failure {
    Failure::new(Outcome::Findings, error_chain(error)).hint(missing_hint(error))
}

fn missing_hint(error: &MissingNode) -> &'static str {
    match error {
        MissingNode::NoMajor { .. } => {
            "load the driver's modules: modprobe nvidia; nvidia-modprobe -u"
        }
        _ => "run cdi-gen gpus; create the MIG device again if its capability is missing",
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use mock_host::MockHost;

    use super::*;

    /// The names of the devices of a host, and what is left out.
    fn made(inventory: &Inventory, change: impl FnOnce(&MockHost)) -> (Vec<String>, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        // No library is called.
        let host = MockHost::new(dir.path(), inventory, &file());
        change(&host);
        let made = DeviceMaker {
            inventory,
            proc: &host.path("proc"),
            runtime: RuntimePaths {
                driver_root: "/",
                hook: "/hook",
            },
            params: DriverParams::default(),
        };
        let Devices { devices, left_out } = made.all().unwrap();
        let names = devices.iter().map(|it| it.name.to_string());
        (names.collect(), left_out)
    }

    fn file() -> PathBuf {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dra-shim/gpu/inventory");
        dir.join("tests/inventories/h100-mig.json")
    }

    fn h100_mig() -> Inventory {
        serde_json::from_slice(&fs::read(file()).unwrap()).unwrap()
    }

    // req: GPU-12
    #[test]
    fn a_mig_device_is_named_by_nvmls_index() {
        let mut inventory = h100_mig();
        let Fact::Known(mig) = &mut inventory.gpus[0].mig else {
            panic!("MIG is on");
        };
        mig.devices[1] = Fact::Absent;
        let (names, left_out) = made(&inventory, |_| {});
        let by_index: Vec<_> = names.iter().filter(|it| it.contains(':')).collect();
        assert_eq!(by_index, ["0:0", "0:2", "0:3", "0:4"]);
        assert_eq!(left_out, [""; 0]);
    }

    // req: GPU-11
    #[test]
    fn a_mig_device_without_a_capability_is_left_out_with_the_reason_and_the_fix() {
        let (names, left_out) = made(&h100_mig(), |host| {
            host.remove("proc/driver/nvidia/capabilities/gpu0/mig/gi8");
        });
        assert!(!names.contains(&"0:1".to_owned()), "{names:?}");
        assert!(names.contains(&"0:2".to_owned()), "{names:?}");
        assert_eq!(left_out.len(), 1);
        let start = "MIG device MIG-00000000-0000-5000-8000-000000000002 is left out: cannot read ";
        assert!(left_out[0].starts_with(start), "{left_out:?}");
        let fix = "; run cdi-gen gpus; create the MIG device again if its capability is missing";
        assert!(left_out[0].ends_with(fix), "{left_out:?}");
    }
}
