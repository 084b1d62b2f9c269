//! Helm does not add the driver `gpu.nvidia.com` while another driver publishes devices with this name. Pods that hold
//! devices of the other driver do not prevent upgrades.

use anyhow::{Context as _, Result, ensure};
use cluster_tests::fixtures;
use cluster_tests::gpus::{claim_template, wait_until_unpublished};
use cluster_tests::permissions::new_slice;
use cluster_tests::release::{CHART, helm, helm_refuses, upgrade};
use cluster_tests::{Cluster, Namespace};
use serde_json::json;

const SLICE: &str = "nvidias-gpus";

/// A slice of NVIDIA's driver, until this is dropped.
struct NvidiaSlice(Cluster);

impl NvidiaSlice {
    fn create(cluster: &Cluster) -> Result<Self> {
        let slice = new_slice(SLICE, "gpu.nvidia.com").to_string();
        cluster.apply(&slice)?;
        Ok(Self(cluster.clone()))
    }
}

impl Drop for NvidiaSlice {
    fn drop(&mut self) {
        let delete = ["delete", "resourceslice", SLICE, "--ignore-not-found"];
        drop(self.0.kubectl(&delete)); // ignored: the next run applies it again
    }
}

// req: CHART-24
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn an_upgrade_with_gpus_is_refused_while_nvidias_driver_publishes_them() -> Result<()> {
    let cluster = Cluster::connect()?;
    let gpus = "--set=resources.gpus.enabled=true,guard.override=false";
    let upgrade = [CHART, "--reuse-values", "--dry-run=server", gpus];
    wait_until_unpublished(&cluster)?;
    let slice = NvidiaSlice::create(&cluster)?;
    let output = helm_refuses(&cluster, "upgrade", &upgrade)?;
    ensure!(
        output.contains("ResourceSlices of gpu.nvidia.com exist (node2), and two plugins"),
        "helm printed: {output}"
    );
    drop(slice);
    helm(&cluster, "upgrade", &upgrade).map(drop)
}

// req: CHART-25
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn pods_with_gpus_of_nvidias_driver_do_not_prevent_an_upgrade() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "nvidias-pod")?;
    fixtures::run_pod(&cluster, &namespace, "worker", 1, None)?;
    let pod = cluster.json(&["get", "pod", "worker", "-n", &namespace.name])?;
    let uid = pod.pointer("/metadata/uid").context("no UID")?;
    let mut claim = claim_template(&namespace, "gpu", "gpu.nvidia.com", 1);
    claim["kind"] = json!("ResourceClaim");
    claim["spec"] = claim["spec"]["spec"].take();
    cluster.apply(&claim.to_string())?;
    let result =
        json!({ "request": "gpu", "driver": "gpu.nvidia.com", "pool": "node1", "device": "gpu-0" });
    let status = json!({ "status": {
        "allocation": { "devices": { "results": [result] } },
        "reservedFor": [{ "resource": "pods", "name": "worker", "uid": uid }],
    } });
    let claim = ["resourceclaim", "gpu", "-n", &namespace.name];
    let patch = format!("--patch={status}");
    let patch = ["--subresource=status", "--type=merge", &patch];
    cluster.kubectl(&[&["patch"], &claim[..], &patch].concat())?;
    upgrade(&cluster, &["--set=guard.override=false"])?;
    let claim = cluster.json(&[&["get"], &claim[..]].concat())?;
    let holder = claim.pointer("/status/reservedFor/0/name");
    ensure!(holder == Some(&json!("worker")), "{claim}");
    Ok(())
}
