//! With `imex.isolation=channel`, each ComputeDomain has its own IMEX channel: the pods of two domains on one
//! node see only their own, and claims cannot name the channel of another domain.

use anyhow::{Context as _, Result, ensure};
use cluster_tests::channels::{may_not_open, sees_only};
use cluster_tests::fixtures::{self, ChartValue, DOMAINS, TestDomain};
use cluster_tests::{Cluster, Namespace, wait_until};
use serde_json::{Value, json};

// req: CHANNEL-2, CHANNEL-6, CHANNEL-16
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_pods_of_two_domains_on_one_node_can_open_only_their_own_channel() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "isolated")?;
    // Created before isolation: it keeps channel 0.
    let old = TestDomain::create(&cluster, &namespace, "old", "Single")?;
    let _isolation = ChartValue::set(
        &cluster,
        "resources.computeDomains.imex.isolation",
        "channel",
    )?;
    wait_until(
        &cluster,
        "the old domain has the condition NotIsolated",
        || {
            let old = domain(&cluster, &namespace, "old")?;
            let not_isolated = condition(&old, "NotIsolated").context("no condition")?;
            ensure!(
                not_isolated.get("status") == Some(&json!("True")),
                "{not_isolated}"
            );
            ensure!(old.pointer("/status/channel") == Some(&json!(0)), "{old}");
            ensure!(
                old.pointer("/status/status") == Some(&json!("Ready")),
                "{old}"
            );
            Ok(())
        },
    )?;

    let mut channels = Vec::new();
    for name in ["red", "blue"] {
        let of = TestDomain::create(&cluster, &namespace, name, "Single")?;
        channels.push(channel(&cluster, &namespace, name)?);
        for number in 0..2 {
            let pod = format!("{name}-{number}");
            fixtures::run_pod(&cluster, &namespace, &pod, 1, Some(&of))?;
        }
    }
    let [red, blue] = channels[..] else {
        unreachable!()
    };
    ensure!(
        red != blue && red > 0 && blue > 0,
        "channels {red} and {blue}"
    );
    let lease = cluster.json(&[
        "get",
        "lease",
        &format!("imex-channel-{red:04}"),
        "-n",
        "imex-dra",
    ])?;
    let holder = lease.pointer("/spec/holderIdentity");
    let uid = domain(&cluster, &namespace, "red")?;
    ensure!(holder == uid.pointer("/metadata/uid"), "{lease}");

    // Its template requests a whole device; node1 has none left.
    fixtures::run_pod(&cluster, &namespace, "old", 2, Some(&old))?;
    fixtures::run_pod(&cluster, &namespace, "outsider", 1, None)?;
    let pods = [
        ("red-0", 1, red),
        ("red-1", 1, red),
        ("blue-0", 1, blue),
        ("blue-1", 1, blue),
        ("old", 2, 0),
    ];
    for (pod, node, own) in pods {
        sees_only(&cluster, &namespace, pod, own)?;
        let others = [red, blue, 0];
        for other in others.into_iter().filter(|other| *other != own) {
            may_not_open(&cluster, &namespace, (pod, node), other)?;
        }
    }
    for any in [red, blue, 0] {
        may_not_open(&cluster, &namespace, ("outsider", 1), any)?;
    }
    a_claim_in_use_cannot_be_hidden(&cluster, &namespace)
}

/// Users cannot hide from the controller that a channel is in use, neither by removing the label nor by
/// removing the claim.
fn a_claim_in_use_cannot_be_hidden(cluster: &Cluster, namespace: &Namespace) -> Result<()> {
    let claims = cluster.items(&["resourceclaims", "-n", &namespace.name])?;
    let of_red = |claim: &&Value| {
        let owner = claim.pointer("/metadata/ownerReferences/0/name");
        owner == Some(&json!("red-0"))
    };
    let claim = claims.iter().find(of_red).context("no claim of red-0")?;
    let name = claim.pointer("/metadata/name").and_then(Value::as_str);
    let name = name.context("no name")?;
    let of = ["resourceclaim", name, "-n", &namespace.name];
    let without_label = "resource.nvidia.com/computeDomain-";
    let without_finalizer = r#"--patch={"metadata":{"finalizers":null}}"#;
    let label = [&["label"], &of[..], &[without_label]].concat();
    cluster.kubectl_refused(&label, "is immutable")?;
    let patch = [&["patch"], &of[..], &["--type=merge", without_finalizer]].concat();
    cluster.kubectl_refused(&patch, "delete the pods")
}

// req: NODE-7
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_claim_cannot_name_a_channel_or_the_domain_of_another_namespace() -> Result<()> {
    let cluster = Cluster::connect()?;
    let theirs = Namespace::create(&cluster, "victim")?;
    let ours = Namespace::create(&cluster, "hostile")?;
    let _isolation = ChartValue::set(
        &cluster,
        "resources.computeDomains.imex.isolation",
        "channel",
    )?;
    let victim = TestDomain::create(&cluster, &theirs, "train", "Single")?;
    fixtures::run_pod(&cluster, &theirs, "worker", 1, Some(&victim))?;
    let uid = domain(&cluster, &theirs, "train")?;
    let uid = uid.pointer("/metadata/uid").and_then(Value::as_str);
    let uid = uid.context("no UID")?;
    TestDomain::create(&cluster, &ours, "own", "Single")?;
    let own = domain(&cluster, &ours, "own")?;
    let own = own.pointer("/metadata/uid").and_then(Value::as_str);
    let own = own.context("no UID")?;

    for (name, config, reason) in [
        (
            "their-domain",
            json!({"domainID": uid}),
            "no ComputeDomain with UID",
        ),
        ("not-labelled", json!({"domainID": own}), "lacks the label"),
        (
            "a-number",
            json!({"domainID": own, "channelID": 1}),
            "unknown field",
        ),
    ] {
        let mut parameters = json!({
            "apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomainChannelConfig",
            "allocationMode": "Single",
        });
        let fields = config.as_object().cloned().unwrap_or_default();
        parameters
            .as_object_mut()
            .context("an object")?
            .extend(fields);
        let claim = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": ours.name},
            "spec": {"devices": {
                "requests": [{"name": "channel", "firstAvailable": [{
                    "name": "share", "deviceClassName": "compute-domain-default-channel.nvidia.com",
                    "capacity": {"requests": {"slots": "1"}},
                }]}],
                "config": [{"requests": ["channel"], "opaque": {
                    "driver": "compute-domain.nvidia.com", "parameters": parameters,
                }}],
            }},
        });
        cluster.apply(&claim.to_string())?;
        fixtures::create_pod_with_claim(&cluster, &ours, name, 1, name)?;
        wait_until(&cluster, &format!("{name} is refused"), || {
            let events = cluster.events_about(&ours.name, name)?;
            ensure!(
                events.iter().any(|event| event.contains(reason)),
                "its events: {events:#?}"
            );
            Ok(())
        })?;
    }
    Ok(())
}

fn domain(cluster: &Cluster, namespace: &Namespace, name: &str) -> Result<Value> {
    cluster.json(&["get", DOMAINS, name, "-n", &namespace.name])
}

fn condition(domain: &Value, kind: &str) -> Option<Value> {
    let conditions = domain.pointer("/status/conditions")?.as_array()?;
    let mut of_kind = conditions
        .iter()
        .filter(|it| it.get("type") == Some(&json!(kind)));
    of_kind.next().cloned()
}

fn channel(cluster: &Cluster, namespace: &Namespace, name: &str) -> Result<u64> {
    let domain = domain(cluster, namespace, name)?;
    let channel = domain.pointer("/status/channel").and_then(Value::as_u64);
    channel.with_context(|| format!("no channel: {domain}"))
}
