//! Driver-managed IMEX: a Node that is deleted and registered again gets its index in the node list back
//! at once, and a clique that the API server refuses is reported in status and events, not only logged.

use anyhow::{Context as _, Result, ensure};
use cluster_tests::cliques::CLIQUE;
use cluster_tests::fixtures::{self, DOMAINS, TestDomain};
use cluster_tests::imex_members::{self, CLIQUES};
use cluster_tests::node_pod::NAMESPACE;
use cluster_tests::{Cluster, Namespace, wait_until};
use serde_json::Value;

/// The index of a removed node is kept for five minutes, longer than any wait here.
// req: DM-4
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_node_that_is_deleted_and_registered_again_gets_its_index_back_at_once() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "registered-again")?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    let before = imex_members::wait_until_ready(&cluster)?;
    let uid = node_uid(&cluster)?;

    cluster.script(&["stop", "kubelet-2"], "")?;
    cluster.kubectl(&["delete", "node", "node2", "--wait"])?;
    wait_until(&cluster, "the member is not ready", || {
        let members = imex_members::of(&cluster, CLIQUE)?;
        let is_ready = |it: &imex_members::Member| it.node == "node2" && it.is_ready;
        ensure!(!members.iter().any(is_ready), "{members:?}");
        Ok(())
    })?;
    cluster.script(&["start", "kubelet-2"], "")?;
    wait_until(&cluster, "the node is registered again", || {
        ensure!(node_uid(&cluster)? != uid, "it is the old one");
        let label = [
            "label",
            "--overwrite",
            "node/node2",
            "nvidia.com/gpu.present=true",
        ];
        cluster.kubectl(&label).map(drop)
    })?;

    let after = imex_members::wait_until_ready(&cluster)?;
    let places = |members: &[imex_members::Member]| -> Vec<_> {
        let places = members.iter().map(|it| (it.node.clone(), it.index));
        places.collect()
    };
    ensure!(places(&after) == places(&before), "{before:?} {after:?}");
    fixtures::run_pod(&cluster, &namespace, "worker", 2, Some(&domain))
}

// req: DM-8
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_clique_that_a_quota_refuses_is_reported_in_the_domain_until_the_quota_allows_it() -> Result<()>
{
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "refused-clique")?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    imex_members::wait_until_ready(&cluster)?;
    fixtures::run_pod(&cluster, &namespace, "worker", 1, Some(&domain))?;

    let quota = Quota::forbid(&cluster)?;
    cluster.kubectl(&["delete", CLIQUES, CLIQUE, "-n", NAMESPACE])?;
    wait_until(&cluster, "the ComputeDomain has the reason", || {
        let ready = nodes_ready(&cluster, &namespace)?;
        let text = ready.to_string();
        ensure!(
            text.contains("CliqueRefused") && text.contains("exceeded quota"),
            "{text}"
        );
        Ok(())
    })?;
    let events = cluster.events_about(NAMESPACE, CLIQUE)?;
    let named = events.iter().any(|it| it.starts_with("CliqueRefused: "));
    ensure!(named, "the events of the clique: {events:#?}");

    drop(quota);
    imex_members::wait_until_ready(&cluster)?;
    wait_until(&cluster, "its nodes are ready", || {
        let ready = nodes_ready(&cluster, &namespace)?;
        ensure!(ready.to_string().contains("NodesReady"), "{ready}");
        Ok(())
    })
}

fn node_uid(cluster: &Cluster) -> Result<Value> {
    let node = cluster.json(&["get", "node", "node2"])?;
    node.pointer("/metadata/uid").cloned().context("no UID")
}

/// The condition about the nodes of the ComputeDomain `train`.
fn nodes_ready(cluster: &Cluster, namespace: &Namespace) -> Result<Value> {
    let domain = cluster.json(&["get", DOMAINS, "train", "-n", &namespace.name])?;
    let conditions = domain
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let ready = conditions.find(|it| it.get("type").is_some_and(|it| it == "NodesReady"));
    let ready = ready.with_context(|| format!("no condition: {domain}"))?;
    Ok(serde_json::json!([
        ready.get("reason"),
        ready.get("message")
    ]))
}

/// A quota that allows no `ComputeDomainClique` in the driver's namespace, until this is dropped.
struct Quota<'a>(&'a Cluster);

const QUOTA: &str = "no-cliques";

impl<'a> Quota<'a> {
    fn forbid(cluster: &'a Cluster) -> Result<Self> {
        let count = format!("--hard=count/{CLIQUES}=0");
        cluster.kubectl(&["create", "quota", QUOTA, "-n", NAMESPACE, &count])?;
        let quota = Self(cluster);
        wait_until(cluster, "the quota is enforced", || {
            let status = cluster.json(&["get", "quota", QUOTA, "-n", NAMESPACE])?;
            let used = status.pointer("/status/used");
            ensure!(used.is_some(), "{status}");
            Ok(())
        })?;
        Ok(quota)
    }
}

impl Drop for Quota<'_> {
    fn drop(&mut self) {
        drop(self.0.kubectl(&["delete", "quota", QUOTA, "-n", NAMESPACE]));
    }
}
