//! Methods for common adjustments of a container.

use super::{CdiDevice, ContainerAdjustment, KeyValue, LinuxDevice, Mount};

/// NRI's prefix of a name to remove.
const REMOVED: char = '-';

// === impl ContainerAdjustment ===

/// Each method adds to the adjustment. For other changes, set the fields.
///
/// Two plugins that adjust the same item of a container (a variable, the mount at a path, a
/// device) are in conflict, and the container is not created. A plugin avoids this by first
/// removing the item that the other one has added.
impl ContainerAdjustment {
    /// Sets a variable of the environment.
    #[must_use]
    pub fn with_env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push(KeyValue {
            key: name.into(),
            value: value.into(),
        });
        self
    }

    /// Removes a variable of the environment.
    #[must_use]
    pub fn without_env(self, name: &str) -> Self {
        self.with_env(removed(name), "")
    }

    /// Sets an annotation of the container, which the OCI runtime sees.
    #[must_use]
    pub fn with_annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.annotations.insert(key.into(), value.into());
        self
    }

    /// Adds a mount.
    #[must_use]
    pub fn with_mount(mut self, mount: Mount) -> Self {
        self.mounts.push(mount);
        self
    }

    /// Removes the mount at a path of the container.
    #[must_use]
    pub fn without_mount(self, destination: &str) -> Self {
        self.with_mount(Mount {
            destination: removed(destination),
            ..Default::default()
        })
    }

    /// Adds a device node, with read and write access to it.
    #[must_use]
    pub fn with_device(mut self, device: LinuxDevice) -> Self {
        self.linux.get_or_insert_default().devices.push(device);
        self
    }

    /// Removes the device node at a path of the container, and the access to it.
    #[must_use]
    pub fn without_device(self, path: &str) -> Self {
        self.with_device(LinuxDevice {
            path: removed(path),
            ..Default::default()
        })
    }

    /// Adds a CDI device by its name, `vendor/class=name`. The runtime needs NRI 0.7
    /// (containerd 1.7.26, CRI-O 1.32); an older one ignores it.
    #[must_use]
    pub fn with_cdi_device(mut self, name: impl Into<String>) -> Self {
        self.cdi_devices.push(CdiDevice { name: name.into() });
        self
    }
}

fn removed(name: &str) -> String {
    format!("{REMOVED}{name}")
}
