//! With `consumableShares=10`, ten pods of two namespaces share one GPU by the template of `examples/gpus/shared.yaml`,
//! and the eleventh waits for a share.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use cluster_tests::fixtures;
use cluster_tests::gpus::{
    GPUS_OF_NODE, ReleaseGpus, gpus_in, published, sleeping_pod, wait_until_unpublished,
};
use cluster_tests::{Cluster, Namespace, wait_until};
use serde_json::{Value, json};

const EXAMPLE: &str = include_str!("../../../examples/gpus/shared.yaml");

// req: GPU-52, GPU-53, CHART-26
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn ten_pods_of_two_namespaces_share_a_gpu_and_the_eleventh_waits() -> Result<()> {
    let cluster = Cluster::connect()?;
    wait_until_unpublished(&cluster)?;
    let release = ReleaseGpus::enable(&cluster, false)?;
    release.share("10")?;
    let namespaces = [
        Namespace::create(&cluster, "shares-a")?,
        Namespace::create(&cluster, "shares-b")?,
    ];
    wait_until(&cluster, "the node's GPUs are published", || {
        let found = published(&cluster, 1)?;
        ensure!(found.len() == GPUS_OF_NODE, "{found:?}");
        Ok(())
    })?;
    for namespace in &namespaces {
        cluster.apply(&template(namespace)?.to_string())?;
    }

    let pod = |number: usize| (&namespaces[number % 2], format!("pod-{number}"));
    let create = |number| {
        let (namespace, name) = pod(number);
        let claim = json!({"name": "gpu", "resourceClaimTemplateName": "shared"});
        let mut pod = sleeping_pod(namespace, &name, &claim, &["main"]);
        pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "node1"});
        cluster.apply(&pod.to_string()).map(drop)
    };
    for number in 0..10 {
        create(number)?;
    }
    let mut seen = Vec::new();
    for number in 0..10 {
        let (namespace, name) = pod(number);
        fixtures::wait_until_running(&cluster, namespace, &name)?;
        seen.push(gpus_in(&cluster, namespace, &name, "main")?);
    }
    seen.dedup();
    ensure!(seen.len() == 1 && seen[0].len() == 1, "{seen:?}");
    each_claim_has_a_share_of_its_own(&cluster, &namespaces)?;

    create(10)?;
    let (namespace, eleventh) = pod(10);
    fixtures::wait_until_unschedulable(&cluster, namespace, &eleventh)?;
    let (first_namespace, first) = pod(0);
    cluster.kubectl(&["delete", "pod", &first, "-n", &first_namespace.name])?;
    fixtures::wait_until_running(&cluster, namespace, &eleventh)?;
    ensure!(gpus_in(&cluster, namespace, &eleventh, "main")? == seen[0]);
    for namespace in &namespaces {
        cluster.kubectl(&["delete", "pods", "--all", "-n", &namespace.name])?;
    }
    let specs = "ls /var/run/cdi | grep -c nvidia.com-claim_ || true";
    let specs = cluster.on_node(1, specs)?;
    ensure!(specs.trim() == "0", "{specs} specs are left");
    Ok(())
}

/// The example's template, for the first GPU.
fn template(namespace: &Namespace) -> Result<Value> {
    let (template, _) = EXAMPLE.split_once("\n---\n").context("one document")?;
    let mut template: Value = serde_saphyr::from_str(template)?;
    template["metadata"]["namespace"] = json!(namespace.name);
    let first = r#"device.attributes["gpu.nvidia.com"].uuid.endsWith("0")"#;
    let request = template.pointer_mut("/spec/spec/devices/requests/0/exactly");
    request.context("no request")?["selectors"] = json!([{"cel": {"expression": first}}]);
    Ok(template)
}

/// Checks the shares in the allocations.
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
