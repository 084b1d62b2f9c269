//! Names shared with NVIDIA's Go driver and users' manifests, and names of our own. They must not change.
//!
//! `gpu-inventory` has the names of devices, attributes and capacities.

use std::fmt;

pub use compute_domain_api::names::API_VERSION;

/// Name of the DRA driver in opaque configs, `ResourceSlices` and allocation results.
pub const DRIVER_NAME: &str = "gpu.nvidia.com";

/// CDI kind of the devices of prepared claims.
pub const CDI_KIND: &str = "k8s.gpu.nvidia.com/claim";

/// `DeviceClass` of whole GPUs.
pub const GPU_DEVICE_CLASS: &str = "gpu.nvidia.com";

/// `DeviceClass` of MIG devices.
pub const MIG_DEVICE_CLASS: &str = "mig.nvidia.com";

/// `DeviceClass` of GPUs for passthrough.
pub const VFIO_DEVICE_CLASS: &str = "vfio.gpu.nvidia.com";

/// Taint key of a device after a critical error. The taint's value is the XID.
pub const XID_TAINT: &str = "gpu.nvidia.com/xid";

/// Taint key of a device whose GPU does not answer.
pub const GPU_LOST_TAINT: &str = "gpu.nvidia.com/gpu-lost";

/// Taint key of a device whose health cannot be monitored.
pub const UNMONITORED_TAINT: &str = "gpu.nvidia.com/unmonitored";

/// Taint key of the devices of a GPU that was renamed while a claim holds it. The Go driver lacks it.
pub const RENAMED_TAINT: &str = "imex-dra/renamed";

/// Taint key of all devices while the node has no NVIDIA driver. The Go driver lacks it.
pub const NO_DRIVER_TAINT: &str = "imex-dra/no-driver";

/// The directory of device plugins' sockets, whatever kubelet's root directory is: a constant of kubelet.
pub const DEVICE_PLUGINS: &str = "/var/lib/kubelet/device-plugins";

/// Whether a socket in [`DEVICE_PLUGINS`] is one of NVIDIA's device plugin, which has one for each resource:
/// `nvidia-gpu.sock`.
pub fn is_device_plugins(socket: &str) -> bool {
    let resource = socket.strip_prefix("nvidia-");
    resource.is_some_and(|it| it.strip_suffix(".sock").is_some())
}

/// The type of a published device: its attribute `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceType {
    /// A whole GPU.
    Gpu,
    /// A MIG device.
    Mig,
    /// A GPU for passthrough to a virtual machine.
    Vfio,
}

// === impl DeviceType ===

impl DeviceType {
    /// The value of the attribute `type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Mig => "mig",
            Self::Vfio => "vfio",
        }
    }

    /// The `kind` of the opaque configs for devices of this type.
    pub fn config_kind(self) -> &'static str {
        match self {
            Self::Gpu => "GpuConfig",
            Self::Mig => "MigDeviceConfig",
            Self::Vfio => "VfioDeviceConfig",
        }
    }

    /// The type of the device with this name: `gpu-MINOR`, `gpu-MINOR-mig-PROFILE-PROFILEID-START` or
    /// `gpu-vfio-INDEX`. `None` for other names, which the driver does not publish.
    pub fn of_device(name: &str) -> Option<Self> {
        let rest = name.strip_prefix("gpu-")?;
        if let Some(index) = rest.strip_prefix("vfio-") {
            return is_number(index).then_some(Self::Vfio);
        }
        let Some((minor, profile)) = rest.split_once("-mig-") else {
            return is_number(rest).then_some(Self::Gpu);
        };
        let mut from_end = profile.rsplitn(3, '-');
        let has_numbers = from_end.by_ref().take(2).all(is_number);
        let has_profile = from_end.next().is_some_and(|profile| !profile.is_empty());
        (is_number(minor) && has_numbers && has_profile).then_some(Self::Mig)
    }
}

impl fmt::Display for DeviceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use gpu_inventory::published::{Attribute, published};

    use super::*;

    #[test]
    fn the_name_of_every_published_device_has_the_type_of_its_attribute() {
        let inventories =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../inventory/tests/inventories");
        let mut types = [DeviceType::Gpu, DeviceType::Mig].map(|it| (it, 0));
        for entry in fs::read_dir(inventories).unwrap() {
            let text = fs::read_to_string(entry.unwrap().path()).unwrap();
            for device in published(&serde_json::from_str(&text).unwrap()).devices {
                let found = DeviceType::of_device(&device.name).unwrap();
                let attribute = Attribute::Text(found.as_str().to_owned());
                assert_eq!(device.attributes["type"], attribute, "{}", device.name);
                for (device_type, count) in &mut types {
                    *count += i32::from(*device_type == found);
                }
            }
        }
        assert!(types.iter().all(|(_, count)| *count > 0), "{types:?}");
    }

    #[test]
    fn names_that_the_driver_does_not_publish_have_no_type() {
        assert_eq!(DeviceType::of_device("gpu-vfio-3"), Some(DeviceType::Vfio));
        for name in [
            "",
            "gpu-",
            "gpu-x",
            "gpu--1",
            "GPU-0",
            "channel-0",
            "gpu-0-mig-1g10gb",
            "gpu-0-mig-1g10gb-19",
            "gpu-0-mig-19-3",
            "gpu-0-mig--19-3",
            "gpu-x-mig-1g10gb-19-3",
            "gpu-0-mig-1g10gb-19-x",
            "gpu-vfio-",
            "gpu-vfio-x",
        ] {
            assert_eq!(DeviceType::of_device(name), None, "{name}");
        }
    }
}
