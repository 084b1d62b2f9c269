//! The NVIDIA driver: its kernel module and its library.

use std::path::Path;

use gpu_inventory::module_version;
use nvml_clique::{DriverFileNotFound, DriverRoot};

use crate::host::Host;

/// Present while the kernel module is loaded.
pub(crate) const MODULE_VERSION: &str = "/proc/driver/nvidia/version";

/// Has a link for each device, with files that describe it (sysfs-bus-pci in the kernel's
/// documentation).
pub(crate) const PCI_DEVICES: &str = "/sys/bus/pci/devices";
/// NVIDIA's vendor number.
const NVIDIA: &str = "0x10de";
/// The first byte of the class of displays, VGA and 3D controllers included.
const DISPLAY: &str = "0x03";
/// The driver of devices that are passed through to virtual machines.
const PASSED_THROUGH: &str = "vfio-pci";

/// The parts of the driver that a host has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DriverFacts {
    /// The kernel module; `None` if it is not loaded.
    pub module: Option<KernelModule>,
    /// The path of NVML, `libnvidia-ml.so.1` with links followed; `None` if no
    /// usable one was found.
    pub library: Option<String>,
    /// The searched places, with the rejected candidates and the reasons; `None` if a library
    /// was found.
    pub rejected: Option<DriverFileNotFound>,
    /// The host's GPUs; `None` if the PCI bus cannot be listed.
    pub gpus: Option<PciGpus>,
}

/// The loaded kernel module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelModule {
    /// `580.82.07`; `None` if the module's version line has another form.
    pub version: Option<String>,
}

/// The number of NVIDIA GPUs in a host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PciGpus {
    /// GPUs for the NVIDIA driver.
    pub own: usize,
    /// GPUs that are passed through to virtual machines.
    pub passed_through: usize,
}

// === impl DriverFacts ===

impl DriverFacts {
    /// Reads them, with the library below `driver_root`. Returns that root if it has a library.
    pub(crate) fn read(host: &Host, driver_root: &Path) -> (Self, Option<DriverRoot>) {
        let module = host.text_if_readable(MODULE_VERSION);
        let module = module.map(|text| KernelModule {
            version: module_version(&text),
        });
        let root = DriverRoot::new(host.resolve_target(driver_root));
        let (library, rejected) = match root.find_library() {
            Ok(library) => (Some(host.host_name(&library)), None),
            Err(error) => (None, Some(with_host_names(host, error))),
        };
        let root = library.is_some().then_some(root);
        let facts = Self {
            module,
            library,
            rejected,
            gpus: PciGpus::read(host),
        };
        (facts, root)
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

// === impl PciGpus ===

impl PciGpus {
    /// `None` if the bus cannot be listed.
    fn read(host: &Host) -> Option<Self> {
        if !host.exists(PCI_DEVICES) {
            return None;
        }
        let mut found = Self::default();
        for name in host.list_all(PCI_DEVICES)? {
            let device = format!("{PCI_DEVICES}/{name}");
            if !is_gpu(host, &device) {
                continue;
            }
            match driver(host, &device).as_deref() {
                Some(PASSED_THROUGH) => found.passed_through += 1,
                _ => found.own += 1,
            }
        }
        Some(found)
    }
}

fn is_gpu(host: &Host, device: &str) -> bool {
    let value = |file| host.text_if_readable(&format!("{device}/{file}"));
    let has = |file, start| value(file).is_some_and(|text| text.starts_with(start));
    has("vendor", NVIDIA) && has("class", DISPLAY)
}

fn driver(host: &Host, device: &str) -> Option<String> {
    let link = host.resolve(format!("{device}/driver")).read_link().ok()?;
    Some(link.file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_version_is_the_dotted_number_of_the_first_line() {
        let line =
            "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.82.07  Release Build";
        assert_eq!(module_version(line).as_deref(), Some("580.82.07"));
        assert_eq!(module_version("NVRM version: unknown"), None);
    }

    #[test]
    fn gpus_are_nvidia_displays_and_passed_through_ones_are_counted_separately() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::open(dir.path()).unwrap();
        assert_eq!(PciGpus::read(&host), None);
        let add = |address: &str, vendor: &str, class: &str, driver: Option<&str>| {
            let real = dir.path().join("sys/devices").join(address);
            let bus = dir.path().join("sys/bus/pci/devices");
            fs::create_dir_all(&real).unwrap();
            fs::create_dir_all(&bus).unwrap();
            fs::write(real.join("vendor"), format!("{vendor}\n")).unwrap();
            fs::write(real.join("class"), format!("{class}\n")).unwrap();
            if let Some(driver) = driver {
                let target = format!("../../bus/pci/drivers/{driver}");
                symlink(target, real.join("driver")).unwrap();
            }
            symlink(format!("../../../devices/{address}"), bus.join(address)).unwrap();
        };
        add("0000:00:02.0", "0x8086", "0x030000", Some("i915"));
        add("0000:01:00.1", "0x10de", "0x040300", Some("snd_hda_intel"));
        add(
            "0000:02:00.0",
            "0x10de",
            "0x068000",
            Some("nvidia-nvswitch"),
        );
        assert_eq!(PciGpus::read(&host), Some(PciGpus::default()));
        add("0008:01:00.0", "0x10de", "0x030200", Some("nvidia"));
        add("0009:01:00.0", "0x10de", "0x030200", None);
        add("0010:01:00.0", "0x10de", "0x030200", Some("vfio-pci"));
        let found = PciGpus {
            own: 2,
            passed_through: 1,
        };
        assert_eq!(PciGpus::read(&host), Some(found));
    }
}
