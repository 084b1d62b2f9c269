//! The devices of a node: the hardware behind each name, and what a container gets of it.

use std::collections::BTreeMap;
use std::path::Path;

use dra_common::error_chain;
use gpu_inventory::published::{Attribute, Device, Published, published};
use gpu_inventory::{GpuFacts, Inventory, Node, common_nodes, gpu_nodes, mig_nodes};
use imex_cdi::{ClaimDevice, ClaimSpec, ContainerEdits, DeviceName, DriverParams};
use nvidia_driver_files::{DriverFiles, RuntimePaths};
use nvml_session::MigDevice;

use crate::error::PrepareError;
use crate::group::{GpuInfo, MigInfo};
use crate::unit::Unit;

/// Paths that a node's specs depend on.
#[derive(Debug, Clone, Copy)]
pub struct HostPaths<'a> {
    /// `/proc`, or a directory in its place.
    pub proc: &'a Path,
    /// Where the runtime finds the driver and the hook.
    pub runtime: RuntimePaths<'a>,
    /// The options of the kernel module.
    pub params: DriverParams,
}

/// The devices of a node at one moment. Equal facts give equal values.
#[derive(Debug, Clone, PartialEq)]
pub struct HostGpus {
    devices: BTreeMap<String, GivenDevice>,
    /// What every container gets, or why it cannot.
    common: Result<ContainerEdits, String>,
    /// Why other GPUs and MIG devices are not published, one line each.
    skipped: Vec<String>,
}

/// A device that a claim may get.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenDevice {
    /// The hardware.
    pub unit: Unit,
    pub(crate) identity: Identity,
    /// What a container gets of this device, or why it cannot.
    edits: Result<ContainerEdits, String>,
}

/// What the record has of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    Gpu(GpuInfo),
    Mig(MigInfo),
}

// === impl HostGpus ===

impl HostGpus {
    /// The devices that [`published`] derives from `inventory`. `files` are those of the driver, or why they cannot be
    /// found. Reads the capability files of MIG devices.
    pub fn new(
        inventory: &Inventory,
        files: Result<&DriverFiles, String>,
        paths: &HostPaths<'_>,
    ) -> Self {
        let Published { devices, skipped } = published(inventory);
        let devices = devices.into_iter().filter_map(|device| {
            let given = GivenDevice::new(inventory, &device, paths)?;
            Some((device.name, given))
        });
        Self {
            devices: devices.collect(),
            common: common_edits(inventory, files, paths),
            skipped: skipped
                .into_iter()
                .map(|it| format!("{}: {}", it.gpu, it.reason))
                .collect(),
        }
    }

    /// Why containers cannot have devices that are published, one line each.
    pub fn not_usable(&self) -> Vec<String> {
        if let Err(reason) = &self.common {
            return vec![format!("no container can have a GPU: {reason}")];
        }
        let devices = self.devices.iter();
        devices
            .filter_map(|(name, given)| {
                let reason = given.edits.as_ref().err()?;
                Some(format!("no container can have {name}: {reason}"))
            })
            .collect()
    }

    /// The device of this name.
    pub fn get(&self, name: &str) -> Option<&GivenDevice> {
        self.devices.get(name)
    }

    /// The device with this UUID, under any name.
    pub(crate) fn by_uuid(&self, uuid: &str) -> Option<&GivenDevice> {
        let mut devices = self.devices.values();
        devices.find(|device| device.identity.uuid() == uuid)
    }

    /// The device of this name, for a claim.
    pub(crate) fn require(&self, name: &str) -> Result<&GivenDevice, PrepareError> {
        self.get(name).ok_or_else(|| PrepareError::NoSuchDevice {
            device: name.to_owned(),
            reason: self.skipped.join("; "),
        })
    }

    /// The spec of a claim with these devices, by name. A device that is there twice is there once in the spec.
    ///
    /// # Errors
    /// A node or file is missing.
    // req: GPU-33
    pub(crate) fn claim_spec<'a>(
        &self,
        devices: impl Iterator<Item = (&'a str, &'a GivenDevice)>,
    ) -> Result<ClaimSpec, PrepareError> {
        let mut spec = ClaimSpec::default();
        for (name, given) in devices {
            let not_usable = |reason: &str| PrepareError::NotUsable {
                device: name.to_owned(),
                reason: reason.to_owned(),
            };
            let valid = DeviceName::new(name).map_err(|error| not_usable(&error.to_string()))?;
            if spec.devices.iter().any(|device| device.name == valid) {
                continue;
            }
            spec.common = self.common.clone().map_err(|reason| not_usable(&reason))?;
            spec.devices.push(ClaimDevice {
                name: valid,
                edits: given.edits.clone().map_err(|reason| not_usable(&reason))?,
            });
        }
        Ok(spec)
    }
}

/// The driver's files, and the nodes that every container with a GPU needs.
fn common_edits(
    inventory: &Inventory,
    files: Result<&DriverFiles, String>,
    paths: &HostPaths<'_>,
) -> Result<ContainerEdits, String> {
    let mut edits = files?.container_edits(&paths.runtime);
    let nodes = common_nodes(&inventory.host).map_err(|error| error_chain(&error))?;
    edits.device_nodes = paths.cdi_nodes(&nodes);
    Ok(edits)
}

// === impl HostPaths ===

impl HostPaths<'_> {
    fn cdi_nodes(&self, nodes: &[Node]) -> Vec<imex_cdi::DeviceNode> {
        let nodes = nodes.iter();
        nodes
            .map(|it| self.params.device_node(&it.path, it.major, it.minor))
            .collect()
    }

    /// The edits of a full GPU.
    fn gpu_edits(&self, inventory: &Inventory, gpu: &GpuFacts) -> Result<ContainerEdits, String> {
        let nodes = gpu_nodes(&inventory.host, gpu).map_err(|error| error_chain(&error))?;
        Ok(self.with_links(gpu, &nodes))
    }

    /// The edits of a MIG device. Those for graphics also get the GPU's graphics nodes.
    fn mig_edits(
        &self,
        inventory: &Inventory,
        gpu: &GpuFacts,
        device: &MigDevice,
        has_graphics: bool,
    ) -> Result<ContainerEdits, String> {
        let nodes = mig_nodes(&inventory.host, self.proc, gpu, device);
        let mut nodes = nodes.map_err(|error| error_chain(&error))?;
        if !has_graphics {
            return Ok(ContainerEdits {
                device_nodes: self.cdi_nodes(&nodes),
                ..ContainerEdits::default()
            });
        }
        for node in gpu_nodes(&inventory.host, gpu).map_err(|error| error_chain(&error))? {
            if !nodes.contains(&node) {
                nodes.push(node);
            }
        }
        Ok(self.with_links(gpu, &nodes))
    }

    fn with_links(&self, gpu: &GpuFacts, nodes: &[Node]) -> ContainerEdits {
        let graphics = gpu.pci.known().zip(gpu.drm.known());
        let hook = graphics.and_then(|(address, nodes)| {
            let names = nodes.iter().map(|node| node.name.as_str());
            self.runtime.by_path_hook(&address.to_string(), names)
        });
        ContainerEdits {
            device_nodes: self.cdi_nodes(nodes),
            hooks: hook.into_iter().collect(),
            ..ContainerEdits::default()
        }
    }
}

// === impl GivenDevice ===

impl GivenDevice {
    fn new(inventory: &Inventory, device: &Device, paths: &HostPaths<'_>) -> Option<Self> {
        let text = |name| match device.attributes.get(name) {
            Some(Attribute::Text(text)) => Some(text.as_str()),
            _ => None,
        };
        let uuid = text("uuid")?;
        let Some(parent) = text("parentUUID") else {
            let gpu = gpu_with(inventory, uuid)?;
            let uuid = uuid.to_owned();
            return Some(Self {
                unit: Unit::Gpu { uuid: uuid.clone() },
                identity: Identity::Gpu(GpuInfo { uuid }),
                edits: paths.gpu_edits(inventory, gpu),
            });
        };
        let gpu = gpu_with(inventory, parent)?;
        let mut devices = gpu.mig.known()?.devices.iter();
        let found = devices.find_map(|it| it.known().filter(|it| it.uuid == uuid))?;
        let has_graphics = text("profile").is_some_and(|profile| profile.contains("+gfx"));
        Some(Self {
            unit: Unit::Mig {
                gpu: parent.to_owned(),
                instance: found.gpu_instance.id,
            },
            identity: Identity::Mig(MigInfo {
                parent_minor: *gpu.minor.known()?,
                gi_id: found.gpu_instance.id,
                ci_id: found.compute_instance,
                mig_uuid: uuid.to_owned(),
                parent_uuid: parent.to_owned(),
                parent_pci_bus_id: gpu.pci.known()?.to_string(),
            }),
            edits: paths.mig_edits(inventory, gpu, found, has_graphics),
        })
    }
}

fn gpu_with<'a>(inventory: &'a Inventory, uuid: &str) -> Option<&'a GpuFacts> {
    let mut gpus = inventory.gpus.iter();
    gpus.find(|gpu| gpu.uuid.known().is_some_and(|it| it == uuid))
}

// === impl Identity ===

impl Identity {
    fn uuid(&self) -> &str {
        match self {
            Self::Gpu(gpu) => &gpu.uuid,
            Self::Mig(mig) => &mig.mig_uuid,
        }
    }
}
