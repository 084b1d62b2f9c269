//! A GPU of a node in use falls off the bus: the node stays published with its clique, pods get their channel and
//! a warning, and the node has an event about the fault.

use anyhow::{Result, ensure};
use cluster_tests::fixtures::{self, BrokenDriver, TestDomain};
use cluster_tests::node_pod::NodePod;
use cluster_tests::{Cluster, Namespace, wait_until};
use serde_json::Value;

const NODE: u8 = 2;

/// NVML's `GPU_IS_LOST` for the second of four GPUs.
const LOST: &str = "nvmlDeviceGetHandleByIndex_v2@1=15";

// req: NODE-43
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_lost_gpu_is_reported_for_its_node_and_for_prepared_claims() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "bad-gpu")?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    let _driver = BrokenDriver::install(NODE, &["--error", LOST])?;

    // With prepared claims, the plugin checks its node every minute.
    fixtures::run_pod(&cluster, &namespace, "before", NODE, Some(&domain))?;
    wait_until(&cluster, "an event names the lost GPU", || {
        let events = cluster.events_about("default", "node2")?;
        let named = events.iter().any(|event| {
            event.starts_with("FabricDegraded")
                && event.contains("without gpu 1 (GPU-")
                && event.contains("NVML_ERROR_GPU_IS_LOST")
        });
        ensure!(named, "its events: {events:#?}");
        Ok(())
    })?;
    let plugin = NodePod::plugin(&cluster, NODE)?;
    ensure!(plugin.is_ready()?, "the plugin is not ready");
    let slices = cluster.items(&["resourceslices", "--field-selector=spec.nodeName=node2"])?;
    let clique = slices
        .first()
        .and_then(|slice| slice.pointer("/spec/devices/0/attributes/clique"));
    ensure!(clique.is_some(), "its slices: {slices:#?}");

    cluster.kubectl(&["delete", "pod", "before", "-n", &namespace.name, "--wait"])?;
    fixtures::run_pod(&cluster, &namespace, "after", NODE, Some(&domain))?;
    wait_until(&cluster, "an event warns the claim", || {
        let claims = cluster.items(&["resourceclaims", "-n", &namespace.name])?;
        let names = claims
            .iter()
            .filter_map(|claim| claim.pointer("/metadata/name").and_then(Value::as_str));
        let mut events = Vec::new();
        for name in names {
            events.extend(cluster.events_about(&namespace.name, name)?);
        }
        let warned = events
            .iter()
            .any(|event| event.starts_with("FabricDegraded"));
        ensure!(warned, "their events: {events:#?}");
        Ok(())
    })
}
