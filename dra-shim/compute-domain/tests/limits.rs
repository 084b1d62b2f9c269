//! Threads and memory of the process during and after a call with very many claims.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where its expectation fails"
)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use dra_kubelet::ClaimRef;
use dra_kubelet::testing::{FakeKubelet, Options, Times};

const DRIVER: &str = "compute-domain.nvidia.com";
/// Threads: tokio's workers, the main thread, the checkpoint's writer and NVML's.
const OTHER_THREADS: u64 = 8;
/// Limit of tokio's threads for blocking work.
const BLOCKING_THREADS: u64 = 80;
/// Limit of the process's memory, in KiB. Without limits in the code, ten thousand claims in progress
/// took ten times as much.
const RSS_ANON: u64 = 16 * 1024;

/// The plugin, without driver and API server: Unprepare needs neither.
struct Plugin(Child);

impl Plugin {
    fn start(root: &Path) -> Self {
        let kubeconfig = root.join("kubeconfig");
        let text = r#"{
            "clusters": [{ "name": "c", "cluster": { "server": "http://127.0.0.1:1" } }],
            "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u" } }],
            "users": [{ "name": "u", "user": {} }],
            "current-context": "x"
        }"#;
        std::fs::write(&kubeconfig, text).unwrap();
        let path = |name: &str| root.join(name).into_os_string();
        let plugin = Command::new(env!("CARGO_BIN_EXE_compute-domain-kubelet-plugin"))
            .env_clear()
            .env("NODE_NAME", "node-a")
            .env("FEATURE_GATES", "HostManagedIMEX=true")
            .env("KUBELET_ROOT", root)
            .env("KUBECONFIG", kubeconfig)
            .env("CDI_ROOT", path("cdi"))
            .env("DRIVER_ROOT_CTR_PATH", path("no-driver"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self(plugin)
    }

    /// Reads a number from `/proc/PID/status`.
    fn status(&self, field: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = text.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn mk_claims(count: usize) -> Vec<ClaimRef> {
    let claim = |n| ClaimRef {
        namespace: "default".to_owned(),
        name: format!("claim-{n}"),
        uid: format!("00000000-0000-0000-0000-{n:012}"),
    };
    (0..count).map(claim).collect()
}

#[tokio::test]
async fn many_claims_in_one_call_leave_neither_threads_nor_memory_behind() {
    let root = tempfile::tempdir().unwrap();
    let options = Options {
        times: Times::fast(),
        ..Options::default()
    };
    let kubelet = FakeKubelet::start(root.path(), options).unwrap();
    let plugin = Plugin::start(root.path());
    let registered = kubelet.wait_registered(DRIVER);
    tokio::time::timeout(Duration::from_secs(60), registered)
        .await
        .unwrap();
    let idle = plugin.status("RssAnon");

    let too_many = mk_claims(10_000);
    let refused = kubelet.prepare(DRIVER, &too_many).await.unwrap_err();
    assert!(refused.to_string().contains("10000 claims"), "{refused}");
    for n in [1024; 5] {
        let answers = kubelet.unprepare(DRIVER, &too_many[..n]).await.unwrap();
        assert_eq!(answers.values().filter(|answer| answer.is_ok()).count(), n);
        let threads = plugin.status("Threads");
        assert!(
            threads <= BLOCKING_THREADS + OTHER_THREADS,
            "{threads} threads"
        );
    }
    let after = plugin.status("RssAnon");
    assert!(after < RSS_ANON, "RssAnon {idle} -> {after} KiB");
}
