//! With `imex.groupClaims`, one claim gives the pods of a group one IMEX channel, on all nodes of an NVLink
//! clique.

use anyhow::{Context as _, Result, ensure};
use cluster_tests::channels::{may_not_open, sees_only};
use cluster_tests::cliques::{CLIQUE, LABEL, LABEL_ENABLED};
use cluster_tests::fixtures::{self, ChartValue, DOMAINS, TestDomain};
use cluster_tests::{Cluster, Namespace, wait_until};
use serde_json::{Value, json};

/// Deletes the slices of cliques' pools at the end; the controller would do that after ten minutes.
struct PoolCleanup(Cluster);

impl Drop for PoolCleanup {
    fn drop(&mut self) {
        let names = [1, 2].map(|number| format!("compute-domain-clique-{CLIQUE}-{number}"));
        let [first, second] = &names;
        let delete = [
            "delete",
            "resourceslices",
            "--ignore-not-found",
            first,
            second,
        ];
        // Ignored: if it matters, the next test fails.
        drop(self.0.kubectl(&delete));
    }
}

// req: CHANNEL-18
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_pods_of_a_group_have_its_channel_on_both_nodes_and_another_group_has_another() -> Result<()>
{
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "groups")?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    // Dropped in reverse order.
    let _pools = PoolCleanup(cluster.clone());
    let _label = ChartValue::set(&cluster, LABEL_ENABLED, "true")?;
    wait_until(
        &cluster,
        "both nodes have the label of their clique",
        || {
            let labelled = format!("{LABEL}={CLIQUE}");
            let nodes = cluster.items(&["nodes", "-l", &labelled])?;
            ensure!(nodes.len() == 2, "{} of 2", nodes.len());
            Ok(())
        },
    )?;
    let _groups = ChartValue::set(
        &cluster,
        "resources.computeDomains.imex.groupClaims",
        "true",
    )?;
    let mut channels = Vec::new();
    for group in ["red", "blue"] {
        create_group_claim(&cluster, &namespace, group)?;
        for node in [1, 2] {
            let pod = format!("{group}-{node}");
            fixtures::create_pod_with_claim(&cluster, &namespace, &pod, node, group)?;
        }
        for node in [1, 2] {
            fixtures::wait_until_running(&cluster, &namespace, &format!("{group}-{node}"))?;
        }
        channels.push(allocated(&cluster, &namespace, group)?);
    }
    let [red, blue] = channels[..] else {
        unreachable!()
    };
    ensure!(
        red != blue && red > 0 && blue > 0,
        "channels {red} and {blue}"
    );
    // In addition to pods that have the node's device.
    fixtures::run_pod(&cluster, &namespace, "of-the-domain", 1, Some(&domain))?;
    for (pod, node, own) in [
        ("red-1", 1, red),
        ("red-2", 2, red),
        ("blue-1", 1, blue),
        ("blue-2", 2, blue),
        ("of-the-domain", 1, 0),
    ] {
        sees_only(&cluster, &namespace, pod, own)?;
        for other in [red, blue, 0].into_iter().filter(|other| *other != own) {
            may_not_open(&cluster, &namespace, (pod, node), other)?;
        }
    }
    the_channel_of_a_claim_in_use_stays_allocated(&cluster, &namespace, [red, blue])?;
    claims_end_with_their_pods(&cluster, &namespace)
}

/// Users who may edit claims cannot free the claim `red` while its pods run.
fn the_channel_of_a_claim_in_use_stays_allocated(
    cluster: &Cluster,
    namespace: &Namespace,
    taken: [u64; 2],
) -> Result<()> {
    let of = ["resourceclaim", "red", "-n", &namespace.name];
    let on_it = |verb: &'static str, change: &[&'static str]| {
        let command: Vec<&str> = [&[verb], &of[..], change].concat();
        command
    };
    let without_finalizer = r#"--patch={"metadata":{"finalizers":null}}"#;
    let without_finalizer = on_it("patch", &["--type=merge", without_finalizer]);
    cluster.kubectl_refused(&without_finalizer, "delete the pods")?;
    let label = on_it("label", &["resource.nvidia.com/computeDomain=another"]);
    cluster.kubectl_refused(&label, "is immutable")?;
    // Other changes are allowed.
    cluster.kubectl(&on_it("annotate", &["note=mine"]))?;
    cluster.kubectl(&on_it("delete", &["--wait=false"]))?;
    cluster.kubectl_refused(&without_finalizer, "delete the pods")?;

    create_group_claim(cluster, namespace, "green")?;
    fixtures::run_pod_with_claim(cluster, namespace, "green-1", 1, "green")?;
    let green = allocated(cluster, namespace, "green")?;
    ensure!(!taken.contains(&green), "channel {green} of {taken:?}");
    sees_only(cluster, namespace, "green-1", green)
}

/// Covers a claim that was deleted before, an unused one, and one in a deleted namespace.
fn claims_end_with_their_pods(cluster: &Cluster, namespace: &Namespace) -> Result<()> {
    let name = namespace.name.as_str();
    let pods = ["red-1", "red-2", "blue-1", "blue-2"];
    cluster.kubectl(&[&["delete", "pod", "-n", name, "--wait"], &pods[..]].concat())?;
    wait_until(cluster, "the claim red is deleted", || {
        let get = ["get", "resourceclaim", "red", "-n", name, "-o=name"];
        let left = cluster.kubectl(&[&get[..], &["--ignore-not-found"]].concat())?;
        ensure!(left.is_empty(), "it exists");
        Ok(())
    })?;
    wait_until(cluster, "the claim blue is not allocated", || {
        let claim = cluster.json(&["get", "resourceclaim", "blue", "-n", name])?;
        ensure!(claim.pointer("/status/allocation").is_none(), "{claim}");
        Ok(())
    })?;
    let in_time = ["--wait", "--timeout=120s"];
    cluster.kubectl(
        &[
            &["delete", "resourceclaim", "blue", "-n", name],
            &in_time[..],
        ]
        .concat(),
    )?;
    cluster.kubectl(&[&["delete", "namespace", name], &in_time[..]].concat())?;
    Ok(())
}

/// Creates a claim for any channel of a clique, for the domain `train`.
fn create_group_claim(cluster: &Cluster, namespace: &Namespace, name: &str) -> Result<()> {
    let domain = cluster.json(&["get", DOMAINS, "train", "-n", &namespace.name])?;
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace.name},
        "spec": {"devices": {
            "requests": [{"name": "channel", "exactly": {
                "deviceClassName": "compute-domain-clique-channel.nvidia.com",
            }}],
            "config": [{"requests": ["channel"], "opaque": {
                "driver": "compute-domain.nvidia.com",
                "parameters": {
                    "apiVersion": "resource.nvidia.com/v1beta1",
                    "kind": "ComputeDomainChannelConfig",
                    "allocationMode": "Single",
                    "domainID": domain.pointer("/metadata/uid"),
                },
            }}],
        }},
    });
    cluster.apply(&claim.to_string())
}

/// The number of the claim's allocated channel. Checks that no node has reported a device in it.
fn allocated(cluster: &Cluster, namespace: &Namespace, claim: &str) -> Result<u64> {
    let claim = cluster.json(&["get", "resourceclaim", claim, "-n", &namespace.name])?;
    ensure!(claim.pointer("/status/devices").is_none(), "{claim}");
    let result = claim.pointer("/status/allocation/devices/results/0");
    let text = |key: &str| result.and_then(|it| it.get(key)).and_then(Value::as_str);
    ensure!(text("pool") == Some(&format!("clique-{CLIQUE}")), "{claim}");
    let device = text("device").and_then(|device| device.strip_prefix("channel-"));
    device.context("no channel")?.parse().context("no number")
}
