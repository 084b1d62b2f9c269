//! The plugin is killed, kubelet is restarted, or both at once: running pods are not affected, new pods get
//! their channel, and deleted pods are cleaned up.

use anyhow::{Result, ensure};
use cluster_tests::fixtures::{self, CHANNEL_PATH, TestDomain};
use cluster_tests::node_pod::NodePod;
use cluster_tests::{Cluster, Namespace, wait_until};

// req: NODE-22
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_killed_plugin_serves_the_next_pod_and_cleans_up_the_last() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "killed-plugin")?;
    survives(&cluster, &namespace, || {
        let pod = NodePod::plugin(&cluster, 1)?;
        let before = pod.restarts()?;
        pod.kill(1)?;
        wait_until(&cluster, "kubelet has restarted the plugin", || {
            ensure!(pod.restarts()? > before, "not yet");
            Ok(())
        })
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_restarted_kubelet_finds_the_plugin_again() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "restarted-kubelet")?;
    survives(&cluster, &namespace, || {
        cluster.script(&["restart", "kubelet-1"], "").map(drop)
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn both_recover_when_killed_at_once() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "both-dead")?;
    survives(&cluster, &namespace, || {
        let plugin = NodePod::plugin(&cluster, 1)?;
        cluster.script(&["kill", "kubelet-1"], "")?;
        plugin.kill(1)?;
        cluster.script(&["start", "kubelet-1"], "").map(drop)
    })
}

/// Runs a pod with its channel, then `disaster`. The pod must still have the channel, leave
/// nothing behind when it is deleted, and the next pod must get the channel.
fn survives(
    cluster: &Cluster,
    namespace: &Namespace,
    disaster: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let domain = TestDomain::create(cluster, namespace, "train", "Single")?;
    fixtures::run_pod(cluster, namespace, "before", 1, Some(&domain))?;
    let claim = fixtures::only_claim_uid(cluster, namespace)?;

    disaster()?;

    wait_until(cluster, "the first pod still has its channel", || {
        let (found, text) = cluster.in_pod(
            &namespace.name,
            "before",
            &format!("test -c {CHANNEL_PATH}"),
        )?;
        ensure!(found, "{text}");
        Ok(())
    })?;
    cluster.kubectl(&[
        "delete",
        "pod",
        "before",
        "-n",
        &namespace.name,
        "--wait=false",
    ])?;
    fixtures::run_pod(cluster, namespace, "after", 1, Some(&domain))?;
    let (found, text) =
        cluster.in_pod(&namespace.name, "after", &format!("test -c {CHANNEL_PATH}"))?;
    ensure!(found, "{text}");
    let traces = fixtures::traces_on_node(cluster, 1, &claim)?;
    ensure!(
        traces.is_empty(),
        "the first pod's claim is still prepared: {traces}"
    );
    Ok(())
}
