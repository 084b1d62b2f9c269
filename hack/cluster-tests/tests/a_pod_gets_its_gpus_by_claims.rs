//! The GPU plugin on a real node with mock GPUs: claims, extended resources, MIG devices; kills and lost GPUs.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use cluster_tests::gpus::{GpuNode, NODE, claim_template, delete_slices, opened, published};
use cluster_tests::{Namespace, wait_until};
use serde_json::json;

// req: GPU-31, GPU-33
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn containers_open_exactly_the_gpus_of_their_claims_also_after_kills() -> Result<()> {
    let node = GpuNode::new("h100")?;
    let namespace = Namespace::create(&node.cluster, "gpus")?;
    let plugin = node.start()?;
    node.wait_for_devices(8)?;
    for (name, count) in [("one", 1), ("two", 2)] {
        let template = claim_template(&namespace, name, "gpu.nvidia.com", count);
        node.cluster.apply(&template.to_string())?;
    }
    let probe = node.probe()?;
    let claim = |name: &str| json!({"claims": [{"name": name}]});
    let containers = vec![
        probe.container("first", &claim("a")),
        probe.container("second", &claim("b")),
    ];
    let pod = probe.pod(
        &namespace,
        "pod",
        NODE,
        &[("a", "one"), ("b", "two")],
        &containers,
    );
    node.cluster.apply(&pod.to_string())?;
    let extended = json!({"limits": {"nvidia.com/gpu": "1"}});
    let extended = vec![probe.container("main", &extended)];
    let extended = probe.pod(&namespace, "extended", NODE, &[], &extended);
    node.cluster.apply(&extended.to_string())?;

    let opened = |pod: &str, container: &str| opened(&node.cluster, &namespace, pod, container);
    let first = opened("pod", "first")?;
    let second = opened("pod", "second")?;
    let of_extended = opened("extended", "main")?;
    ensure!((first.len(), second.len(), of_extended.len()) == (1, 2, 1));
    let mut all: Vec<_> = [first, second, of_extended].concat();
    all.sort_unstable();
    all.dedup();
    ensure!(all.len() == 4, "a GPU is in two containers: {all:?}");
    ensure!(node.specs()?.len() == 3);

    plugin.end("KILL")?;
    let plugin = node.start()?;
    node.cluster
        .kubectl(&["delete", "pod", "extended", "-n", &namespace.name])?;
    node.wait_for_specs(2)?;
    plugin.end("TERM")?;
    let _plugin = node.start()?;
    node.cluster
        .kubectl(&["delete", "pod", "pod", "-n", &namespace.name])?;
    node.wait_for_specs(0)
}

// req: GPU-32
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_pod_with_a_mig_claim_opens_the_gpu_of_its_instance_only() -> Result<()> {
    let node = GpuNode::new("h100-mig")?;
    let namespace = Namespace::create(&node.cluster, "mig")?;
    let _plugin = node.start()?;
    wait_until(&node.cluster, "MIG devices are published", || {
        let found = published(&node.cluster, NODE)?;
        ensure!(
            found.iter().any(|(name, _)| name.contains("-mig-")),
            "{found:?}"
        );
        Ok(())
    })?;
    let template = claim_template(&namespace, "mig", "mig.nvidia.com", 1);
    node.cluster.apply(&template.to_string())?;
    let probe = node.probe()?;
    let claim = json!({"claims": [{"name": "a"}]});
    let containers = vec![probe.container("main", &claim)];
    let pod = probe.pod(&namespace, "pod", NODE, &[("a", "mig")], &containers);
    node.cluster.apply(&pod.to_string())?;
    let list = "ls /dev/nvidia-caps; ls -d /dev/nvidia[0-9]*";
    wait_until(&node.cluster, "the container runs", || {
        let (found, text) = node.cluster.in_pod(&namespace.name, "pod", list)?;
        let lines: Vec<_> = text.lines().collect();
        let capabilities = lines
            .iter()
            .filter(|it| it.starts_with("nvidia-cap"))
            .count();
        let gpus = lines
            .iter()
            .filter(|it| it.starts_with("/dev/nvidia"))
            .count();
        ensure!(found && (capabilities, gpus) == (2, 1), "{text}");
        Ok(())
    })
}

// req: GPU-1, GPU-2, GPU-39
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn one_broken_gpu_of_eight_leaves_seven_published_without_a_restart() -> Result<()> {
    let node = GpuNode::new("h100")?;
    let calls = [
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetName",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetMigMode",
    ];
    for call in calls {
        for (effect, limit) in [("code", 2), ("abort", 2), ("hang", 12)] {
            delete_slices(&node.cluster)?;
            node.wait_for_devices(0)?;
            node.host.inject(&fault(call, effect));
            let since = Instant::now();
            let plugin = node.start()?;
            wait_until(&node.cluster, "seven GPUs are published", || {
                let found = published(&node.cluster, NODE)?;
                let others = found
                    .iter()
                    .filter(|(name, taints)| name != "gpu-3" && taints.is_empty());
                ensure!(others.count() == 7, "{call} {effect}: {found:?}");
                Ok(())
            })?;
            println!(
                "{call} {effect}: seven published after {:?} (limit {limit} s)",
                since.elapsed()
            );
            ensure!(since.elapsed() < Duration::from_secs(60));
            plugin.end("TERM")?;
        }
    }
    Ok(())
}

/// A fault of the mock on GPU 3.
fn fault(call: &str, effect: &str) -> serde_json::Value {
    let call = format!("{call}@3");
    match effect {
        "code" => json!({"errors": {call: 15}}),
        "abort" => json!({"abort": [call]}),
        _ => json!({"hang": [call]}),
    }
}
