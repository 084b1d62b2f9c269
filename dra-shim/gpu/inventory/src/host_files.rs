//! What the kernel's files have of the GPUs: `/proc/driver/nvidia`, sysfs and `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dra_common::{ReadError, read_bounded};
use nvml_session::{Fact, Failure};

use crate::facts::{DrmNode, HostFacts};
use crate::pci_address::PciAddress;

/// What the files have of one PCI function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FileFacts {
    pub(crate) minor: Fact<u32>,
    pub(crate) uuid: Fact<String>,
    pub(crate) name: Fact<String>,
    pub(crate) device_id: Fact<u32>,
    pub(crate) numa_node: Fact<u32>,
    pub(crate) pcie_root: Fact<String>,
    pub(crate) pci_driver: Fact<String>,
    pub(crate) iommu_group: Fact<u32>,
    pub(crate) drm: Fact<Vec<DrmNode>>,
}

/// NVIDIA's vendor id, and the classes of GPUs: VGA and 3D controllers.
const VENDOR: u32 = 0x10de;
const CLASSES: [u32; 2] = [0x0300, 0x0302];

/// The limit of a file in bytes: far more than any of them has.
const MAX_BYTES: u64 = 1 << 20;

/// `/proc` and `/sys`, or directories in their place.
#[derive(Debug, Clone)]
pub(crate) struct HostFiles {
    proc: HostPath,
    sys: HostPath,
}

/// A file of the host.
#[derive(Debug, Clone)]
struct HostPath {
    /// Where this process finds it.
    here: PathBuf,
    /// The host's own path, which failures have.
    name: PathBuf,
}

// === impl HostFiles ===

impl HostFiles {
    pub(crate) fn new(proc: &Path, sys: &Path) -> Self {
        Self {
            proc: HostPath::new(proc, "/proc"),
            sys: HostPath::new(sys, "/sys"),
        }
    }

    pub(crate) fn host(&self) -> HostFacts {
        HostFacts {
            boot_id: text(&self.proc.join("sys/kernel/random/boot_id")),
            kernel: text(&self.proc.join("sys/kernel/osrelease")),
            memory: text(&self.proc.join("meminfo")).and_then(|it| total_memory(&it)),
            iommu: self.has_iommu(),
            majors: text(&self.proc.join("devices")).map(|it| nvidia_majors(&it)),
        }
    }

    /// The version of the loaded kernel module.
    pub(crate) fn module_version(&self) -> Fact<String> {
        let path = self.proc.join("driver/nvidia/version");
        text(&path).and_then(|text| match module_version(&text) {
            Some(version) => Fact::Known(version),
            None => failed(&path, "has no version of the kernel module"),
        })
    }

    /// Every GPU that the driver or sysfs lists.
    pub(crate) fn gpus(&self) -> BTreeMap<PciAddress, FileFacts> {
        let mut gpus: BTreeMap<PciAddress, FileFacts> = BTreeMap::new();
        for (address, path) in addresses(&self.sys.join("bus/pci/devices")) {
            if is_gpu(&path) {
                read_sysfs(&path, gpus.entry(address).or_default());
            }
        }
        for (address, path) in addresses(&self.proc.join("driver/nvidia/gpus")) {
            read_information(&path.join("information"), gpus.entry(address).or_default());
        }
        gpus
    }

    fn has_iommu(&self) -> Fact<bool> {
        let path = self.sys.join("kernel/iommu_groups");
        match fs::read_dir(&path.here) {
            Ok(mut groups) => Fact::Known(groups.next().is_some()),
            Err(error) => from_error(&path, &error),
        }
    }
}

// === impl HostPath ===

impl HostPath {
    fn new(here: &Path, name: &str) -> Self {
        Self {
            here: here.to_owned(),
            name: name.into(),
        }
    }

    fn join(&self, inside: impl AsRef<Path>) -> Self {
        Self {
            here: self.here.join(&inside),
            name: self.name.join(&inside),
        }
    }
}

/// The entries of a directory that are named after PCI functions. A directory that cannot be read has none.
fn addresses(dir: &HostPath) -> Vec<(PciAddress, HostPath)> {
    let entries = fs::read_dir(&dir.here).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let address = name.to_str()?.parse().ok()?;
            Some((address, dir.join(name)))
        })
        .collect()
}

fn is_gpu(device: &HostPath) -> bool {
    let id = |file: &str| hex(&device.join(file)).known().copied();
    // A virtual function of a GPU is given to a virtual machine, which has no such link.
    let is_virtual = device.join("physfn").here.is_symlink();
    let is_display = id("class").is_some_and(|it| CLASSES.contains(&(it >> 8)));
    id("vendor") == Some(VENDOR) && is_display && !is_virtual
}

fn read_sysfs(device: &HostPath, facts: &mut FileFacts) {
    facts.device_id = hex(&device.join("device"));
    facts.pci_driver = link_name(&device.join("driver"));
    facts.pcie_root = pcie_root(device);
    facts.drm = drm_nodes(&device.join("drm"));
    let group = device.join("iommu_group");
    facts.iommu_group = link_name(&group).and_then(|name| parsed(&group, &name));
    let node = device.join("numa_node");
    // -1: the kernel knows none.
    facts.numa_node = text(&node)
        .and_then(|text| parsed::<i64>(&node, &text))
        .and_then(|node| u32::try_from(node).map_or(Fact::Absent, Fact::Known));
}

/// The nodes of the directory `drm` of a function, by name.
fn drm_nodes(dir: &HostPath) -> Fact<Vec<DrmNode>> {
    let entries = match fs::read_dir(&dir.here) {
        Ok(entries) => entries,
        Err(error) => return from_error(dir, &error),
    };
    let node = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let is_node = name.starts_with("card") || name.starts_with("renderD");
        let numbers = text(&dir.join(&name).join("dev"));
        let (major, minor) = numbers.known()?.split_once(':')?;
        is_node.then_some(DrmNode {
            name,
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    };
    let mut nodes: Vec<_> = entries.flatten().filter_map(node).collect();
    nodes.sort();
    Fact::Known(nodes)
}

/// The first directory below `devices` on the path of the device, such as `pci0000:64`.
fn pcie_root(device: &HostPath) -> Fact<String> {
    let path = match fs::canonicalize(&device.here) {
        Ok(path) => path,
        Err(error) => return from_error(device, &error),
    };
    let names = path.iter().map(|name| name.to_string_lossy());
    let root = names.skip_while(|name| name != "devices").nth(1);
    root.filter(|root| root.starts_with("pci"))
        .map_or(Fact::Absent, |root| Fact::Known(root.into_owned()))
}

/// Reads the driver's file about a GPU, which exists even if NVML cannot open the GPU.
fn read_information(path: &HostPath, facts: &mut FileFacts) {
    let information = text(path);
    let value = |key: &str| {
        information.clone().and_then(|text| {
            let lines = text.lines().filter_map(|line| line.split_once(':'));
            let mut values = lines
                .filter(|(found, _)| found.trim() == key)
                .map(|it| it.1.trim());
            values
                .next()
                .filter(|value| !value.is_empty())
                .map_or(Fact::Absent, |value| Fact::Known(value.to_owned()))
        })
    };
    facts.name = value("Model");
    facts.minor = value("Device Minor").and_then(|text| parsed(path, &text));
    // Before the driver has initialised the GPU, its digits are question marks.
    facts.uuid = value("GPU UUID").and_then(|uuid| {
        if uuid.contains('?') {
            return failed(
                path,
                "has no UUID, because the driver has not initialised the GPU",
            );
        }
        Fact::Known(uuid)
    });
}

/// The text of a file without white space around it. A file that does not exist is absent.
fn text(path: &HostPath) -> Fact<String> {
    match read_bounded(&path.here, MAX_BYTES) {
        Ok(bytes) => Fact::Known(String::from_utf8_lossy(&bytes).trim().to_owned()),
        Err(ReadError::Io(error)) => from_error(path, &error),
        Err(error) => failed(path, &format!("cannot be read: {error}")),
    }
}

/// A number such as `0x10de`.
fn hex(path: &HostPath) -> Fact<u32> {
    text(path).and_then(|text| {
        let digits = text.strip_prefix("0x").unwrap_or(&text);
        match u32::from_str_radix(digits, 16) {
            Ok(number) => Fact::Known(number),
            Err(_) => failed(path, "is not a hexadecimal number"),
        }
    })
}

fn link_name(path: &HostPath) -> Fact<String> {
    match fs::read_link(&path.here) {
        Ok(target) => target.file_name().map_or(Fact::Absent, |name| {
            Fact::Known(name.to_string_lossy().into_owned())
        }),
        Err(error) => from_error(path, &error),
    }
}

fn parsed<T: std::str::FromStr>(path: &HostPath, text: &str) -> Fact<T> {
    match text.parse() {
        Ok(value) => Fact::Known(value),
        Err(_) => failed(path, &format!("has {text:?} instead of a number")),
    }
}

fn from_error<T>(path: &HostPath, error: &io::Error) -> Fact<T> {
    if error.kind() == io::ErrorKind::NotFound {
        return Fact::Absent;
    }
    failed(path, &format!("cannot be read: {error}"))
}

fn failed<T>(path: &HostPath, reason: &str) -> Fact<T> {
    Fact::Failed(Failure::new(path.name.display().to_string(), reason))
}

fn total_memory(meminfo: &str) -> Fact<u64> {
    let line = meminfo.lines().find_map(|it| it.strip_prefix("MemTotal:"));
    let kib = line.and_then(|it| it.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or(Fact::Absent, |kib| Fact::Known(kib.saturating_mul(1024)))
}

fn nvidia_majors(devices: &str) -> BTreeMap<String, u32> {
    let character = devices.split("Block devices:").next().unwrap_or_default();
    let lines = character
        .lines()
        .filter_map(|line| line.trim().split_once(' '));
    lines
        .filter(|(_, name)| name.starts_with("nvidia"))
        .filter_map(|(major, name)| Some((name.to_owned(), major.parse().ok()?)))
        .collect()
}

/// The kernel module's version in the text of `/proc/driver/nvidia/version`: the first word of digits and points in
/// `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build …`.
pub fn module_version(text: &str) -> Option<String> {
    let line = text
        .lines()
        .find_map(|it| it.strip_prefix("NVRM version:"))?;
    let is_version = |word: &&str| {
        word.contains('.') && word.bytes().all(|it| it.is_ascii_digit() || it == b'.')
    };
    line.split_whitespace().find(is_version).map(str::to_owned)
}

#[cfg(test)]
#[path = "host_files_tests.rs"]
mod tests;
