//! NVIDIA's GPUs on the PCI bus: whether a host has any use for the driver.

use crate::files::HostFiles;

/// A link for each device, with files that describe it (sysfs-bus-pci of the kernel's
/// documentation).
pub(crate) const PCI_DEVICES: &str = "/sys/bus/pci/devices";
/// NVIDIA's vendor number.
const NVIDIA: &str = "0x10de";
/// The class of displays, VGA and 3D controllers among them: its first byte.
const DISPLAY: &str = "0x03";
/// The driver of devices that virtual machines have.
const PASSED_THROUGH: &str = "vfio-pci";

/// How many GPUs of NVIDIA a host has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PciGpus {
    /// Those that are for the NVIDIA driver.
    pub own: usize,
    /// Those that are given to virtual machines.
    pub passed_through: usize,
}

// === impl PciGpus ===

impl PciGpus {
    /// `None` if the bus cannot be listed.
    pub(super) fn read(files: &HostFiles) -> Option<Self> {
        if !files.exists(PCI_DEVICES) {
            return None;
        }
        let mut found = Self::default();
        for name in files.list_all(PCI_DEVICES)? {
            let device = format!("{PCI_DEVICES}/{name}");
            if !is_gpu(files, &device) {
                continue;
            }
            match driver(files, &device).as_deref() {
                Some(PASSED_THROUGH) => found.passed_through += 1,
                _ => found.own += 1,
            }
        }
        Some(found)
    }
}

fn is_gpu(files: &HostFiles, device: &str) -> bool {
    let value = |file| files.text_if_readable(&format!("{device}/{file}"));
    let has = |file, start| value(file).is_some_and(|text| text.starts_with(start));
    has("vendor", NVIDIA) && has("class", DISPLAY)
}

fn driver(files: &HostFiles, device: &str) -> Option<String> {
    let link = files
        .resolve(&format!("{device}/driver"))
        .read_link()
        .ok()?;
    Some(link.file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::root::Root;

    #[test]
    fn gpus_are_displays_of_nvidia_and_those_of_virtual_machines_are_apart() {
        let dir = tempfile::tempdir().unwrap();
        let files = HostFiles::new(Root::new(dir.path()).unwrap());
        assert_eq!(PciGpus::read(&files), None);
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
        assert_eq!(PciGpus::read(&files), Some(PciGpus::default()));
        add("0008:01:00.0", "0x10de", "0x030200", Some("nvidia"));
        add("0009:01:00.0", "0x10de", "0x030200", None);
        add("0010:01:00.0", "0x10de", "0x030200", Some("vfio-pci"));
        let found = PciGpus {
            own: 2,
            passed_through: 1,
        };
        assert_eq!(PciGpus::read(&files), Some(found));
    }
}
