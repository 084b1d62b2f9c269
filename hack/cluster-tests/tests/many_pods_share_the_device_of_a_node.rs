//! With `imex.sharing=many`, as many pods have a node's device as it has slots; a claim for the whole
//! device, as the Go driver's template makes it, still has it for itself.

use anyhow::{Context as _, Result, ensure};
use cluster_tests::fixtures::{self, CHANNEL_PATH, ChartValue, TestDomain};
use cluster_tests::{Cluster, Namespace, wait_until};
use serde_json::{Value, json};

#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn ten_pods_of_one_domain_run_on_one_node_and_one_that_wants_it_whole_waits() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "sharing")?;
    // Of the time before: its template asks for the whole device.
    let old = TestDomain::create(&cluster, &namespace, "old", "Single")?;
    fixtures::run_pod(&cluster, &namespace, "exclusive", 1, Some(&old))?;

    let _sharing = ChartValue::set(&cluster, "resources.computeDomains.imex.sharing", "many")?;
    wait_until(&cluster, "the devices are shared", || {
        for device in devices(&cluster)? {
            let slots = device.pointer("/capacity/slots/value");
            ensure!(
                device.get("allowMultipleAllocations") == Some(&json!(true))
                    && slots.and_then(Value::as_str) == Some("64"),
                "{device}"
            );
        }
        Ok(())
    })?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    fixtures::create_pod(&cluster, &namespace, "early", 1, Some(&domain))?;
    waits_for_the_device(&cluster, &namespace, "early")?;
    cluster.kubectl(&["delete", "pod", "exclusive", "-n", &namespace.name])?;
    fixtures::wait_until_running(&cluster, &namespace, "early")?;

    let names: Vec<_> = (0..10).map(|number| format!("pod-{number}")).collect();
    for name in &names {
        fixtures::create_pod(&cluster, &namespace, name, 1, Some(&domain))?;
    }
    for name in &names {
        fixtures::wait_until_running(&cluster, &namespace, name)?;
        let (_, stat) = cluster.in_pod(
            &namespace.name,
            name,
            &format!("stat -c '%F %T' {CHANNEL_PATH}"),
        )?;
        ensure!(stat.trim() == "character special file 0", "{name}: {stat}");
    }
    each_claim_has_a_share_of_its_own(&cluster, &namespace, 11)?;

    fixtures::create_pod(&cluster, &namespace, "whole", 1, Some(&old))?;
    waits_for_the_device(&cluster, &namespace, "whole")?;
    cluster.kubectl(&[
        "delete",
        "pods",
        "-n",
        &namespace.name,
        "--field-selector=status.phase=Running",
    ])?;
    fixtures::wait_until_running(&cluster, &namespace, "whole")
}

fn devices(cluster: &Cluster) -> Result<Vec<Value>> {
    let selector = "--field-selector=spec.driver=compute-domain.nvidia.com";
    let slices = cluster.items(&["resourceslices", selector])?;
    ensure!(slices.len() == 2, "{} slices", slices.len());
    let device = |slice: &Value| slice.pointer("/spec/devices/0").cloned();
    slices
        .iter()
        .map(|slice| device(slice).context("no device"))
        .collect()
}

fn waits_for_the_device(cluster: &Cluster, namespace: &Namespace, pod: &str) -> Result<()> {
    wait_until(cluster, &format!("{pod} is told why it waits"), || {
        let events = cluster.events_about(&namespace.name, pod)?;
        let told = events.iter().any(|event| {
            event.starts_with("FailedScheduling") && event.contains("cannot allocate all claims")
        });
        ensure!(told, "its events: {events:#?}");
        Ok(())
    })
}

/// In the allocation, in the report of the node, and in its checkpoint.
fn each_claim_has_a_share_of_its_own(
    cluster: &Cluster,
    namespace: &Namespace,
    count: usize,
) -> Result<()> {
    let mut shares = Vec::new();
    wait_until(cluster, "every claim has a report with its share", || {
        shares.clear();
        for claim in cluster.items(&["resourceclaims", "-n", &namespace.name])? {
            let result = claim.pointer("/status/allocation/devices/results/0");
            let result = result.context("not allocated")?;
            ensure!(
                result.get("request") == Some(&json!("channel/share")),
                "{result}"
            );
            let share = result.get("shareID").and_then(Value::as_str);
            let share = share.context("no share")?.to_owned();
            let reported = claim.pointer("/status/devices/0/shareID");
            ensure!(
                reported.and_then(Value::as_str) == Some(&share),
                "{:?}",
                claim.pointer("/status/devices")
            );
            shares.push(share);
        }
        Ok(())
    })?;
    shares.sort_unstable();
    shares.dedup();
    ensure!(shares.len() == count, "{} shares: {shares:?}", shares.len());
    let path = "/var/lib/kubelet/plugins/compute-domain.nvidia.com/checkpoint.json";
    let checkpoint = cluster.on_node(1, &format!("cat {path}"))?;
    for share in &shares {
        ensure!(checkpoint.contains(share), "{share} is not in {checkpoint}");
    }
    Ok(())
}
