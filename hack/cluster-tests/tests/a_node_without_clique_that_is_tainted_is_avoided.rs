//! With `imex.withoutClique=taint`, pods go to nodes that have a clique. If none is free, the ComputeDomain's
//! status says why its claim waits, until it no longer waits.

use anyhow::{Context as _, Result, ensure};
use cluster_tests::cliques::CLIQUE;
use cluster_tests::fixtures::{self, BrokenDriver, ChartValue, DOMAINS, TestDomain};
use cluster_tests::node_pod::NodePod;
use cluster_tests::{Cluster, Namespace, wait_until};
use serde_json::Value;

#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn pods_go_to_the_node_with_a_clique_and_the_domain_reports_when_it_is_full() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "tainted")?;
    let driver = BrokenDriver::install(2, &["--state", "not-supported"])?;
    // This restarts the plugins; they read their node at once.
    let key = "resources.computeDomains.imex.withoutClique";
    let _taint = ChartValue::set(&cluster, key, "taint")?;
    wait_until(
        &cluster,
        "only node2 has a taint, and only node1 a clique",
        || {
            let (with, without) = (
                fixtures::published_device(&cluster, 1)?,
                fixtures::published_device(&cluster, 2)?,
            );
            ensure!(
                taint(&with).is_none() && clique(&with) == Some(CLIQUE),
                "node1: {with}"
            );
            ensure!(
                taint(&without) == Some("compute-domain.nvidia.com/no-clique")
                    && clique(&without).is_none(),
                "node2: {without}"
            );
            Ok(())
        },
    )?;

    let domain = TestDomain::create(&cluster, &namespace, "picky", "Single")?;
    fixtures::create_pod_anywhere(&cluster, &namespace, "first", &domain)?;
    fixtures::wait_until_running(&cluster, &namespace, "first")?;
    ensure!(node_of(&cluster, &namespace, "first")? == "node1");

    // The only node with a clique is taken.
    fixtures::create_pod_anywhere(&cluster, &namespace, "second", &domain)?;
    wait_until(&cluster, "the domain has the condition", || {
        let message = message(&cluster, &namespace)?.context("not yet")?;
        ensure!(
            message.contains("1 of 2 nodes with IMEX channels are not in an NVLink clique"),
            "{message}"
        );
        let events = cluster.events_about(&namespace.name, "picky")?;
        let is_it = |event: &&String| event.starts_with("NodesWithoutClique");
        ensure!(
            events.iter().filter(is_it).count() == 1,
            "its events: {events:#?}"
        );
        Ok(())
    })?;

    driver.repair()?;
    NodePod::plugin(&cluster, 2)?.replace(2)?;
    fixtures::wait_until_running(&cluster, &namespace, "second")?;
    ensure!(node_of(&cluster, &namespace, "second")? == "node2");
    wait_until(&cluster, "the condition is removed", || {
        let message = message(&cluster, &namespace)?;
        ensure!(message.is_none(), "{message:?}");
        Ok(())
    })
}

fn taint(device: &Value) -> Option<&str> {
    device.pointer("/taints/0/key")?.as_str()
}

fn clique(device: &Value) -> Option<&str> {
    device.pointer("/attributes/clique/string")?.as_str()
}

fn node_of(cluster: &Cluster, namespace: &Namespace, pod: &str) -> Result<String> {
    let path = "jsonpath={.spec.nodeName}";
    cluster.kubectl(&["get", "pod", pod, "-n", &namespace.name, "-o", path])
}

/// The condition's message.
fn message(cluster: &Cluster, namespace: &Namespace) -> Result<Option<String>> {
    let domain = cluster.json(&["get", DOMAINS, "picky", "-n", &namespace.name])?;
    let conditions = domain.pointer("/status/conditions");
    let conditions = conditions.and_then(Value::as_array).into_iter().flatten();
    let mut messages = conditions
        .filter(|it| it.pointer("/type").and_then(Value::as_str) == Some("NodesWithoutClique"))
        .filter_map(|it| it.pointer("/message")?.as_str());
    Ok(messages.next().map(str::to_owned))
}
