//! NVIDIA's device plugin on the same node: it gives GPUs to pods that request `nvidia.com/gpu`, without knowing which
//! of them claims have.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpu_api::names::{DEVICE_PLUGINS, is_device_plugins};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Limit for a connection to a local socket.
const CONNECT: Duration = Duration::from_secs(1);

/// What to do beside NVIDIA's device plugin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum BesideDevicePlugin {
    /// Report it, and publish the GPUs all the same.
    #[default]
    Report,
    /// Report it, and publish no GPU.
    Withdraw,
}

/// Looks for NVIDIA's device plugin.
#[derive(Debug)]
pub(crate) struct DevicePluginSockets(PathBuf);

// === impl DevicePluginSockets ===

impl Default for DevicePluginSockets {
    fn default() -> Self {
        Self(DEVICE_PLUGINS.into())
    }
}

impl DevicePluginSockets {
    /// The names of sockets that NVIDIA's device plugin serves now, one for each resource: `nvidia-gpu.sock`. A plugin
    /// that was killed leaves its socket, to which nothing connects.
    // req: GPU-66
    pub(crate) async fn served(&self) -> BTreeSet<String> {
        let mut served = BTreeSet::new();
        // kubelet creates the directory. Without it there are no device plugins.
        for entry in std::fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_device_plugins(&name) && is_served(&entry.path()).await {
                served.insert(name);
            }
        }
        served
    }
}

/// A plugin that hangs is there: its queue fills up, and then a connection would have to wait.
async fn is_served(socket: &Path) -> bool {
    match timeout(CONNECT, UnixStream::connect(socket)).await {
        Ok(Err(error)) => error.kind() == ErrorKind::WouldBlock,
        Ok(Ok(_)) | Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    // req: GPU-66
    #[tokio::test]
    async fn a_device_plugin_is_there_while_its_socket_is_served() {
        let dir = tempfile::tempdir().unwrap();
        let sockets = DevicePluginSockets(dir.path().join("device-plugins"));
        let none = BTreeSet::new();
        assert_eq!(sockets.served().await, none, "no directory");

        std::fs::create_dir(&sockets.0).unwrap();
        let serve = |name: &str| UnixListener::bind(sockets.0.join(name)).unwrap();
        let kubelet = serve("kubelet.sock");
        let another = serve("vendor-gpu.sock");
        std::fs::write(sockets.0.join("nvidia-file.sock"), "").unwrap();
        assert_eq!(sockets.served().await, none);
        let gpus = serve("nvidia-gpu.sock");
        let mig = serve("nvidia-mig-1g.10gb.sock");
        let both = ["nvidia-gpu.sock", "nvidia-mig-1g.10gb.sock"];
        assert_eq!(sockets.served().await, both.map(str::to_owned).into());

        // It hangs, and its queue of connections is full.
        for _ in 0..1000 {
            assert_eq!(sockets.served().await, both.map(str::to_owned).into());
        }

        // As after kill -9: the sockets stay.
        drop((kubelet, another, gpus, mig));
        assert_eq!(sockets.served().await, none);
    }
}
