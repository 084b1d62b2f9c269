//! Claims of several namespaces share one GPU: with `consumableShares=10` in the chart, ten pods by the template of
//! `examples/gpus/shared.yaml`, while the eleventh waits; with time slices, claims that ask for the same one.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use cluster_tests::fixtures;
use cluster_tests::gpus::{
    GPUS_OF_NODE, GpuNode, NODE, ProbeVolumes, ReleaseGpus, opened, published, sliced_template,
    wait_until_unpublished,
};
use cluster_tests::{Cluster, Namespace, wait_until};
use mock_host::built;
use serde_json::{Value, json};

const EXAMPLE: &str = include_str!("../../../examples/gpus/shared.yaml");

// req: GPU-52, GPU-53, CHART-26
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn ten_pods_of_two_namespaces_see_one_gpu_and_the_eleventh_waits() -> Result<()> {
    let cluster = Cluster::connect()?;
    wait_until_unpublished(&cluster)?;
    fixtures::install_cuda(NODE, &built("mock-cuda"))?;
    let _release = ReleaseGpus::enable_with(&cluster, false, "10")?;
    let namespaces = create_namespaces(&cluster)?;
    wait_until(&cluster, "the node's GPUs are published", || {
        let found = published(&cluster, NODE)?;
        ensure!(found.len() == GPUS_OF_NODE, "{found:?}");
        Ok(())
    })?;
    let (template, _) = EXAMPLE.split_once("\n---\n").context("one document")?;
    let template: Value = serde_saphyr::from_str(template)?;
    for namespace in &namespaces {
        let mut template = for_first_gpu(template.clone())?;
        template["metadata"]["namespace"] = json!(namespace.name);
        cluster.apply(&template.to_string())?;
    }

    let scratch = tempfile::tempdir()?;
    let probe = ProbeVolumes::make(scratch.path())?;
    let containers = [probe.container("main", &json!({"claims": [{"name": "gpu"}]}))];
    let pod = |number: usize| (&namespaces[number % 2], format!("pod-{number}"));
    let create = |number| {
        let (namespace, name) = pod(number);
        let pod = probe.pod(namespace, &name, NODE, &[("gpu", "shared")], &containers);
        cluster.apply(&pod.to_string())
    };
    let sees_the_gpu = |number| {
        let (namespace, name) = pod(number);
        fixtures::wait_until_running(&cluster, namespace, &name)?;
        let found = opened(&cluster, namespace, &name, "main")?;
        ensure!(found == [0], "{name}: {found:?}");
        Ok(())
    };
    (0..10).try_for_each(create)?;
    (0..10).try_for_each(sees_the_gpu)?;
    each_claim_has_a_share_of_its_own(&cluster, &namespaces)?;

    create(10)?;
    let (namespace, eleventh) = pod(10);
    fixtures::wait_until_unschedulable(&cluster, namespace, &eleventh)?;
    let (namespace, first) = pod(0);
    cluster.kubectl(&["delete", "pod", &first, "-n", &namespace.name])?;
    sees_the_gpu(10)?;
    for namespace in &namespaces {
        cluster.kubectl(&["delete", "pods", "--all", "-n", &namespace.name])?;
    }
    let specs = "ls /var/run/cdi | grep -c nvidia.com-claim_ || true";
    let specs = cluster.on_node(NODE, specs)?;
    ensure!(specs.trim() == "0", "{specs} specs are left");
    Ok(())
}

// req: GPU-53, GPU-60
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_claim_with_another_time_slice_waits_for_the_last_that_shares_the_gpu() -> Result<()> {
    let node = GpuNode::new("h100")?;
    let cluster = &node.cluster;
    let namespaces = create_namespaces(cluster)?;
    let [a, b] = &namespaces;
    let gates = "--feature-gates=ConsumableShares=true,TimeSlicingSettings=true";
    let _plugin = node.start_with(&format!("--consumable-shares=10 {gates}"))?;
    node.wait_for_devices(8)?;
    for namespace in &namespaces {
        for (name, interval) in [("long", "Long"), ("short", "Short")] {
            let template = sliced_template(namespace, name, "gpu.nvidia.com", 1, interval);
            cluster.apply(&for_first_gpu(template)?.to_string())?;
        }
    }
    let create = |namespace: &Namespace, pod: &str, template: &str| {
        fixtures::create_pod_of_template(cluster, namespace, pod, NODE, template)
    };
    let delete = |namespace: &Namespace, pod: &str| {
        let delete = ["delete", "pod", pod, "-n", &namespace.name, "--wait"];
        cluster.kubectl(&delete).map(drop)
    };
    for (namespace, pod) in [(a, "first"), (b, "second")] {
        create(namespace, pod, "long")?;
        fixtures::wait_until_running(cluster, namespace, pod)?;
    }
    ensure!(node.host.time_slices() == ["3"]);

    create(b, "other", "short")?;
    wait_until(
        cluster,
        "an event names the holder and both settings",
        || {
            let events = cluster.events_about(&b.name, "other")?.join("\n");
            let is_held_by =
                |claim: &str| events.contains(&format!("is shared with claim {claim}-"));
            ensure!(
                is_held_by("shares-a/first") || is_held_by("shares-b/second"),
                "{events}"
            );
            ensure!(
                events.contains("TimeSlicing with the interval Long"),
                "{events}"
            );
            ensure!(
                events.contains("this claim has TimeSlicing with the interval Short"),
                "{events}"
            );
            Ok(())
        },
    )?;
    delete(a, "first")?;
    ensure!(node.host.time_slices() == ["3"]);
    delete(b, "second")?;
    fixtures::wait_until_running(cluster, b, "other")?;
    ensure!(node.host.time_slices() == ["1"]);
    delete(b, "other")?;
    ensure!(node.host.time_slices().is_empty());
    node.wait_for_specs(0)
}

fn create_namespaces(cluster: &Cluster) -> Result<[Namespace; 2]> {
    Ok([
        Namespace::create(cluster, "shares-a")?,
        Namespace::create(cluster, "shares-b")?,
    ])
}

/// The template, for the first GPU of a node.
fn for_first_gpu(mut template: Value) -> Result<Value> {
    let first = r#"device.attributes["gpu.nvidia.com"].uuid.endsWith("0")"#;
    let request = template.pointer_mut("/spec/spec/devices/requests/0/exactly");
    request.context("no request")?["selectors"] = json!([{"cel": {"expression": first}}]);
    Ok(template)
}

fn each_claim_has_a_share_of_its_own(cluster: &Cluster, namespaces: &[Namespace; 2]) -> Result<()> {
    let mut shares = BTreeSet::new();
    for namespace in namespaces {
        for claim in cluster.items(&["resourceclaims", "-n", &namespace.name])? {
            let share = claim.pointer("/status/allocation/devices/results/0/shareID");
            shares.insert(share.context("no share")?.to_string());
        }
    }
    ensure!(shares.len() == 10, "{shares:?}");
    Ok(())
}
