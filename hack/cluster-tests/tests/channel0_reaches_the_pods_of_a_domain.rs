//! The driver's main purpose: the pods of a ComputeDomain get channel 0 on their nodes, other pods do not, and
//! nothing is left after their deletion.

use anyhow::{Result, ensure};
use cluster_tests::fixtures::{self, CHANNEL_PATH, TestDomain};
use cluster_tests::{Cluster, Namespace, wait_until};

// req: CHANNEL-1
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_pod_on_each_node_opens_the_mocks_channel_and_a_pod_without_the_claim_cannot() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "channel0")?;
    let domain = TestDomain::create(&cluster, &namespace, "train-a", "Single")?;

    for node in [1, 2] {
        let pod = worker_on(&cluster, &namespace, node, &domain)?;
        the_channel_matches_the_mock(&cluster, &namespace, &pod, node)?;
    }
    a_pod_without_the_claim_gets_eperm(&cluster, &namespace)?;
    Ok(())
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn deleted_pods_and_domains_leave_nothing() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "cleanup")?;
    let domain = TestDomain::create(&cluster, &namespace, "train-b", "Single")?;
    for node in [1, 2] {
        worker_on(&cluster, &namespace, node, &domain)?;
    }
    let claims = fixtures::claim_uids(&cluster, &namespace)?;
    ensure!(claims.len() == 2, "two pods, so two claims, not {claims:?}");
    let before = fixtures::traces_on_node(&cluster, 1, &claims[0])?
        + &fixtures::traces_on_node(&cluster, 1, &claims[1])?;
    ensure!(
        before.lines().count() == 2,
        "node 1 has one CDI file and one checkpoint entry, not {before:?}"
    );

    cluster.kubectl(&["delete", "pods", "--all", "-n", &namespace.name, "--wait"])?;
    domain.delete(&cluster, &namespace)?;

    wait_until(&cluster, "claims and template are deleted", || {
        let left = cluster.kubectl(&[
            "get",
            "resourceclaims,resourceclaimtemplates",
            "-n",
            &namespace.name,
            "-o",
            "name",
        ])?;
        ensure!(left.trim().is_empty(), "left: {left}");
        Ok(())
    })?;
    for (node, claim) in [1, 2]
        .into_iter()
        .flat_map(|node| claims.iter().map(move |claim| (node, claim)))
    {
        wait_until(
            &cluster,
            &format!("node {node} has removed claim {claim}"),
            || {
                let traces = fixtures::traces_on_node(&cluster, node, claim)?;
                ensure!(traces.is_empty(), "left: {traces}");
                Ok(())
            },
        )?;
    }
    Ok(())
}

/// Runs a pod with a claim for the domain's channel.
fn worker_on(
    cluster: &Cluster,
    namespace: &Namespace,
    node: u8,
    domain: &TestDomain,
) -> Result<String> {
    let pod = format!("worker-{node}");
    fixtures::run_pod(cluster, namespace, &pod, node, Some(domain))?;
    Ok(pod)
}

fn the_channel_matches_the_mock(
    cluster: &Cluster,
    namespace: &Namespace,
    pod: &str,
    node: u8,
) -> Result<()> {
    let (_, stat) = cluster.in_pod(
        &namespace.name,
        pod,
        &format!("stat -c '%F %a %t %T' {CHANNEL_PATH}"),
    )?;
    let expected = format!(
        "character special file 666 {:x} 0",
        fixtures::mock_major(cluster, node)?
    );
    ensure!(
        stat.trim() == expected,
        "the channel in {pod} is {stat:?}, not {expected:?}"
    );

    // The mock's major has no kernel driver: open() fails with ENXIO if the device
    // cgroup permits it, otherwise with EPERM.
    let (opened, text) = cluster.in_pod(&namespace.name, pod, &format!("cat {CHANNEL_PATH}"))?;
    ensure!(
        !opened && text.contains("No such device or address"),
        "open() of the channel failed with {text:?}, not ENXIO"
    );
    Ok(())
}

fn a_pod_without_the_claim_gets_eperm(cluster: &Cluster, namespace: &Namespace) -> Result<()> {
    fixtures::run_pod(cluster, namespace, "outsider", 1, None)?;
    let major = fixtures::mock_major(cluster, 1)?;
    let command = format!("mknod /tmp/channel0 c {major} 0 && cat /tmp/channel0");
    let (opened, text) = cluster.in_pod(&namespace.name, "outsider", &command)?;
    ensure!(
        !opened && text.contains("Operation not permitted"),
        "open() without a claim failed with {text:?}, not EPERM"
    );
    ensure!(text.contains("open"), "mknod failed, not open(): {text:?}");
    Ok(())
}
