//! The devices of a spec for GPUs.

use std::collections::BTreeMap;
use std::path::Path;

use dra_common::error_chain;
use gpu_inventory::{GpuFacts, Inventory, MissingNode, Node, gpu_nodes, mig_nodes};
use imex_cdi::{ContainerEdits, Device, DeviceName, DeviceNode, DeviceType, Hook};

use crate::outcome::{Failure, Outcome};

/// The device with all GPUs.
const ALL: &str = "all";

/// The mode that the driver gives its nodes.
const MODE: u32 = 0o666;

/// Each GPU by index and UUID, each MIG device by GPU:INDEX and UUID, and all of them. A GPU with MIG mode has only its
/// MIG devices. GPUs that NVML does not enumerate have none, except where NVML was not read.
pub(super) fn devices(
    inventory: &Inventory,
    proc: &Path,
    hook: &Path,
) -> Result<Vec<Device>, Failure> {
    let nvml_was_read = inventory.gpus.iter().any(|gpu| gpu.index.known().is_some());
    let mut devices = Vec::new();
    let mut all = ContainerEdits::default();
    for gpu in &inventory.gpus {
        if gpu.minor.known().is_none() || (nvml_was_read && gpu.index.known().is_none()) {
            continue;
        }
        for (names, edits) in devices_of(inventory, gpu, proc, hook)? {
            merge(&mut all, &edits);
            for name in names {
                devices.push(device(&name, edits.clone())?);
            }
        }
    }
    if !devices.is_empty() {
        devices.push(device(ALL, all)?);
    }
    Ok(devices)
}

/// The names and edits of the devices of one GPU.
fn devices_of(
    inventory: &Inventory,
    gpu: &GpuFacts,
    proc: &Path,
    hook: &Path,
) -> Result<Vec<(Vec<String>, ContainerEdits)>, Failure> {
    let host = &inventory.host;
    let nodes = gpu_nodes(host, gpu).map_err(|error| missing(&error))?;
    let index = gpu
        .index
        .known()
        .or_else(|| gpu.minor.known())
        .copied()
        .unwrap_or(0);
    let Some(mig) = gpu.mig.known().filter(|mig| mig.enabled) else {
        let names = [index.to_string()]
            .into_iter()
            .chain(gpu.uuid.known().cloned());
        let edits = ContainerEdits {
            device_nodes: nodes.iter().map(cdi_node).collect(),
            hooks: by_path_links(gpu, hook).into_iter().collect(),
            ..ContainerEdits::default()
        };
        return Ok(vec![(names.collect(), edits)]);
    };
    let minor = gpu.minor.known().copied().unwrap_or(0);
    let mut devices = Vec::new();
    for (number, device) in mig.devices.iter().enumerate() {
        let Some(device) = device.known() else {
            continue;
        };
        let capabilities = mig_nodes(host, proc, minor, device).map_err(|error| missing(&error))?;
        let own = nodes.iter().take(1).chain(&capabilities);
        let edits = ContainerEdits {
            device_nodes: own.map(cdi_node).collect(),
            ..ContainerEdits::default()
        };
        devices.push((
            vec![format!("{index}:{number}"), device.uuid.clone()],
            edits,
        ));
    }
    Ok(devices)
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

/// The runtime makes the node from its numbers: the host needs none.
// req: GPU-11
pub(super) fn cdi_node(node: &Node) -> DeviceNode {
    DeviceNode {
        path: node.path.clone(),
        device_type: Some(DeviceType::Char),
        major: Some(node.major.into()),
        minor: Some(node.minor.into()),
        file_mode: Some(MODE),
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
