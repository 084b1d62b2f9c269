//! A node before its first plugin starts.

use std::fs;

use tempfile::TempDir;

use crate::api::ApiServer;
use crate::driver_root;

/// A node before its first plugin starts: whoever was there before has left what is in it.
pub(crate) struct Ground {
    pub(crate) dir: TempDir,
    pub(crate) api: ApiServer,
    /// The boot that the plugin finds, if it is not the machine's.
    pub(crate) boot: Option<String>,
}

// === impl Ground ===

impl Ground {
    /// With claims `a` and `b`, which want the same device, and a driver.
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

    /// The plugin finds this boot. Needs root.
    pub(crate) fn set_boot(&mut self, boot: &str) {
        fs::write(self.dir.path().join("boot_id"), format!("{boot}\n")).unwrap();
        self.boot = Some(boot.to_owned());
    }
}
