//! `examples/one-clique/one-clique.yaml`, unchanged: all pods of its Job are on nodes of one NVLink clique. If that
//! clique is full, a pod waits although another clique has room.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use cluster_tests::cliques::{self, CLIQUE, LABEL_ENABLED, OTHER_CLIQUE};
use cluster_tests::fixtures::{BrokenDriver, ChartValue};
use cluster_tests::{Cluster, Namespace, wait_until};
use serde_json::Value;

const EXAMPLE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/one-clique/one-clique.yaml"
);

#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_pods_are_in_the_clique_of_the_first_one_and_wait_for_room_there() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "one-clique")?;
    let driver = BrokenDriver::install(2, &["--clique", OTHER_CLIQUE])?;
    // This restarts the plugins; they read their node at once.
    let _sharing = ChartValue::set(&cluster, "resources.computeDomains.imex.sharing", "many")?;
    let _label = ChartValue::set(&cluster, LABEL_ENABLED, "true")?;
    wait_until(&cluster, "each node has its own clique as label", || {
        let labels = [cliques::label(&cluster, 1)?, cliques::label(&cluster, 2)?];
        let labels = labels.each_ref().map(Option::as_deref);
        ensure!(labels == [Some(CLIQUE), Some(OTHER_CLIQUE)], "{labels:?}");
        Ok(())
    })?;

    cluster.kubectl(&["apply", "-n", &namespace.name, "-f", EXAMPLE])?;
    let node = only_node_of(&cluster, &namespace, 4)?;

    let full = Cordoned::new(&cluster, &node)?;
    let patch = r#"--patch={"spec":{"parallelism":5,"completions":5}}"#;
    cluster.kubectl(&["patch", "job", "one-clique", "-n", &namespace.name, patch])?;
    wait_until(
        &cluster,
        "the fifth pod has an event that says why it waits",
        || {
            let pods = pods(&cluster, &namespace)?;
            let waits = |pod: &&Value| pod.pointer("/spec/nodeName").is_none();
            let fifth = pods.iter().find(waits).context("none waits")?;
            let name = fifth.pointer("/metadata/name").and_then(Value::as_str);
            let events = cluster.events_about(&namespace.name, name.context("no name")?)?;
            let reported = |event: &String| {
                event.starts_with("FailedScheduling")
                    && event.contains("1 node(s) were unschedulable")
                    && event.contains("1 node(s) didn't match pod affinity rules")
            };
            ensure!(events.iter().any(reported), "its events: {events:#?}");
            Ok(())
        },
    )?;
    drop(full);
    ensure!(only_node_of(&cluster, &namespace, 5)? == node);
    // Before the plugins restart once more.
    driver.repair()
}

/// The node on which all pods of the Job run.
fn only_node_of(cluster: &Cluster, namespace: &Namespace, count: usize) -> Result<String> {
    let nodes = wait_until(cluster, &format!("{count} pods run"), || {
        let pods = pods(cluster, namespace)?;
        let running = pods
            .iter()
            .filter(|pod| pod.pointer("/status/phase").and_then(Value::as_str) == Some("Running"));
        let nodes: Vec<_> = running
            .filter_map(|pod| pod.pointer("/spec/nodeName")?.as_str())
            .map(str::to_owned)
            .collect();
        ensure!(nodes.len() == count, "{} run", nodes.len());
        Ok(nodes)
    })?;
    let mut nodes: Vec<_> = BTreeSet::from_iter(nodes).into_iter().collect();
    ensure!(nodes.len() == 1, "pods are on {nodes:?}");
    nodes.pop().context("no node")
}

fn pods(cluster: &Cluster, namespace: &Namespace) -> Result<Vec<Value>> {
    let of_job = "batch.kubernetes.io/job-name=one-clique";
    cluster.items(&["pods", "-n", &namespace.name, "-l", of_job])
}

/// A node that is cordoned until this is dropped.
struct Cordoned<'a> {
    cluster: &'a Cluster,
    node: &'a str,
}

impl<'a> Cordoned<'a> {
    fn new(cluster: &'a Cluster, node: &'a str) -> Result<Self> {
        let cordoned = Self { cluster, node };
        cluster.kubectl(&["cordon", node])?;
        Ok(cordoned)
    }
}

impl Drop for Cordoned<'_> {
    fn drop(&mut self) {
        drop(self.cluster.kubectl(&["uncordon", self.node])); // ignored: if it fails, the next test fails, too
    }
}
