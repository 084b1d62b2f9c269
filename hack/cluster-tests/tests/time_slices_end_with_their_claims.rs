//! Time slices on a real node with mock GPUs: set for claims that ask, and default again after them; refused by the
//! driver's words; and a broken `nvidia-smi` keeps no pod from its end.

use anyhow::{Context as _, Result, ensure};
use cluster_tests::gpus::{GpuNode, NODE, claim_template, sliced_template};
use cluster_tests::{Namespace, fixtures, wait_until};

/// The file that makes the mock of `nvidia-smi` fail.
const FAILS: &str = "nvidia-smi-fails";

// req: GPU-60, GPU-62, GPU-63
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_time_slice_is_set_for_a_pod_and_default_again_after_it() -> Result<()> {
    let node = GpuNode::new("h100")?;
    let namespace = Namespace::create(&node.cluster, "time-slices")?;
    for template in [
        sliced_template(&namespace, "long", "gpu.nvidia.com", 2, "Long"),
        sliced_template(&namespace, "short", "gpu.nvidia.com", 1, "Short"),
        claim_template(&namespace, "plain", "gpu.nvidia.com", 1),
    ] {
        node.cluster.apply(&template.to_string())?;
    }
    let create = |pod: &str, template: &str| {
        fixtures::create_pod_of_template(&node.cluster, &namespace, pod, NODE, template)
    };
    let run = |pod: &str, template: &str| {
        create(pod, template)?;
        fixtures::wait_until_running(&node.cluster, &namespace, pod)
    };
    let delete = |pod: &str| {
        let delete = ["delete", "pod", pod, "-n", &namespace.name, "--wait"];
        node.cluster.kubectl(&delete).map(drop)
    };
    let plugin = node.start()?;
    node.wait_for_devices(8)?;

    run("plain", "plain")?;
    ensure!(node.host.time_slices().is_empty());
    run("long", "long")?;
    run("short", "short")?;
    let mut found = node.host.time_slices();
    found.sort();
    ensure!(found == ["1", "3", "3"], "{found:?}");
    // The driver is loaded again while the plugin is down.
    plugin.end("KILL")?;
    node.host.remove("time-slices");
    let plugin = node.start()?;
    wait_until(&node.cluster, "the time slices are set again", || {
        let found = node.host.time_slices();
        ensure!(found.len() == 3, "{found:?}");
        Ok(())
    })?;
    delete("long")?;
    ensure!(node.host.time_slices() == ["1"]);

    // The program fails: the pod ends, and its GPU is restored later.
    node.host.write(FAILS, "255 the driver is busy");
    delete("short")?;
    node.wait_for_specs(1)?;
    wait_until(&node.cluster, "the event names claim and reason", || {
        let events = node.cluster.events_about("default", "node1")?;
        let mut texts = events.iter().filter(|it| it.contains("GPUNotRestored"));
        let text = texts.next().context("no event")?;
        ensure!(text.contains("the driver is busy"), "{text}");
        ensure!(text.contains("cannot be set to Default"), "{text}");
        Ok(())
    })?;
    ensure!(node.host.time_slices() == ["1"]);
    node.host.remove(FAILS);
    wait_until(&node.cluster, "the GPU has the default", || {
        ensure!(node.host.time_slices().is_empty());
        Ok(())
    })?;

    // The GPU has no such setting.
    node.host.write(FAILS, "3 Not Supported");
    create("refused", "long")?;
    wait_until(&node.cluster, "the pod has the driver's words", || {
        let events = node.cluster.events_about(&namespace.name, "refused")?;
        let events = events.join("\n");
        ensure!(events.contains("Not Supported"), "no such event");
        ensure!(events.contains("remove timeSlicingConfig"), "no fix");
        Ok(())
    })?;
    node.host.remove(FAILS);
    delete("refused")?;
    delete("plain")?;
    node.wait_for_specs(0)?;
    drop(plugin);
    Ok(())
}
