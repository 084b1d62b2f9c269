//! The chart's GPU plugin alone: pods and containers share a claim, as in the Go driver's first examples. Then
//! beside channels: the GPUs' pods stay, and the workers of `examples/nvbandwidth` have their GPUs and their channel.

use anyhow::{Context as _, Result, ensure};
use cluster_tests::fixtures::{self, SLEEP};
use cluster_tests::gpus::{
    GPUS_OF_NODE, ReleaseGpus, claim_template, published, sleeping_pod, wait_until_unpublished,
};
use cluster_tests::release::{helm_refuses, revision, roll_back};
use cluster_tests::{Cluster, Namespace, channels, wait_until};
use serde_json::{Value, json};

const EXAMPLE: &str = include_str!("../../../examples/nvbandwidth/nvbandwidth.yaml");

// req: GPU-31, GPU-33, GPU-38, CHART-23, CHART-25
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn pods_share_a_claim_and_workers_have_gpus_and_a_channel() -> Result<()> {
    let cluster = Cluster::connect()?;
    fixtures::wait_for_domains_of_ended_tests(&cluster)?;
    wait_until_unpublished(&cluster)?;
    let release = ReleaseGpus::enable(&cluster, false)?;
    let namespace = Namespace::create(&cluster, "charts-gpus")?;
    ensure!(release.containers()? == ["gpus"]);
    for node in [1, 2] {
        wait_until(&cluster, "the node's GPUs are published", || {
            let found = published(&cluster, node)?;
            ensure!(found.len() == GPUS_OF_NODE, "{found:?}");
            Ok(())
        })?;
    }
    let template = claim_template(&namespace, "gpu", "gpu.nvidia.com", 1);
    cluster.apply(&template.to_string())?;
    let mut claim = template.clone();
    claim["kind"] = json!("ResourceClaim");
    claim["metadata"]["name"] = json!("shared");
    claim["spec"] = template["spec"]["spec"].clone();
    cluster.apply(&claim.to_string())?;
    let of_template = json!({"name": "gpu", "resourceClaimTemplateName": "gpu"});
    let of_claim = json!({"name": "gpu", "resourceClaimName": "shared"});
    let two = ["main", "beside"];
    for (pod, claim, containers) in [
        ("both-containers", &of_template, &two[..]),
        ("first", &of_claim, &two[..1]),
        ("second", &of_claim, &two[..1]),
    ] {
        cluster.apply(&sleeping_pod(&namespace, pod, claim, containers).to_string())?;
    }
    for pod in ["both-containers", "first", "second"] {
        fixtures::wait_until_running(&cluster, &namespace, pod)?;
    }
    let gpus = |pod: &str, container: &str| gpus_in(&cluster, &namespace, pod, container);
    let of_pod = gpus("both-containers", "main")?;
    ensure!(of_pod.len() == 1 && of_pod == gpus("both-containers", "beside")?);
    let shared = gpus("first", "main")?;
    ensure!(shared.len() == 1 && shared == gpus("second", "main")?);

    let output = helm_refuses(&cluster, "uninstall", &["--timeout=120s"])?;
    let pods = "charts-gpus/both-containers, charts-gpus/first, charts-gpus/second";
    ensure!(output.contains(&format!("({pods})")), "{output}");
    roll_back(&cluster, &revision(&cluster)?)?;

    // One drop at the end is enough.
    std::mem::forget(ReleaseGpus::enable(&cluster, true)?);
    ensure!(release.containers()? == ["compute-domains", "gpus"]);
    // Ignored: it fails if it ends with the container.
    drop(cluster.in_pod(&namespace.name, "first", "kill 1"));
    wait_until(&cluster, "the container is restarted", || {
        let pod = cluster.json(&["get", "pod", "first", "-n", &namespace.name])?;
        let status = pod.pointer("/status/containerStatuses/0");
        let status = status.context("no status")?;
        ensure!(
            status["restartCount"] == 1 && status["ready"] == true,
            "{status}"
        );
        Ok(())
    })?;
    ensure!(
        gpus("first", "main")? == shared,
        "the container restarted with other GPUs"
    );
    cluster.kubectl(&["delete", "pods", "--all", "-n", &namespace.name])?;

    let (domain, worker) = example()?;
    let in_namespace = ["apply", "-n", &namespace.name, "-f", "-"];
    cluster.script(
        &[&["kubectl"][..], &in_namespace].concat(),
        &domain.to_string(),
    )?;
    for pod in ["worker-0", "worker-1"] {
        cluster.apply(&worker_pod(&namespace, pod, worker.clone())?.to_string())?;
    }
    for pod in ["worker-0", "worker-1"] {
        fixtures::wait_until_running(&cluster, &namespace, pod)?;
        let found = gpus_in(&cluster, &namespace, pod, "worker")?;
        ensure!(found.len() == GPUS_OF_NODE, "{pod}: {found:?}");
        channels::sees_only(&cluster, &namespace, pod, 0)?;
    }
    cluster.kubectl(&["delete", "pods", "--all", "-n", &namespace.name])?;
    for node in [1, 2] {
        let specs = "ls /var/run/cdi | grep -c nvidia.com-claim_ || true";
        let specs = cluster.on_node(node, specs)?;
        ensure!(specs.trim() == "0", "node{node} has {specs} specs");
    }
    let domain = ["delete", fixtures::DOMAINS, "--all", "-n", &namespace.name];
    cluster.kubectl(&domain).map(drop)
}

/// The example's ComputeDomain, and its workers' pod template.
fn example() -> Result<(Value, Value)> {
    let documents = EXAMPLE.split("\n---\n").map(serde_saphyr::from_str);
    let documents: Vec<Value> = documents.collect::<Result<_, _>>()?;
    let [domain, job] = &documents[..] else {
        anyhow::bail!("the example has {} documents", documents.len());
    };
    let template = job.pointer("/spec/mpiReplicaSpecs/Worker/template");
    Ok((domain.clone(), template.context("no workers")?.clone()))
}

/// A pod of this template that runs the cluster's image.
fn worker_pod(namespace: &Namespace, name: &str, mut pod: Value) -> Result<Value> {
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["namespace"] = json!(namespace.name);
    pod["spec"]["terminationGracePeriodSeconds"] = json!(5);
    let container = pod.pointer_mut("/spec/containers/0");
    let container = container.context("no container")?;
    container["image"] = json!("localhost/busybox:1");
    container["imagePullPolicy"] = json!("Never");
    container["command"] = json!(["sh", "-c", SLEEP]);
    container["args"] = json!([]);
    Ok(pod)
}

/// The device nodes of GPUs in a container.
fn gpus_in(
    cluster: &Cluster,
    namespace: &Namespace,
    pod: &str,
    container: &str,
) -> Result<Vec<String>> {
    let exec = ["exec", "-n", &namespace.name, pod, "-c", container, "--"];
    let list = ["sh", "-c", "ls -d /dev/nvidia[0-9]*"];
    let listed = cluster.kubectl(&[&exec[..], &list].concat())?;
    Ok(listed.lines().map(str::to_owned).collect())
}
