//! An XID on one GPU of eight is a taint and an unhealthy device in the status of its pod, survives a killed plugin, and
//! goes when the GPU has recovered. A storm of XIDs writes the slice at most once a second.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use cluster_tests::gpus::{GpuNode, NODE, claim_template, health};
use cluster_tests::{Cluster, Namespace, fixtures, wait_until};
use gpu_inventory::{Fact, Inventory};
use serde_json::{Value, json};

const CHECKS: &str = "--feature-gates=NVMLDeviceHealthCheck=true";

/// The GPU with the fault.
const BAD: usize = 3;

/// The time from an XID to its taint and to the status of its pod.
const SEEN_WITHIN: Duration = Duration::from_secs(2);

/// The time from a recovery to the end of the taint.
const GONE_WITHIN: Duration = Duration::from_secs(15);

/// How long XIDs come, in seconds, and how many in each.
const STORM: (u64, u64) = (60, 100);

// req: GPU-44, GPU-45, GPU-48, GPU-51
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn an_xid_is_seen_in_slice_and_pod_until_the_gpu_recovers() -> Result<()> {
    let mut inventory = cluster_tests::gpus::inventory("h100")?;
    let node = GpuNode::with(&inventory)?;
    let namespace = Namespace::create(&node.cluster, "gpu-health")?;
    let plugin = node.start_with(CHECKS)?;
    node.wait_for_devices(8)?;
    let template = claim_template(&namespace, "all", "gpu.nvidia.com", 8);
    node.cluster.apply(&template.to_string())?;
    fixtures::create_pod_of_template(&node.cluster, &namespace, "all", NODE, "all")?;
    fixtures::wait_until_running(&node.cluster, &namespace, "all")?;
    let is_healthy = |expected: &str| {
        let found = health(&node.cluster, &namespace, "all")?;
        ensure!(found.len() == 8, "{found:?}");
        let mut others = found.iter().filter(|it| !it.0.ends_with("gpu-3"));
        ensure!(others.all(|it| it.1 == "Healthy"), "{found:?}");
        let bad = found.iter().find(|it| it.0.ends_with("gpu-3"));
        ensure!(bad.is_some_and(|it| it.1 == expected), "{found:?}");
        Ok(())
    };
    wait_until(&node.cluster, "all GPUs are healthy", || {
        is_healthy("Healthy")
    })?;

    let writes = writes(&node.cluster)?;
    set_action(&node, &mut inventory, 1)?;
    let began = Instant::now();
    node.host.event(&json!({"gpu": BAD, "type": 8, "data": 79}));
    has_taint(&node, Some("79"), began, SEEN_WITHIN)?;
    wait_until(&node.cluster, "the device is unhealthy", || {
        is_healthy("Unhealthy")
    })?;
    println!(
        "taint and pod status {} ms after the XID",
        began.elapsed().as_millis()
    );
    ensure!(began.elapsed() < SEEN_WITHIN * 2, "{:?}", began.elapsed());
    ensure!(self::writes(&node.cluster)? == writes + 1, "one write");

    plugin.end("KILL")?;
    let plugin = node.start_with(CHECKS)?;
    wait_until(&node.cluster, "the new plugin reports health", || {
        is_healthy("Unhealthy")
    })?;
    ensure!(
        taint(&node.cluster)? == Some("79".to_owned()),
        "it was kept"
    );
    ensure!(
        self::writes(&node.cluster)? == writes + 1,
        "nothing has changed"
    );

    plugin.end("KILL")?;
    set_action(&node, &mut inventory, 0)?;
    let began = Instant::now();
    let _plugin = node.start_with(CHECKS)?;
    has_taint(&node, None, began, GONE_WITHIN)?;
    set_action(&node, &mut inventory, 2)?;
    // Nothing but the reading after this XID says it.
    node.host
        .event(&json!({"gpu": BAD, "type": 8, "data": 154}));
    has_taint(&node, Some("0"), Instant::now(), SEEN_WITHIN)?;
    set_action(&node, &mut inventory, 0)?;
    has_taint(&node, None, Instant::now(), GONE_WITHIN)?;
    wait_until(&node.cluster, "the device is healthy", || {
        is_healthy("Healthy")
    })
}

// req: GPU-44, GPU-51
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_storm_of_xids_writes_the_slice_at_most_once_a_second() -> Result<()> {
    for action in [Fact::Known(0), Fact::Absent] {
        let mut inventory = cluster_tests::gpus::inventory("h100")?;
        for gpu in &mut inventory.gpus {
            gpu.recovery_action = action.clone();
        }
        let node = GpuNode::with(&inventory)?;
        let plugin = node.start_with(CHECKS)?;
        node.wait_for_devices(8)?;
        let memory = || node.cluster.on_node(NODE, MEMORY);
        let before = writes(&node.cluster)?;
        let (seconds, each) = STORM;
        println!("before the storm: {}", memory()?.trim());
        for index in 0..seconds * each {
            let code = [13, 31, 79, 119][usize::try_from(index % 4)?];
            node.host
                .event(&json!({"gpu": index % 8, "type": 8, "data": code}));
            sleep(Duration::from_millis(1000 / each));
        }
        println!("after the storm: {}", memory()?.trim());
        let written = writes(&node.cluster)? - before;
        println!("{written} writes in {seconds} s, {action:?}");
        ensure!(written <= i64::try_from(seconds)?, "{written} writes");
        plugin.end("TERM")?;
    }
    Ok(())
}

/// Prints the memory of the plugin.
const MEMORY: &str = "grep RssAnon /proc/$(cat /run/gpu-plugin.pid)/status";

fn set_action(node: &GpuNode, inventory: &mut Inventory, action: u32) -> Result<()> {
    let gpu = inventory.gpus.get_mut(BAD).context("no such GPU")?;
    gpu.recovery_action = Fact::Known(action);
    node.host.replace_inventory(inventory);
    Ok(())
}

/// Waits until the bad GPU has this taint for XIDs, for at most this time.
fn has_taint(
    node: &GpuNode,
    expected: Option<&str>,
    began: Instant,
    within: Duration,
) -> Result<()> {
    wait_until(&node.cluster, "the taint is another one", || {
        let found = taint(&node.cluster)?;
        ensure!(found.as_deref() == expected, "{found:?}");
        Ok(())
    })?;
    let took = began.elapsed();
    println!("taint {expected:?} after {} ms", took.as_millis());
    ensure!(took < within, "{took:?}");
    Ok(())
}

/// The slice of the node.
fn slice(cluster: &Cluster) -> Result<Value> {
    let slices = cluster.items(&["resourceslices"])?;
    let is_it = |it: &Value| it.pointer("/spec/driver") == Some(&json!("gpu.nvidia.com"));
    slices.into_iter().find(is_it).context("no slice")
}

/// The value of the bad GPU's taint for XIDs that keeps claims away.
fn taint(cluster: &Cluster) -> Result<Option<String>> {
    let slice = slice(cluster)?;
    let taints = slice.pointer(&format!("/spec/devices/{BAD}/taints"));
    let taints = taints.and_then(Value::as_array).into_iter().flatten();
    let mut xids = taints.filter(|it| {
        it.get("key") == Some(&json!("gpu.nvidia.com/xid"))
            && it.get("effect") == Some(&json!("NoSchedule"))
    });
    let value = xids.next().and_then(|it| it.get("value")?.as_str());
    Ok(value.map(str::to_owned))
}

/// How often the slice's content was written.
fn writes(cluster: &Cluster) -> Result<i64> {
    let slice = slice(cluster)?;
    let generation = slice.pointer("/metadata/generation");
    generation
        .and_then(Value::as_i64)
        .context("the slice has no generation")
}
