//! NVML reports that a node has no clique: Prepare fails with that reason, and succeeds once the node
//! has one, without a restart.

use anyhow::{Result, ensure};
use cluster_tests::fixtures::{self, BrokenDriver, TestDomain};
use cluster_tests::node_pod::NodePod;
use cluster_tests::{Cluster, Namespace, wait_until};

// req: NODE-9
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_pod_has_an_event_about_the_missing_clique_and_runs_when_the_node_has_one() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "no-clique")?;
    let domain = TestDomain::create(&cluster, &namespace, "lonely", "Single")?;
    let driver = BrokenDriver::install(2, &["--state", "not-supported"])?;
    // The plugin reads the clique when it starts, but otherwise again only after minutes.
    let plugin = NodePod::plugin(&cluster, 2)?.replace(2)?;
    wait_until(&cluster, "the plugin has noticed", || {
        let log = plugin.log()?;
        let last = log
            .lines()
            .rfind(|line| line.contains("fabric="))
            .unwrap_or_default();
        ensure!(
            last.contains("no clique"),
            "its last line about the fabric: {last}"
        );
        Ok(())
    })?;

    fixtures::create_pod(&cluster, &namespace, "worker", 2, Some(&domain))?;
    wait_until(&cluster, "the pod's event names the missing clique", || {
        let events = cluster.events_about(&namespace.name, "worker")?;
        let named = events.iter().any(|event| {
            event.starts_with("FailedPrepare") && event.contains("requires an NVLink clique")
        });
        ensure!(named, "its events: {events:#?}");
        Ok(())
    })?;

    driver.repair()?;
    fixtures::wait_until_running(&cluster, &namespace, "worker")
}
