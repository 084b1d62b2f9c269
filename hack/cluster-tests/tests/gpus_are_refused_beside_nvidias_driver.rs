//! Helm does not add the driver `gpu.nvidia.com` while another driver publishes devices with this name.

use anyhow::{Result, ensure};
use cluster_tests::Cluster;
use cluster_tests::permissions::new_slice;
use cluster_tests::release::{CHART, helm, helm_refuses};

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
    let slice = NvidiaSlice::create(&cluster)?;
    let output = helm_refuses(&cluster, "upgrade", &upgrade)?;
    ensure!(
        output.contains("another driver publishes gpu.nvidia.com on node2, and two plugins"),
        "helm printed: {output}"
    );
    drop(slice);
    helm(&cluster, "upgrade", &upgrade).map(drop)
}
