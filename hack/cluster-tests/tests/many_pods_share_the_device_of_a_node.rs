//! With `imex.sharing=many`, a node's device can have as many pods as it has slots. A claim for the whole
//! device, as from the Go driver's template, still has it exclusively.

use anyhow::{Context as _, Result, ensure};
use cluster_tests::fixtures::{self, CHANNEL_PATH, ChartValue, TestDomain};
use cluster_tests::node_pod::NodePod;
use cluster_tests::{Cluster, Namespace, wait_until};
use serde_json::{Value, json};

// req: CHANNEL-4
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn ten_pods_of_one_domain_run_on_one_node_and_one_that_needs_the_whole_device_waits() -> Result<()>
{
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "sharing")?;
    // Created before sharing: its template requests the whole device.
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

// req: CHANNEL-5
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_device_is_exclusive_again_after_its_last_share_and_a_forged_slice_gives_it_to_no_second_pod()
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

    // Without its marker, node 2 finds in its records that the device was shared.
    cluster.on_node(2, &format!("rm {DATA}/{MARKER}"))?;
    drop(sharing);
    wait_until(&cluster, "both nodes are tainted", || {
        is_draining(&cluster, 1)?;
        is_draining(&cluster, 2)
    })?;
    cluster.on_node(2, &format!("test -f {DATA}/{MARKER}"))?;

    fixtures::create_pod(&cluster, &namespace, "second-1", 1, Some(&domain))?;
    fixtures::wait_until_unschedulable(&cluster, &namespace, "second-1")?;
    // Node 2's slice is forged while its plugin cannot restore it: the scheduler allocates the device a
    // second time.
    let frozen = Frozen::plugin_on(&cluster, 2)?;
    publish_as_exclusive(&cluster, 2)?;
    fixtures::create_pod(&cluster, &namespace, "second-2", 2, Some(&domain))?;
    wait_until(&cluster, "the device is allocated twice", || {
        let pod = cluster.json(&["get", "pod", "second-2", "-n", &namespace.name])?;
        ensure!(pod.pointer("/spec/nodeName").is_some(), "not scheduled");
        Ok(())
    })?;
    drop(frozen);
    wait_until(&cluster, "node2 is tainted again", || {
        is_draining(&cluster, 2)
    })?;
    wait_until(&cluster, "the node refuses the second allocation", || {
        let events = cluster.events_about(&namespace.name, "second-2")?;
        let refused = |event: &String| event.contains("device channel-0 is still in use by claim");
        ensure!(events.iter().any(refused), "its events: {events:#?}");
        Ok(())
    })?;

    delete_pod(&cluster, &namespace, "first-2")?;
    fixtures::wait_until_running(&cluster, &namespace, "second-2")?;

    delete_pod(&cluster, &namespace, "first-1")?;
    // One to two minutes later, the plugin checks which claims have the device.
    fixtures::wait_until_running(&cluster, &namespace, "second-1")?;
    let device = fixtures::published_device(&cluster, 1)?;
    ensure!(
        !is_shared(&device) && device.get("taints").is_none(),
        "{device}"
    );
    Ok(())
}

/// The plugin's data directory on the node.
const DATA: &str = "/var/lib/kubelet/plugins/compute-domain.nvidia.com";

/// The file that marks the node's device as shared.
const MARKER: &str = "device-is-shared";

/// The plugin of a node, stopped with SIGSTOP until this is dropped.
struct Frozen {
    cluster: Cluster,
    node: u8,
    resume: String,
}

impl Frozen {
    fn plugin_on(cluster: &Cluster, node: u8) -> Result<Self> {
        let kill = NodePod::plugin(cluster, node)?.kill_command()?;
        cluster.on_node(node, &kill.replace("SIGKILL", "SIGSTOP"))?;
        Ok(Self {
            cluster: cluster.clone(),
            node,
            resume: kill.replace("SIGKILL", "SIGCONT"),
        })
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        drop(self.cluster.on_node(self.node, &self.resume)); // ignored: the liveness probe restarts it then
    }
}

/// Fails unless the node's device is shared and tainted against new claims.
fn is_draining(cluster: &Cluster, node: u8) -> Result<()> {
    let device = fixtures::published_device(cluster, node)?;
    let taint = device.pointer("/taints/0/key").and_then(Value::as_str);
    ensure!(
        is_shared(&device) && taint == Some("compute-domain.nvidia.com/sharing-ends"),
        "{device}"
    );
    Ok(())
}

/// Changes the slice of a draining device back to that of an exclusive device.
fn publish_as_exclusive(cluster: &Cluster, node: u8) -> Result<()> {
    let selector =
        format!("--field-selector=spec.driver=compute-domain.nvidia.com,spec.nodeName=node{node}");
    let slices = cluster.items(&["resourceslices", &selector])?;
    let name = slices
        .first()
        .and_then(|slice| slice.pointer("/metadata/name"));
    let name = name.and_then(Value::as_str).context("no slice")?;
    let fields = ["allowMultipleAllocations", "capacity", "taints"];
    let patch =
        fields.map(|field| json!({"op": "remove", "path": format!("/spec/devices/0/{field}")}));
    let patch = json!(patch).to_string();
    let command = ["patch", "resourceslice", name, "--type=json", "-p", &patch];
    cluster.kubectl(&command).map(drop)
}

fn is_shared(device: &Value) -> bool {
    device.get("allowMultipleAllocations") == Some(&json!(true))
}

fn delete_pod(cluster: &Cluster, namespace: &Namespace, pod: &str) -> Result<()> {
    let delete = ["delete", "pod", pod, "-n", &namespace.name, "--wait"];
    cluster.kubectl(&delete).map(drop)
}

/// Checks the shares in the allocations, in the node's reports, and in its checkpoint.
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
