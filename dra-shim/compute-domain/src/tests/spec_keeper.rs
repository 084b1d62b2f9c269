//! CDI specs that are lost or no longer match the channel major, while the plugin runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use daemon_runtime::Liveness;
use plugin_parts::SpecKeeper;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::api_server::{ApiServer, DOMAIN};
use super::node::{EXCLUSIVE, TestNode};
use crate::channel_devices::ChannelDevices;

/// Paused: the keeper checks the specs more than once in this time.
const SOME_CHECKS: Duration = Duration::from_secs(5);

/// A node with the prepared claim ns/holder, and its running keeper.
struct Kept {
    node: TestNode,
    cdi: PathBuf,
    _running: DropGuard,
}

impl Kept {
    async fn start() -> Self {
        let server = ApiServer::default();
        server.put_domain("ns", "train", DOMAIN);
        server.put_claim("ns", "holder");
        let node = TestNode::start(&server);
        node.prepare("ns", "holder").await.unwrap();
        let cdi = node.root.path().join("cdi");
        let keeper = SpecKeeper {
            cdi_root: cdi.clone(),
            shared_claims: node.driver.shared_claims.clone(),
            devices: Arc::new(ChannelDevices {
                holder_policy: EXCLUSIVE,
                daemon: None,
                hardware: Arc::clone(&node.driver.hardware),
            }),
            heartbeat: Liveness::default().add("spec-keeper", Duration::from_secs(600)),
        };
        let stop = CancellationToken::new();
        tokio::spawn(keeper.run(stop.clone()));
        let kept = Self {
            node,
            cdi,
            _running: stop.drop_guard(),
        };
        sleep(SOME_CHECKS).await;
        kept
    }

    /// The claim's spec; empty if it is missing.
    fn spec(&self) -> String {
        let file = "k8s.compute-domain.nvidia.com-claim_holder.yaml";
        fs::read_to_string(self.cdi.join(file)).unwrap_or_default()
    }

    /// Loads the NVIDIA driver with this line in `/proc/devices`.
    fn load(&self, line: &str) {
        let devices: &Path = &self.node.root.path().join("devices");
        fs::write(devices, format!("Character devices:\n{line}\n")).unwrap();
    }
}

// req: NODE-27, NODE-28
#[tokio::test(start_paused = true)]
async fn an_empty_or_missing_directory_is_repaired_and_a_new_major_written() {
    let kept = Kept::start().await;
    let whole = kept.spec();
    assert!(whole.contains(r#""major":235"#), "{whole}");

    fs::remove_dir_all(&kept.cdi).unwrap();
    sleep(SOME_CHECKS).await;
    assert_eq!(kept.spec(), whole);

    kept.load("300 nvidia-caps-imex-channels");
    sleep(SOME_CHECKS).await;
    let reloaded = kept.spec();
    assert!(reloaded.contains(r#""major":300"#), "{reloaded}");

    kept.load("1 mem");
    sleep(SOME_CHECKS).await;
    assert_eq!(kept.spec(), reloaded, "unloaded for now");
}

#[tokio::test(start_paused = true)]
async fn a_failed_repair_is_retried() {
    let kept = Kept::start().await;
    let whole = kept.spec();
    fs::remove_dir_all(&kept.cdi).unwrap();
    fs::write(&kept.cdi, "a file in place of the directory").unwrap();
    sleep(SOME_CHECKS).await;
    assert_eq!(kept.spec(), "");
    fs::remove_file(&kept.cdi).unwrap();
    sleep(SOME_CHECKS).await;
    assert_eq!(kept.spec(), whole);
}
