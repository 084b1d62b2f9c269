//! The NVIDIA driver or the channel major is missing: the plugin keeps running, is not ready,
//! logs the reason, and recovers without a restart once the host is repaired.

use anyhow::{Result, ensure};
use cluster_tests::fixtures::BrokenDriver;
use cluster_tests::node_pod::NodePod;
use cluster_tests::{Cluster, wait_until};

const NODE: u8 = 2;

// req: NODE-31
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn without_libnvidia_ml_the_plugin_is_unready_logs_why_and_recovers() -> Result<()> {
    broken_and_repaired("--no-library", "libnvidia-ml.so.1")
}

// req: NODE-31
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn without_channel_major_the_plugin_is_unready_logs_why_and_recovers() -> Result<()> {
    broken_and_repaired("--no-major", "nvidia-caps-imex-channels")
}

/// Breaks the node and replaces the plugin's pod: the new one waits and logs what
/// is missing. Then repairs the node: the same container recovers.
fn broken_and_repaired(how: &str, named: &str) -> Result<()> {
    let cluster = Cluster::connect()?;
    let driver = BrokenDriver::install(NODE, &[how])?;
    let pod = NodePod::plugin(&cluster, NODE)?.replace(NODE)?;

    wait_until(
        &cluster,
        "the plugin logs what is missing and publishes nothing",
        || {
            let log = pod.log()?;
            ensure!(log.contains(named), "its log does not name {named}: {log}");
            let slices = slices(&cluster)?;
            ensure!(slices == 0, "it publishes {slices} slices");
            Ok(())
        },
    )?;
    ensure!(
        !pod.is_ready()?,
        "the pod is ready although its node is broken"
    );

    driver.repair()?;
    wait_until(&cluster, "the plugin is ready and publishes again", || {
        ensure!(pod.is_ready()?, "not ready");
        ensure!(slices(&cluster)? == 1, "no slice");
        Ok(())
    })?;
    ensure!(
        pod.restarts()? == 0,
        "the plugin was restarted; it must wait"
    );
    Ok(())
}

fn slices(cluster: &Cluster) -> Result<usize> {
    let selector = format!("--field-selector=spec.nodeName=node{NODE}");
    Ok(cluster.items(&["resourceslices", &selector])?.len())
}
