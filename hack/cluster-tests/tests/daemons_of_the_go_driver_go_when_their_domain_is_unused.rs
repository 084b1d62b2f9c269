//! Driver-managed IMEX after the Go driver: the Go driver's objects of a ComputeDomain stay while one of its claims is
//! allocated, and are removed afterwards. Then the ComputeDomain gets its own channel.

use anyhow::{Context as _, Result, ensure};
use cluster_tests::cliques::CLIQUE;
use cluster_tests::fixtures;
use cluster_tests::node_pod::NAMESPACE;
use cluster_tests::{Cluster, Namespace, channels, imex_members, wait_until};
use serde_json::{Value, json};

const LABEL: &str = "resource.nvidia.com/computeDomain";
const TARGET: &str = "resource.nvidia.com/computeDomainTarget";

// req: MODE-30, MODE-31, MODE-32, MODE-36
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_running_pod_keeps_them_and_after_its_end_our_daemons_serve_the_next_pod() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "moved")?;
    imex_members::wait_until_ready(&cluster)?;
    scale_controller(&cluster, 0)?;
    let uid = create_domain_of_go(&cluster, &namespace)?;
    fixtures::create_pod_of_template(&cluster, &namespace, "worker", 1, "train-channel")?;
    wait_until(
        &cluster,
        "the worker's claim is allocated, and a daemon runs on the node",
        || {
            let claims = cluster.items(&["resourceclaims", "-n", &namespace.name])?;
            ensure!(
                claims
                    .iter()
                    .any(|it| it.pointer("/status/allocation").is_some()),
                "no claim is allocated"
            );
            let daemons = daemon_pods(&cluster, &uid)?;
            ensure!(daemons.len() == 2, "{daemons:?}");
            Ok(())
        },
    )?;

    scale_controller(&cluster, 2)?;
    wait_until(&cluster, "the domain has the event", || {
        let events = cluster.events_about(&namespace.name, "train")?.join("\n");
        ensure!(
            events.contains("GoDaemonsInUse") && events.contains("worker"),
            "{events}"
        );
        ensure!(events.contains("DriverManagedLeftovers"), "{events}");
        Ok(())
    })?;
    ensure!(
        daemon_pods(&cluster, &uid)?.len() == 2,
        "the daemons were removed"
    );
    // The chart's preflight ignores them, too.
    cluster_tests::release::upgrade(&cluster, &[])?;

    cluster.kubectl(&["delete", "pod", "worker", "-n", &namespace.name, "--wait"])?;
    wait_until(&cluster, "no objects of the Go driver are left", || {
        let selector = format!("{LABEL}={uid}");
        for kinds in [
            "daemonsets,pods,computedomaincliques",
            "resourceclaimtemplates",
        ] {
            let left = cluster.items(&[kinds, "-n", NAMESPACE, "-l", &selector])?;
            ensure!(left.is_empty(), "{left:?}");
        }
        let nodes = cluster.items(&["nodes", "-l", &selector])?;
        ensure!(nodes.is_empty(), "{nodes:?}");
        Ok(())
    })?;
    let channel = channels::of_domain(&cluster, &namespace, "train")?;
    wait_until(
        &cluster,
        "there is a template for the nodes' devices",
        || {
            let template = ["get", "resourceclaimtemplate", "train-channel"];
            let template = cluster.json(&[&template[..], &["-n", &namespace.name]].concat())?;
            let labels = template.pointer("/spec/metadata/labels");
            ensure!(labels == Some(&json!({ LABEL: uid })), "{template}");
            Ok(())
        },
    )?;
    fixtures::create_pod_of_template(&cluster, &namespace, "next", 1, "train-channel")?;
    fixtures::wait_until_running(&cluster, &namespace, "next")?;
    channels::sees_only(&cluster, &namespace, "next", channel)
}

fn scale_controller(cluster: &Cluster, replicas: u8) -> Result<()> {
    let replicas_arg = format!("--replicas={replicas}");
    let scale = ["scale", "deployment", "imex-dra-controller", &replicas_arg];
    cluster.kubectl(&[&scale[..], &["-n", NAMESPACE]].concat())?;
    wait_until(cluster, &format!("{replicas} controllers run"), || {
        let selector = "imex-dra-component=controller";
        let pods = cluster.items(&["pods", "-n", NAMESPACE, "-l", selector])?;
        ensure!(pods.len() == usize::from(replicas), "{} run", pods.len());
        Ok(())
    })
}

/// Creates a domain as the Go driver leaves it. Returns its UID.
fn create_domain_of_go(cluster: &Cluster, namespace: &Namespace) -> Result<String> {
    let domain = json!({
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": { "name": "train", "namespace": namespace.name, "finalizers": [LABEL] },
        "spec": { "numNodes": 2, "channel": { "resourceClaimTemplate": { "name": "train-channel" } } },
    });
    cluster.apply(&domain.to_string())?;
    let get = ["get", "computedomain", "train", "-n", &namespace.name];
    let domain = cluster.json(&get)?;
    let uid = domain.pointer("/metadata/uid").and_then(Value::as_str);
    let uid = uid.context("it has no UID")?.to_owned();
    let daemons = format!("computedomain-daemon-{uid}");

    let template =
        |(name, namespace): (&str, &str), target: &str, class: &str, parameters: Value| {
            let class = format!("{class}.nvidia.com");
            json!({
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaimTemplate",
                "metadata": {
                    "name": name, "namespace": namespace, "finalizers": [LABEL],
                    "labels": { LABEL: uid, TARGET: target },
                },
                "spec": { "spec": { "devices": {
                    "requests": [{ "name": "channel", "exactly": { "deviceClassName": class } }],
                    "config": [{ "requests": ["channel"], "opaque": {
                        "driver": "compute-domain.nvidia.com", "parameters": parameters,
                    } }],
                } } },
            })
        };
    let workload = template(
        ("train-channel", &namespace.name),
        "Workload",
        "compute-domain-default-channel",
        json!({
            "apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomainChannelConfig",
            "domainID": uid, "allocationMode": "Single",
        }),
    );
    let of_daemons = template(
        (&daemons, NAMESPACE),
        "Daemon",
        "compute-domain-daemon",
        json!({
            "apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomainDaemonConfig",
            "domainID": uid,
        }),
    );
    let daemon_set = json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": daemons, "namespace": NAMESPACE, "finalizers": [LABEL], "labels": { LABEL: uid },
        },
        "spec": {
            "selector": { "matchLabels": { LABEL: uid } },
            "template": {
                "metadata": { "labels": { LABEL: uid } },
                "spec": {
                    "nodeSelector": { LABEL: uid },
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{
                        "name": "compute-domain-daemon", "image": "localhost/busybox:1",
                        "imagePullPolicy": "Never", "command": ["sleep", "100000"],
                    }],
                },
            },
        },
    });
    let clique = json!({
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomainClique",
        "metadata": {
            "name": format!("{uid}.{CLIQUE}"), "namespace": NAMESPACE, "labels": { LABEL: uid },
        },
        "daemons": [],
    });
    for object in [workload, of_daemons, daemon_set, clique] {
        cluster.apply(&object.to_string())?;
    }
    let label = format!("{LABEL}={uid}");
    cluster.kubectl(&["label", "nodes", "node1", "node2", &label])?;
    let ready = [
        "--subresource=status",
        "--type=merge",
        "-p",
        r#"{"status":{"status":"Ready"}}"#,
    ];
    let patch = ["patch", "computedomain", "train", "-n", &namespace.name];
    cluster.kubectl(&[&patch[..], &ready].concat())?;
    Ok(uid)
}

fn daemon_pods(cluster: &Cluster, uid: &str) -> Result<Vec<Value>> {
    let selector = format!("{LABEL}={uid}");
    let running = "--field-selector=status.phase=Running";
    cluster.items(&["pods", "-n", NAMESPACE, "-l", &selector, running])
}
