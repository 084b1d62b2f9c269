//! The devices of a spec for GPUs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use dra_common::error_chain;
use gpu_inventory::published::identity;
use gpu_inventory::{Fact, GpuFacts, Inventory, MigFacts, MissingNode, Node, gpu_nodes, mig_nodes};
use imex_cdi::{ContainerEdits, Device, DeviceName, DeviceNode, DeviceType, DriverParams, Hook};

use crate::outcome::{Failure, Outcome};
use crate::terminal::note;

/// The device with all GPUs.
const ALL: &str = "all";

/// The mode that the driver gives its nodes.
const MODE: u32 = 0o666;
const CAPABILITY_MODE: u32 = 0o444;

/// What the devices are made of.
pub(super) struct Devices<'a> {
    inventory: &'a Inventory,
    proc: &'a Path,
    hook: &'a Path,
    params: DriverParams,
}

/// The names and edits of a device.
type Named = (Vec<String>, ContainerEdits);

// === impl Devices ===

impl<'a> Devices<'a> {
    pub(super) fn new(
        inventory: &'a Inventory,
        proc: &'a Path,
        hook: &'a Path,
        params: DriverParams,
    ) -> Self {
        Self {
            inventory,
            proc,
            hook,
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
            (Some(index), Fact::Known(mig)) if mig.enabled => self.of_mig(gpu, mig, minor, *index),
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
        Ok(ContainerEdits {
            device_nodes: nodes.iter().map(|it| cdi_node(it, self.params)).collect(),
            hooks: by_path_links(gpu, self.hook).into_iter().collect(),
            ..ContainerEdits::default()
        })
    }

    fn of_mig(
        &self,
        gpu: &GpuFacts,
        mig: &MigFacts,
        minor: u32,
        index: u32,
    ) -> Result<Vec<Named>, Failure> {
        let host = &self.inventory.host;
        let nodes = gpu_nodes(host, gpu).map_err(|error| missing(&error))?;
        let mut devices = Vec::new();
        for (number, device) in mig.devices.iter().enumerate() {
            let Some(device) = device.known() else {
                continue;
            };
            let capabilities = match mig_nodes(host, self.proc, minor, device) {
                Ok(capabilities) => capabilities,
                Err(error) => {
                    let failure = missing(&error);
                    note(&format!(
                        "MIG device {} is left out: {}",
                        device.uuid, failure.message
                    ));
                    continue;
                }
            };
            let own = nodes.iter().take(1).chain(&capabilities);
            let edits = ContainerEdits {
                device_nodes: own.map(|it| cdi_node(it, self.params)).collect(),
                ..ContainerEdits::default()
            };
            devices.push((
                vec![format!("{index}:{number}"), device.uuid.clone()],
                edits,
            ));
        }
        Ok(devices)
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

/// Programs find the nodes of graphics by the GPU's address.
fn by_path_links(gpu: &GpuFacts, hook: &Path) -> Option<Hook> {
    let address = gpu.pci.known()?;
    let mut args = ["nvidia-cdi-hook", "create-symlinks"]
        .map(str::to_owned)
        .to_vec();
    for node in gpu.drm.known()? {
        let kind = node.name.trim_end_matches(|c: char| c.is_ascii_digit());
        let kind = kind.trim_end_matches('D');
        args.extend([
            "--link".to_owned(),
            format!("../{}::/dev/dri/by-path/pci-{address}-{kind}", node.name),
        ]);
    }
    (args.len() > 2).then(|| Hook {
        hook_name: "createContainer".to_owned(),
        path: hook.to_string_lossy().into_owned(),
        args,
        ..Hook::default()
    })
}

fn merge(all: &mut ContainerEdits, edits: &ContainerEdits) {
    for node in &edits.device_nodes {
        if !all.device_nodes.contains(node) {
            all.device_nodes.push(node.clone());
        }
    }
    all.hooks.extend(edits.hooks.iter().cloned());
}

/// The runtime makes the node from its numbers: the host needs none. Owner and mode of the driver's nodes are those of
/// its parameters.
// req: GPU-11
pub(super) fn cdi_node(node: &Node, params: DriverParams) -> DeviceNode {
    let is_drivers = node.path.starts_with("/dev/nvidia");
    let mode = match node.path.starts_with("/dev/nvidia-caps/") {
        true => CAPABILITY_MODE,
        false if is_drivers => params.device_file_mode.unwrap_or(MODE),
        false => MODE,
    };
    let params = if is_drivers {
        params
    } else {
        DriverParams::default()
    };
    DeviceNode {
        path: node.path.clone(),
        device_type: Some(DeviceType::Char),
        major: Some(node.major.into()),
        minor: Some(node.minor.into()),
        file_mode: Some(mode),
        uid: params.device_file_uid,
        gid: params.device_file_gid,
        ..DeviceNode::default()
    }
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
