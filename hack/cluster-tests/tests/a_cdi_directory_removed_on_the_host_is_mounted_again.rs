//! The CDI directory of a node is removed and recreated. The plugin's container still has the removed
//! one mounted; it restarts, and the specs of prepared claims are in the new one.

use anyhow::{Result, ensure};
use cluster_tests::fixtures::{self, CHANNEL_PATH, TestDomain};
use cluster_tests::node_pod::NodePod;
use cluster_tests::{Cluster, Namespace, wait_until};

#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_specs_of_prepared_claims_are_in_the_new_directory_and_new_pods_run() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "removed-cdi")?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    fixtures::run_pod(&cluster, &namespace, "before", 1, Some(&domain))?;
    let uid = fixtures::only_claim_uid(&cluster, &namespace)?;
    let plugin = NodePod::plugin(&cluster, 1)?;
    let restarts = plugin.restarts()?;

    cluster.on_node(1, "rm -rf /var/run/cdi && mkdir /var/run/cdi")?;
    wait_until(&cluster, "the plugin's container has restarted", || {
        ensure!(plugin.restarts()? > restarts, "not yet");
        ensure!(plugin.is_ready()?, "it is not ready");
        Ok(())
    })?;
    wait_until(&cluster, "the claim's spec is in the new directory", || {
        let traces = fixtures::traces_on_node(&cluster, 1, &uid)?;
        ensure!(traces.lines().count() == 2, "{traces}");
        Ok(())
    })?;

    cluster.kubectl(&["delete", "pod", "before", "-n", &namespace.name, "--wait"])?;
    fixtures::run_pod(&cluster, &namespace, "after", 1, Some(&domain))?;
    let command = format!("test -c {CHANNEL_PATH}");
    let (found, text) = cluster.in_pod(&namespace.name, "after", &command)?;
    ensure!(found, "{text}");
    Ok(())
}
