//! The checkpoint is overwritten with garbage while the plugin is running: the plugin renames the file
//! and rebuilds the records from CDI specs and the API server. It does the same if the file is
//! missing when it starts, or an old one is restored. Running pods are not affected.

use anyhow::{Result, ensure};
use cluster_tests::fixtures::{self, TestDomain};
use cluster_tests::node_pod::NodePod;
use cluster_tests::{Cluster, Namespace, wait_until};

const CHECKPOINT: &str = "/var/lib/kubelet/plugins/compute-domain.nvidia.com/checkpoint.json";

// req: CKPT-13
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_holders_record_is_rebuilt_and_its_pod_leaves_nothing() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "damage")?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    fixtures::run_pod(&cluster, &namespace, "holder", 1, Some(&domain))?;
    let claim = fixtures::only_claim_uid(&cluster, &namespace)?;

    cluster.on_node(1, &format!("echo garbage > {CHECKPOINT}"))?;
    is_rebuilt(&cluster, &claim)?;
    // A running plugin has its records in memory; the next one does not.
    let plugin = NodePod::plugin(&cluster, 1)?;
    cluster.on_node(
        1,
        &format!("rm {CHECKPOINT} {CHECKPOINT}.*; {}", plugin.kill_command()?),
    )?;
    is_rebuilt(&cluster, &claim)?;
    the_pod_goes_without_trace(&cluster, &namespace, &plugin, &claim)
}

// req: CKPT-14
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn running_pods_keep_their_devices_when_a_backup_is_restored() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "backup")?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    fixtures::run_pod(&cluster, &namespace, "before", 1, Some(&domain))?;
    let delete = ["delete", "pod", "before", "-n", &namespace.name, "--wait"];
    cluster.kubectl(&delete)?;
    cluster.on_node(1, &format!("cp {CHECKPOINT} /tmp/backup.json"))?;
    fixtures::run_pod(&cluster, &namespace, "holder", 1, Some(&domain))?;
    let claim = fixtures::only_claim_uid(&cluster, &namespace)?;
    let plugin = NodePod::plugin(&cluster, 1)?;
    let put_back = format!("rm -f {CHECKPOINT}.*; cp /tmp/backup.json {CHECKPOINT}");

    // While the plugin is running, then with a restart.
    for then in ["true".to_owned(), plugin.kill_command()?] {
        cluster.on_node(1, &format!("{put_back}; {then}"))?;
        is_rebuilt(&cluster, &claim)?;
        let traces = fixtures::traces_on_node(&cluster, 1, &claim)?;
        ensure!(
            traces.contains(".yaml"),
            "its CDI spec is missing: {traces}"
        );
    }
    wait_until(&cluster, "the node's event names the claim", || {
        let reason = "--field-selector=reason=CheckpointRebuilt";
        let notes = [
            "get",
            "events",
            "-A",
            reason,
            "-o",
            "jsonpath={.items[*].message}",
        ];
        let notes = cluster.kubectl(&notes)?;
        ensure!(notes.contains(&format!("{}/", namespace.name)), "{notes}");
        Ok(())
    })?;
    the_pod_goes_without_trace(&cluster, &namespace, &plugin, &claim)
}

fn the_pod_goes_without_trace(
    cluster: &Cluster,
    namespace: &Namespace,
    plugin: &NodePod,
    claim: &str,
) -> Result<()> {
    wait_until(cluster, "the plugin is ready", || {
        ensure!(plugin.is_ready()?, "{:?}", plugin.log()?.lines().last());
        Ok(())
    })?;
    cluster.kubectl(&["delete", "pod", "holder", "-n", &namespace.name, "--wait"])?;
    let traces = fixtures::traces_on_node(cluster, 1, claim)?;
    ensure!(traces.is_empty(), "left: {traces}");
    Ok(())
}

fn is_rebuilt(cluster: &Cluster, claim: &str) -> Result<()> {
    wait_until(cluster, "the plugin has rebuilt the checkpoint", || {
        let text = cluster.on_node(1, &format!("cat {CHECKPOINT}; ls {CHECKPOINT}.*"))?;
        ensure!(text.contains(claim), "the holder is not in it: {text}");
        ensure!(
            text.contains("settled"),
            "the damaged file was not kept: {text}"
        );
        Ok(())
    })
}
