//! `imex.sharing=many` on a control plane without the feature gate `DRAConsumableCapacity`, the default before
//! Kubernetes 1.36: one claim has a node's device at a time, and an event of the node says why.

use anyhow::{Result, ensure};
use cluster_tests::fixtures::{self, ChartValue, TestDomain};
use cluster_tests::{Cluster, Namespace, wait_until};

#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_second_pod_waits_for_the_first_and_an_event_of_the_node_says_why() -> Result<()> {
    let cluster = Cluster::connect()?;
    let _gates = Gates::set(&cluster, "DRAConsumableCapacity=false")?;
    let namespace = Namespace::create(&cluster, "no-sharing")?;
    let _sharing = ChartValue::set(&cluster, "resources.computeDomains.imex.sharing", "many")?;
    wait_until(&cluster, "the nodes have the event", || {
        for node in ["node1", "node2"] {
            let events = cluster.events_about("default", node)?;
            let reported = |event: &&String| event.contains("DRAConsumableCapacity");
            let count = events.iter().filter(reported).count();
            ensure!(count == 1, "{count} events of {node}: {events:#?}");
        }
        Ok(())
    })?;
    for node in [1, 2] {
        let device = fixtures::published_device(&cluster, node)?;
        ensure!(device.get("allowMultipleAllocations").is_none(), "{device}");
    }

    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    let before = template(&cluster, &namespace)?;
    fixtures::run_pod(&cluster, &namespace, "first", 1, Some(&domain))?;
    fixtures::create_pod(&cluster, &namespace, "second", 1, Some(&domain))?;
    fixtures::wait_until_unschedulable(&cluster, &namespace, "second")?;
    cluster.kubectl(&["delete", "pod", "first", "-n", &namespace.name, "--wait"])?;
    fixtures::wait_until_running(&cluster, &namespace, "second")?;
    // The API server has dropped a field of the template: the controller does not try to repair that.
    let after = template(&cluster, &namespace)?;
    ensure!(after == before, "{before} has become {after}");
    Ok(())
}

/// The template's UID and version.
fn template(cluster: &Cluster, namespace: &Namespace) -> Result<String> {
    let path = "jsonpath={.metadata.uid} {.metadata.resourceVersion}";
    let get = ["get", "resourceclaimtemplate", "train-channel"];
    let options = ["-n", &namespace.name, "-o", path];
    cluster.kubectl(&[&get[..], &options].concat())
}

/// Feature gates of the control plane, reset to the defaults when this is dropped.
struct Gates<'a>(&'a Cluster);

impl<'a> Gates<'a> {
    fn set(cluster: &'a Cluster, gates: &str) -> Result<Self> {
        let set = Self(cluster);
        set.restart_with(gates)?;
        Ok(set)
    }

    fn restart_with(&self, gates: &str) -> Result<()> {
        self.0.script(&["gates", gates], "")?;
        for component in ["apiserver", "scheduler"] {
            self.0.script(&["restart", component], "")?;
        }
        wait_until(self.0, "the API server is ready", || {
            self.0.kubectl(&["get", "--raw", "/readyz"]).map(drop)
        })
    }
}

impl Drop for Gates<'_> {
    fn drop(&mut self) {
        drop(self.restart_with("")); // ignored: if it fails, the next test fails, too
    }
}
