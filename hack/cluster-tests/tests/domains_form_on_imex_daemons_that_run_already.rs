//! Driver-managed IMEX: a ComputeDomain is a channel in the IMEX domain of its nodes. It forms without changes
//! to daemons, and its status has the nodes of its pods.

use anyhow::{Context as _, Result, ensure};
use cluster_tests::cliques::CLIQUE;
use cluster_tests::fixtures::{self, DOMAINS, TestDomain};
use cluster_tests::node_pod::NodePod;
use cluster_tests::{Cluster, Namespace, channels, imex_members, wait_until};
use serde_json::Value;

// req: MODE-21
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn domains_on_the_same_nodes_do_not_change_the_daemons() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "formed")?;
    imex_members::wait_until_ready(&cluster)?;
    let before = what_domains_cost(&cluster)?;

    for name in ["red", "blue"] {
        let domain = TestDomain::create(&cluster, &namespace, name, "Single")?;
        for node in [1, 2] {
            let pod = format!("{name}-{node}");
            fixtures::create_pod(&cluster, &namespace, &pod, node, Some(&domain))?;
        }
    }
    for name in ["red", "blue"] {
        let channel = channels::of_domain(&cluster, &namespace, name)?;
        for node in [1, 2] {
            let pod = format!("{name}-{node}");
            fixtures::wait_until_running(&cluster, &namespace, &pod)?;
            channels::sees_only(&cluster, &namespace, &pod, channel)?;
        }
        until_its_nodes_are(&cluster, &namespace, name, &["node1 Ready", "node2 Ready"])?;
    }
    let (red, blue) = (
        channels::of_domain(&cluster, &namespace, "red")?,
        channels::of_domain(&cluster, &namespace, "blue")?,
    );
    ensure!(red != blue, "both have channel {red}");
    channels::may_not_open(&cluster, &namespace, ("red-1", 1), blue)?;

    let delete = ["delete", "pods", "--all", "-n", &namespace.name, "--wait"];
    cluster.kubectl(&delete)?;
    for name in ["red", "blue"] {
        until_its_nodes_are(&cluster, &namespace, name, &[])?;
    }
    ensure!(
        what_domains_cost(&cluster)? == before,
        "before: {before:#?}"
    );
    Ok(())
}

// req: MODE-22
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_domain_is_ready_when_its_pods_are_on_num_nodes_nodes() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "counted")?;
    imex_members::wait_until_ready(&cluster)?;
    let domain = TestDomain::create_for_nodes(&cluster, &namespace, "pair", 2)?;

    // The domain's pods do not wait until it is Ready.
    fixtures::run_pod(&cluster, &namespace, "first", 1, Some(&domain))?;
    until_its_nodes_are(&cluster, &namespace, "pair", &["node1 Ready"])?;
    domain.is(&cluster, &namespace, "NotReady")?;
    let line = [
        "get",
        DOMAINS,
        "pair",
        "-n",
        &namespace.name,
        "--no-headers",
    ];
    let line = cluster.kubectl(&line)?;
    ensure!(line.contains("NodesMissing"), "{line}");
    fixtures::run_pod(&cluster, &namespace, "second", 2, Some(&domain))?;
    wait_until(&cluster, "the domain is Ready", || {
        domain.is(&cluster, &namespace, "Ready")
    })
}

/// The daemons' actions and the clique's version: domains must not change them.
fn what_domains_cost(cluster: &Cluster) -> Result<Vec<String>> {
    let clique = imex_members::object(cluster, CLIQUE)?;
    let version = clique.pointer("/metadata/resourceVersion");
    let version = version.and_then(Value::as_str).context("no version")?;
    let mut cost = vec![format!("version {version}")];
    for node in [1, 2] {
        let metrics = NodePod::imex_daemon(cluster, node)?.metrics()?;
        let counted = ["starts", "signals", "hosts_writes", "exits"];
        let is_counted = |line: &&str| {
            let mut names = counted.iter();
            names.any(|name| line.starts_with(&format!("imex_dra_imex_{name}_total")))
        };
        let lines = metrics.lines().filter(is_counted);
        cost.extend(lines.map(|line| format!("node{node} {line}")));
    }
    ensure!(cost.len() > 8, "{cost:#?}");
    Ok(cost)
}

fn until_its_nodes_are(
    cluster: &Cluster,
    namespace: &Namespace,
    domain: &str,
    expected: &[&str],
) -> Result<()> {
    let what = format!("{domain} has the nodes {expected:?}");
    wait_until(cluster, &what, || {
        let domain = cluster.json(&["get", DOMAINS, domain, "-n", &namespace.name])?;
        let nodes = domain.pointer("/status/nodes").and_then(Value::as_array);
        let text = |node: &Value, field| {
            let text = node.get(field).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let nodes = nodes.into_iter().flatten();
        let nodes = nodes.map(|it| format!("{} {}", text(it, "name"), text(it, "status")));
        let mut nodes: Vec<_> = nodes.collect();
        nodes.sort();
        ensure!(nodes == expected, "{nodes:?}");
        Ok(())
    })
}
