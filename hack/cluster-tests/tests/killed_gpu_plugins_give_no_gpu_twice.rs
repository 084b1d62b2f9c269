//! The GPU plugin is killed while pods with random claims come and go, and gets an older checkpoint back: no GPU is in
//! two claims' specs, pods keep theirs, and at the end nothing is held, and every GPU has the default time slice.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use cluster_tests::gpus::{GpuNode, NODE, claim_template, sliced_template};
use cluster_tests::{Cluster, Namespace, fixtures, wait_until};
use serde_json::{Value, json};

const CHECKPOINT: &str = "/var/lib/kubelet/plugins/gpu.nvidia.com/checkpoint.json";

/// The journals of what claims change on GPUs.
const EFFECTS: &str = "/var/lib/kubelet/plugins/gpu.nvidia.com/effects";

/// Kills by default; the variable `GPU_KILLS` has another number.
const KILLS: u64 = 15;

/// Claims are for 1 to this number of GPUs.
const MOST: u64 = 3;

// req: GPU-32, GPU-36, GPU-60
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn no_gpu_is_held_twice_and_none_stays_held_under_kills() -> Result<()> {
    let kills = match std::env::var("GPU_KILLS") {
        Ok(number) => number.parse().context("GPU_KILLS is not a number")?,
        Err(_) => KILLS,
    };
    let node = GpuNode::new("h100")?;
    let namespace = Namespace::create(&node.cluster, "gpu-kills")?;
    create_templates(&node.cluster, &namespace)?;
    let mut plugin = node.start()?;
    node.wait_for_devices(8)?;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut pods: Vec<String> = Vec::new();
    for round in 0..kills {
        if pods.len() < 2 || (pods.len() < 6 && random.below(2) == 0) {
            let pod = format!("pod-{round}");
            let kind = if random.below(2) == 0 {
                "gpus"
            } else {
                "sliced"
            };
            let template = format!("{kind}-{}", 1 + random.below(MOST));
            fixtures::create_pod_of_template(&node.cluster, &namespace, &pod, NODE, &template)?;
            pods.push(pod);
        } else {
            let at = random.below(u64::try_from(pods.len())?);
            let pod = pods.swap_remove(usize::try_from(at)?);
            let in_namespace = ["-n", &namespace.name, "--wait=false"];
            let delete = [&["delete", "pod", &pod][..], &in_namespace].concat();
            node.cluster.kubectl(&delete)?;
        }
        // Kills at any moment of the work.
        sleep(Duration::from_millis(random.below(1000)));
        plugin.end("KILL")?;
        is_none_held_twice(&node).with_context(|| format!("after kill {round}"))?;
        plugin = node.start()?;
    }
    let delete_all = ["delete", "pods", "--all", "-n", &namespace.name, "--wait"];
    node.cluster.kubectl(&delete_all)?;
    node.wait_for_specs(0)?;
    is_nothing_recorded(&node)?;
    wait_until(
        &node.cluster,
        "all GPUs have the default time slice",
        || {
            let found = node.host.time_slices();
            ensure!(found.is_empty(), "{found:?}");
            let journals = node.cluster.on_node(NODE, &format!("ls {EFFECTS}"))?;
            ensure!(!journals.contains(".json"), "{journals}");
            Ok(())
        },
    )?;
    let all = claim_template(&namespace, "all", "gpu.nvidia.com", 8);
    node.cluster.apply(&all.to_string())?;
    fixtures::create_pod_of_template(&node.cluster, &namespace, "all", NODE, "all")?;
    fixtures::wait_until_running(&node.cluster, &namespace, "all")?;
    node.cluster.kubectl(&delete_all).map(drop)
}

// req: GPU-35, GPU-36
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn an_older_checkpoint_that_is_copied_back_loses_no_claim() -> Result<()> {
    let node = GpuNode::new("h100")?;
    let namespace = Namespace::create(&node.cluster, "gpu-older")?;
    create_templates(&node.cluster, &namespace)?;
    let run = |pod: &str, gpus: u32| {
        let template = format!("gpus-{gpus}");
        fixtures::create_pod_of_template(&node.cluster, &namespace, pod, NODE, &template)?;
        fixtures::wait_until_running(&node.cluster, &namespace, pod)
    };
    let delete = |pod: &str| {
        let delete = ["delete", "pod", pod, "-n", &namespace.name, "--wait"];
        node.cluster.kubectl(&delete).map(drop)
    };
    let plugin = node.start()?;
    node.wait_for_devices(8)?;
    run("deleted", 1)?;
    run("older", 2)?;
    node.cluster
        .on_node(NODE, &format!("cp {CHECKPOINT} /run/older.json"))?;
    run("newer", 1)?;
    delete("deleted")?;
    let before = node.specs()?;
    plugin.end("KILL")?;
    let copy = format!("cp /run/older.json {CHECKPOINT}.new && mv {CHECKPOINT}.new {CHECKPOINT}");
    node.cluster.on_node(NODE, &copy)?;

    let _plugin = node.start()?;
    run("third", 3)?;
    let after = node.specs()?;
    for (uid, gpus) in &before {
        ensure!(after.get(uid) == Some(gpus), "{before:?}, then {after:?}");
    }
    is_none_held_twice(&node)?;
    for pod in ["older", "newer", "third"] {
        delete(pod)?;
    }
    node.wait_for_specs(0)?;
    wait_until(&node.cluster, "the deleted claim has no record", || {
        is_nothing_recorded(&node)
    })
}

/// Templates of claims for 1 to [`MOST`] GPUs, with and without a time slice.
fn create_templates(cluster: &Cluster, namespace: &Namespace) -> Result<()> {
    for count in 1..=MOST {
        let name = format!("gpus-{count}");
        let number = count.try_into()?;
        let template = claim_template(namespace, &name, "gpu.nvidia.com", number);
        cluster.apply(&template.to_string())?;
        let name = format!("sliced-{count}");
        let template = sliced_template(namespace, &name, "gpu.nvidia.com", number, "Long");
        cluster.apply(&template.to_string())?;
    }
    Ok(())
}

/// Checks that no GPU is in the specs of two claims, and that each claim of a running pod has a spec.
fn is_none_held_twice(node: &GpuNode) -> Result<()> {
    let objects = node.cluster.items(&["pods,resourceclaims", "-A"])?;
    let specs = node.specs()?;
    let mut held = BTreeSet::new();
    for path in specs.values().flatten() {
        ensure!(held.insert(path), "{path} is in two specs: {specs:?}");
    }
    let is_running = |pod: &&Value| {
        let phase = pod.pointer("/status/phase");
        phase == Some(&json!("Running")) && pod.pointer("/metadata/deletionTimestamp").is_none()
    };
    let claims = objects
        .iter()
        .filter(is_running)
        .filter_map(|pod| pod.pointer("/status/resourceClaimStatuses/0/resourceClaimName"));
    for claim in claims.filter_map(Value::as_str) {
        let is_it = |it: &&Value| it.pointer("/metadata/name") == Some(&json!(claim));
        let found = objects.iter().find(is_it);
        let uid = found.and_then(|it| it.pointer("/metadata/uid")?.as_str());
        let uid = uid.context("a running pod without a claim")?;
        ensure!(
            specs.contains_key(uid),
            "{uid} of a running pod has no spec"
        );
    }
    Ok(())
}

/// Checks that the checkpoint has no claims.
fn is_nothing_recorded(node: &GpuNode) -> Result<()> {
    let text = node.cluster.on_node(NODE, &format!("cat {CHECKPOINT}"))?;
    let checkpoint: Value = serde_json::from_str(&text)?;
    let claims = checkpoint.pointer("/v2/preparedClaims");
    let claims = claims.and_then(Value::as_object).map(serde_json::Map::len);
    ensure!(claims.unwrap_or_default() == 0, "{text}");
    Ok(())
}

/// The same numbers in each run (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}
