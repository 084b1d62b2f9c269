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
use crate::terminal::note;

/// The device with all GPUs.
const ALL: &str = "all";

/// What the devices are made of.
pub(super) struct Devices<'a> {
    inventory: &'a Inventory,
    proc: &'a Path,
    runtime: RuntimePaths<'a>,
    params: DriverParams,
}

/// The names and edits of a device.
type Named = (Vec<String>, ContainerEdits);

// === impl Devices ===

impl<'a> Devices<'a> {
    pub(super) fn new(
        inventory: &'a Inventory,
        proc: &'a Path,
        runtime: RuntimePaths<'a>,
        params: DriverParams,
    ) -> Self {
        Self {
            inventory,
            proc,
            runtime,
            params,
        }
    }

    /// Each GPU by NVML's index and UUID, each MIG device by INDEX:NUMBER and UUID, and all of them. Where NVML was not
    /// called, GPUs have no index. A GPU is left out if it cannot be identified, or if its MIG mode is unknown.
    pub(super) fn all(&self) -> Result<Vec<Device>, Failure> {
        let mut devices = Vec::new();
        let mut names = BTreeSet::new();
        let mut all = ContainerEdits::default();
        for gpu in &self.inventory.gpus {
            let Ok((minor, uuid)) = identity(self.inventory, gpu) else {
                continue;
            };
            for (own, edits) in self.of_gpu(gpu, minor, uuid)? {
                merge(&mut all, &edits);
                for name in own.into_iter().filter(|it| names.insert(it.clone())) {
                    devices.push(device(&name, edits.clone())?);
                }
            }
        }
        if !devices.is_empty() {
            devices.push(device(ALL, all)?);
        }
        Ok(devices)
    }

    // req: GPU-12
    fn of_gpu(&self, gpu: &GpuFacts, minor: u32, uuid: &str) -> Result<Vec<Named>, Failure> {
        let nvml_was_called = self.inventory.driver.gpu_count.known().is_some();
        match (gpu.index.known(), &gpu.mig) {
            (Some(index), Fact::Known(mig)) if mig.enabled => Ok(self.of_mig(gpu, mig, *index)),
            (Some(index), Fact::Known(_) | Fact::Absent) => {
                let names = vec![index.to_string(), uuid.to_owned()];
                Ok(vec![(names, self.of_whole_gpu(gpu)?)])
            }
            (None, _) if !nvml_was_called && !self.has_mig_devices(minor) => {
                Ok(vec![(vec![uuid.to_owned()], self.of_whole_gpu(gpu)?)])
            }
            (None, _) if !nvml_was_called => {
                note(&format!(
                    "GPU {uuid} has MIG devices, and is left out: only NVML, which is not called with --root, knows them"
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

    fn of_mig(&self, gpu: &GpuFacts, mig: &MigFacts, index: u32) -> Vec<Named> {
        let mut devices = Vec::new();
        for (number, device) in mig.devices.iter().enumerate() {
            let Some(device) = device.known() else {
                continue;
            };
            let nodes = match mig_nodes(&self.inventory.host, self.proc, gpu, device) {
                Ok(nodes) => nodes,
                Err(error) => {
                    let failure = missing(&error);
                    note(&format!(
                        "MIG device {} is left out: {}",
                        device.uuid, failure.message
                    ));
                    continue;
                }
            };
            let edits = ContainerEdits {
                device_nodes: cdi_nodes(&nodes, self.params),
                ..ContainerEdits::default()
            };
            devices.push((
                vec![format!("{index}:{number}"), device.uuid.clone()],
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
    let hint = match error {
        MissingNode::NoMajor { .. } => {
            "load the driver's modules: modprobe nvidia; nvidia-modprobe -u"
        }
        _ => "run cdi-gen gpus; create the MIG device again if its capability is missing",
    };
    Failure::new(Outcome::Findings, error_chain(error)).hint(hint)
}
