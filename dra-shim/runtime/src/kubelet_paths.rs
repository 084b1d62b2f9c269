//! Options for kubelet's directories, with the names of the Go driver.

use std::path::PathBuf;

/// Where kubelet finds plugins. An empty value means unset.
#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_field_names,
    reason = "the names are those of the options"
)]
pub struct KubeletPaths {
    /// kubelet's --root-dir; the next two options default to directories below it.
    #[arg(long, env = "KUBELET_ROOT", default_value = "/var/lib/kubelet")]
    kubelet_root: PathBuf,
    /// Directory of registration sockets; empty: `plugins_registry` below the root.
    #[arg(long, env = "KUBELET_REGISTRAR_DIRECTORY_PATH", default_value = "")]
    kubelet_registrar_directory_path: String,
    /// Directory of plugins' data; empty: `plugins` below the root.
    #[arg(long, env = "KUBELET_PLUGINS_DIRECTORY_PATH", default_value = "")]
    kubelet_plugins_directory_path: String,
}

// === impl KubeletPaths ===

impl KubeletPaths {
    /// The directory of registration sockets.
    pub fn registry_dir(&self) -> PathBuf {
        self.or_below_root(&self.kubelet_registrar_directory_path, "plugins_registry")
    }

    /// The directory of this driver's checkpoint and service socket.
    pub fn data_dir(&self, driver: &str) -> PathBuf {
        let plugins = self.or_below_root(&self.kubelet_plugins_directory_path, "plugins");
        plugins.join(driver)
    }

    fn or_below_root(&self, path: &str, default: &str) -> PathBuf {
        if path.is_empty() {
            self.kubelet_root.join(default)
        } else {
            path.into()
        }
    }
}
