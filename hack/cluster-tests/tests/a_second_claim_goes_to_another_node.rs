//! A node has one channel: the pod with the second claim runs on another node, the one with the third
//! waits until a channel is free.

use anyhow::{Context as _, Result, ensure};
use cluster_tests::fixtures::{self, TestDomain};
use cluster_tests::{Cluster, Namespace};

// req: CHANNEL-3
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn three_pods_share_two_nodes_one_after_the_other() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "second-claim")?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;

    fixtures::run_pod(&cluster, &namespace, "first", 1, Some(&domain))?;
    fixtures::create_pod_anywhere(&cluster, &namespace, "second", &domain)?;
    fixtures::wait_until_running(&cluster, &namespace, "second")?;
    let node = node_of(&cluster, &namespace, "second")?;
    ensure!(node == "node2", "the second pod runs on {node:?}");

    fixtures::create_pod_anywhere(&cluster, &namespace, "third", &domain)?;
    fixtures::wait_until_unschedulable(&cluster, &namespace, "third")?;

    cluster.kubectl(&["delete", "pod", "first", "-n", &namespace.name, "--wait"])?;
    fixtures::wait_until_running(&cluster, &namespace, "third")?;
    let node = node_of(&cluster, &namespace, "third")?;
    ensure!(node == "node1", "the third pod runs on {node:?}");
    Ok(())
}

fn node_of(cluster: &Cluster, namespace: &Namespace, pod: &str) -> Result<String> {
    let pod = cluster.json(&["get", "pod", pod, "-n", &namespace.name])?;
    let node = pod
        .pointer("/spec/nodeName")
        .and_then(serde_json::Value::as_str);
    Ok(node.context("the pod has no node")?.to_owned())
}
