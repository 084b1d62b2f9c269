//! The NVIDIA driver: its library. The facts of its kernel module are in the inventory of the GPUs.

use std::path::Path;

use gpu_inventory::Inventory;
use nvidia_driver_files::DriverFiles;
use nvml_clique::{DriverFileNotFound, DriverRoot};

use crate::error_facts::ErrorFacts;
use crate::host::Host;

/// Present while the kernel module is loaded.
pub(crate) const MODULE_VERSION: &str = "/proc/driver/nvidia/version";

/// Has a link for each device, with files that describe it (sysfs-bus-pci in the kernel's
/// documentation).
pub(crate) const PCI_DEVICES: &str = "/sys/bus/pci/devices";

/// The driver's library, and whether a host without it shows its GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DriverFacts {
    /// The path of NVML, `libnvidia-ml.so.1` with links followed; `None` if no
    /// usable one was found.
    pub library: Option<String>,
    /// The searched places, with the rejected candidates and the reasons; `None` if a library
    /// was found.
    pub rejected: Option<DriverFileNotFound>,
    /// Whether the PCI bus can be listed. Otherwise the host may have GPUs that the inventory lacks.
    pub pci_is_listed: bool,
    /// The driver's files for containers; `None` without a library or the module's version.
    pub container_files: Option<ContainerFiles>,
}

/// The driver's files that a container with a GPU gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerFiles {
    /// The driver's root directory. Paths in `problems` are paths in it.
    pub root: String,
    /// What is wrong with them.
    pub problems: Vec<ErrorFacts>,
}

// === impl DriverFacts ===

impl DriverFacts {
    /// Reads them, with the library below `driver_root`. Returns that root if it has a library.
    pub(crate) fn read(host: &Host, driver_root: &Path) -> (Self, Option<DriverRoot>) {
        let root = DriverRoot::new(host.resolve_target(driver_root));
        let (library, rejected) = match root.find_library() {
            Ok(library) => (Some(host.host_name(&library)), None),
            Err(error) => (None, Some(with_host_names(host, error))),
        };
        let root = library.is_some().then_some(root);
        let facts = Self {
            library,
            rejected,
            pci_is_listed: host.exists(PCI_DEVICES) && host.list_all(PCI_DEVICES).is_some(),
            container_files: None,
        };
        (facts, root)
    }
}

// === impl ContainerFiles ===

impl ContainerFiles {
    /// Finds the files below `root`, which has a library. Only files of the loaded module's version count.
    pub(crate) fn read(host: &Host, root: &DriverRoot, inventory: &Inventory) -> Option<Self> {
        let version = inventory.driver.module.known()?.parse().ok()?;
        let root = root.with_library();
        let problems = DriverFiles::find(&root, &version).problems.into_iter();
        let problems = problems.map(|problem| ErrorFacts {
            code: problem.code(),
            message: problem.to_string(),
            hint: problem.hint().to_owned(),
        });
        Some(Self {
            root: host.host_name(root.path()),
            problems: problems.collect(),
        })
    }
}

/// The same search with the host's own paths.
pub(crate) fn with_host_names(host: &Host, mut error: DriverFileNotFound) -> DriverFileNotFound {
    error.root = host.host_name(&error.root).into();
    for rejected in &mut error.rejected {
        rejected.path = host.host_name(&rejected.path).into();
    }
    error
}
