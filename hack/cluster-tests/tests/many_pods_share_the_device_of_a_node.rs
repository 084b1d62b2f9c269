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
        for node in [1, 2] {
            let device = fixtures::published_device(&cluster, node)?;
            let slots = device.pointer("/capacity/slots/value");
            ensure!(
                is_shared(&device) && slots.and_then(Value::as_str) == Some("64"),
                "{device}"
            );
        }
        Ok(())
    })?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    fixtures::create_pod(&cluster, &namespace, "early", 1, Some(&domain))?;
    fixtures::wait_until_unschedulable(&cluster, &namespace, "early")?;
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
    fixtures::wait_until_unschedulable(&cluster, &namespace, "whole")?;
    cluster.kubectl(&[
        "delete",
        "pods",
        "-n",
        &namespace.name,
        "--field-selector=status.phase=Running",
    ])?;
    fixtures::wait_until_running(&cluster, &namespace, "whole")
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_device_is_exclusive_again_once_nobody_shares_it_and_a_forced_flip_gives_it_to_nobody_twice()
-> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "unsharing")?;
    let key = "resources.computeDomains.imex.sharing";
    let sharing = ChartValue::set(&cluster, key, "many")?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    for node in [1, 2] {
        let pod = format!("first-{node}");
        fixtures::run_pod(&cluster, &namespace, &pod, node, Some(&domain))?;
    }

    // Node 2 forgets that it was shared: the scheduler will give its device away again.
    cluster.on_node(2, &format!("rm {DATA}/device-is-shared"))?;
    drop(sharing);
    wait_until(&cluster, "node1 is tainted, node2 is exclusive", || {
        let (ours, forced) = (
            fixtures::published_device(&cluster, 1)?,
            fixtures::published_device(&cluster, 2)?,
        );
        let taint = ours.pointer("/taints/0/key").and_then(Value::as_str);
        ensure!(
            is_shared(&ours) && taint == Some("compute-domain.nvidia.com/sharing-ends"),
            "{ours}"
        );
        ensure!(!is_shared(&forced), "{forced}");
        Ok(())
    })?;

    fixtures::create_pod(&cluster, &namespace, "second-1", 1, Some(&domain))?;
    fixtures::create_pod(&cluster, &namespace, "second-2", 2, Some(&domain))?;
    fixtures::wait_until_unschedulable(&cluster, &namespace, "second-1")?;
    wait_until(
        &cluster,
        "the node refuses what was given away twice",
        || {
            let events = cluster.events_about(&namespace.name, "second-2")?;
            let refused =
                |event: &String| event.contains("device channel-0 is still in use by claim");
            ensure!(events.iter().any(refused), "its events: {events:#?}");
            Ok(())
        },
    )?;

    delete_pod(&cluster, &namespace, "first-2")?;
    fixtures::wait_until_running(&cluster, &namespace, "second-2")?;

    delete_pod(&cluster, &namespace, "first-1")?;
    // The plugin asks who has the device one to two minutes after that.
    fixtures::wait_until_running(&cluster, &namespace, "second-1")?;
    let device = fixtures::published_device(&cluster, 1)?;
    ensure!(
        !is_shared(&device) && device.get("taints").is_none(),
        "{device}"
    );
    Ok(())
}

/// Where the plugin keeps its files on the node.
const DATA: &str = "/var/lib/kubelet/plugins/compute-domain.nvidia.com";

fn is_shared(device: &Value) -> bool {
    device.get("allowMultipleAllocations") == Some(&json!(true))
}

fn delete_pod(cluster: &Cluster, namespace: &Namespace, pod: &str) -> Result<()> {
    let delete = ["delete", "pod", pod, "-n", &namespace.name, "--wait"];
    cluster.kubectl(&delete).map(drop)
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
    let checkpoint = cluster.on_node(1, &format!("cat {DATA}/checkpoint.json"))?;
    for share in &shares {
        ensure!(checkpoint.contains(share), "{share} is not in {checkpoint}");
    }
    Ok(())
}
