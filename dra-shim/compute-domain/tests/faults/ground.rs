//! A node before its first plugin starts.

use std::fs;

use tempfile::TempDir;

use crate::api::ApiServer;
use crate::driver_root;

/// A node before its first plugin starts, with the files of an earlier driver, if any.
pub(crate) struct Ground {
    pub(crate) dir: TempDir,
    pub(crate) api: ApiServer,
    /// The plugin's boot ID, if it is not the machine's.
    pub(crate) boot: Option<String>,
}

// === impl Ground ===

impl Ground {
    /// A node with an NVIDIA driver, and claims `a` and `b` for the same device.
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let api = ApiServer::start().await;
        api.put_claim("a", "a");
        api.put_claim("b", "b");
        fs::write(dir.path().join("kubeconfig"), api.kubeconfig()).unwrap();
        driver_root::lay_out(&dir.path().join("driver"));
        let boot = None;
        Self { dir, api, boot }
    }

    /// Sets the plugin's boot ID. Needs root.
    pub(crate) fn set_boot(&mut self, boot: &str) {
        fs::write(self.dir.path().join("boot_id"), format!("{boot}\n")).unwrap();
        self.boot = Some(boot.to_owned());
    }
}
