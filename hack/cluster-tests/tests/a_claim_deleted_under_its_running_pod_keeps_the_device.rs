//! A claim is deleted while its pod runs, including its finalizers. The scheduler then allocates the device
//! to the next pod; the node does not prepare it until the first pod has ended.

use anyhow::{Result, ensure};
use cluster_tests::fixtures::{self, TestDomain};
use cluster_tests::node_pod::NodePod;
use cluster_tests::{Cluster, Namespace, wait_until};

#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_next_pod_gets_the_device_when_the_first_has_ended() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "deleted-claim")?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    fixtures::run_pod(&cluster, &namespace, "first", 1, Some(&domain))?;
    let uid = fixtures::only_claim_uid(&cluster, &namespace)?;
    delete_by_force(&cluster, &namespace)?;

    fixtures::create_pod(&cluster, &namespace, "second", 1, Some(&domain))?;
    stays_held(&cluster, &uid)?;
    let events = cluster.events_about(&namespace.name, "second")?;
    ensure!(
        events
            .iter()
            .any(|event| event.contains("is still in use by claim")),
        "events of the second pod: {events:#?}"
    );
    let traces = fixtures::traces_on_node(&cluster, 1, &uid)?;
    ensure!(traces.lines().count() == 2, "of the first: {traces}");

    cluster.kubectl(&["delete", "pod", "first", "-n", &namespace.name, "--wait"])?;
    fixtures::wait_until_running(&cluster, &namespace, "second")?;
    let traces = fixtures::traces_on_node(&cluster, 1, &uid)?;
    ensure!(traces.is_empty(), "of the first: {traces}");
    Ok(())
}

/// kubelet calls Prepare only for the first pod of a claim.
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_last_pod_of_a_shared_claim_keeps_the_device_too() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "deleted-shared")?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    fixtures::create_claim(&cluster, &namespace, "shared", &domain)?;
    for name in ["one", "two"] {
        fixtures::run_pod_with_claim(&cluster, &namespace, name, 1, "shared")?;
    }
    let uid = fixtures::only_claim_uid(&cluster, &namespace)?;
    cluster.kubectl(&["delete", "pod", "one", "-n", &namespace.name, "--wait"])?;
    delete_by_force(&cluster, &namespace)?;

    fixtures::create_pod(&cluster, &namespace, "next", 1, Some(&domain))?;
    stays_held(&cluster, &uid)?;
    cluster.kubectl(&["delete", "pod", "two", "-n", &namespace.name, "--wait"])?;
    fixtures::wait_until_running(&cluster, &namespace, "next")
}

/// Waits until the plugin has searched for pods with the claim, and found one.
fn stays_held(cluster: &Cluster, uid: &str) -> Result<()> {
    let plugin = NodePod::plugin(cluster, 1)?;
    wait_until(cluster, "the plugin has searched for the pods", || {
        let log = plugin.log()?;
        let mut lines = log.lines().filter(|line| line.contains(uid));
        ensure!(
            lines.any(|line| line.contains("the device stays in use until that pod ends")),
            "not yet"
        );
        Ok(())
    })
}

fn delete_by_force(cluster: &Cluster, namespace: &Namespace) -> Result<()> {
    let claims = ["resourceclaims", "--all", "-n", &namespace.name];
    cluster.kubectl(&[&["delete", "--wait=false"], &claims[..]].concat())?;
    let patch = r#"{"metadata":{"finalizers":null}}"#;
    let names = ["get", "resourceclaims", "-n", &namespace.name, "-o=name"];
    for name in cluster.kubectl(&names)?.lines() {
        let namespace = ["-n", &namespace.name];
        cluster.kubectl(
            &[
                &["patch", name, "--type=merge", "-p", patch],
                &namespace[..],
            ]
            .concat(),
        )?;
    }
    Ok(())
}
