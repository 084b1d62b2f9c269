//! A MIG manager replaces MIG devices while pods have some of them: the new devices are published within seconds, the
//! claims of those that are gone get an event, and no other pod notices.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use cluster_tests::gpus::{GpuNode, NODE, claim_template, health, published};
use cluster_tests::{Cluster, Namespace, fixtures, wait_until};
use gpu_inventory::{Fact, Inventory};
use serde_json::{Value, json};

/// The time from a change of the layout to its publication.
const PUBLISHED_WITHIN: Duration = Duration::from_secs(3);

const SMALL: &str = "device.attributes['gpu.nvidia.com'].profile == '1g.10gb'";

// req: GPU-50, GPU-65
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn new_mig_devices_are_published_and_claims_on_removed_ones_are_told() -> Result<()> {
    // Without health checks, nothing but /proc shows the change.
    for args in ["", "--feature-gates=NVMLDeviceHealthCheck=true"] {
        let inventory = cluster_tests::gpus::inventory("h100-mig")?;
        let node = GpuNode::with(&inventory)?;
        let namespace = Namespace::create(&node.cluster, "mig-layout")?;
        let cluster = &node.cluster;
        let mut small = claim_template(&namespace, "small", "mig.nvidia.com", 1);
        small["spec"]["spec"]["devices"]["requests"][0]["exactly"]["selectors"] =
            json!([{"cel": {"expression": SMALL}}]);
        let whole = claim_template(&namespace, "whole", "gpu.nvidia.com", 1);
        for template in [&small, &whole] {
            cluster.apply(&template.to_string())?;
        }
        let run = |pod: &str, template: &str| {
            fixtures::create_pod_of_template(cluster, &namespace, pod, NODE, template)?;
            fixtures::wait_until_running(cluster, &namespace, pod)
        };
        let _plugin = node.start_with(args)?;
        node.wait_for_devices(5)?;
        run("first", "small")?;
        run("second", "small")?;
        run("whole", "whole")?;
        let others = ["second", "whole"];
        let before = (node.specs()?, started(cluster, &namespace, &others)?);
        let devices_before = published(cluster, NODE)?;

        let gone = device_of(cluster, &namespace, "first")?;
        let changed = Instant::now();
        node.host.replace_mig(&with_other_mig(inventory, &gone)?);
        wait_until(cluster, "the new MIG devices are published", || {
            let devices = published(cluster, NODE)?;
            let is_new = |it: &&(String, _)| !devices_before.contains(it);
            let new = devices.iter().filter(is_new).count();
            ensure!(new == 2 && devices.len() == 6, "{devices:?}");
            Ok(())
        })?;
        let took = changed.elapsed();
        println!("published {} ms after the change", took.as_millis());
        ensure!(took < PUBLISHED_WITHIN, "{took:?}");

        let claim = claim_of(cluster, &namespace, "first")?;
        wait_until(cluster, "the claim has an event", || {
            let events = cluster.events_about(&namespace.name, &claim)?;
            let told = |it: &&String| it.starts_with("DeviceGone: ") && it.contains(&gone);
            ensure!(events.iter().filter(told).count() == 1, "{events:?}");
            Ok(())
        })?;
        let is = |pod: &str, expected: &str| {
            let found = health(cluster, &namespace, pod)?;
            ensure!(found.iter().all(|it| it.1 == expected), "{pod}: {found:?}");
            ensure!(found.len() == 1, "{pod}: {found:?}");
            Ok(())
        };
        wait_until(cluster, "the pod's device is unhealthy", || {
            is("first", "Unhealthy")
        })?;
        let after = (node.specs()?, started(cluster, &namespace, &others)?);
        ensure!(after == before, "{before:?}, then {after:?}");
        for pod in others {
            is(pod, "Healthy")?;
        }

        // The device with the same name is another one. It is free when the claim is gone.
        run("third", "small")?;
        run("fourth", "small")?;
        cluster.kubectl(&["delete", "pod", "first", "-n", &namespace.name, "--wait"])?;
        run("fifth", "small")?;
        ensure!(device_of(cluster, &namespace, "fifth")? == gone);
        for pod in ["third", "fourth", "fifth"] {
            wait_until(cluster, "its device is healthy", || is(pod, "Healthy"))?;
        }
        let delete = ["delete", "pods", "--all", "--wait", "-n", &namespace.name];
        cluster.kubectl(&delete)?;
        node.wait_for_specs(0)?;
    }
    Ok(())
}

/// Replaces the MIG device of this name by another one in its place, and that of two slices by two of one slice.
fn with_other_mig(mut inventory: Inventory, gone: &str) -> Result<Inventory> {
    let gpu = inventory
        .gpus
        .iter_mut()
        .find_map(|gpu| match &mut gpu.mig {
            Fact::Known(mig) if mig.enabled => Some(mig),
            _ => None,
        });
    let devices = &mut gpu.context("no GPU in MIG mode")?.devices;
    let mut known = devices.iter_mut().filter_map(|it| match it {
        Fact::Known(device) => Some(device),
        _ => None,
    });
    let is_it = |start: u32| gone.ends_with(&format!("-{start}"));
    let replaced = known.find(|it| is_it(it.gpu_instance.placement.start));
    let replaced = replaced.context("no such MIG device")?;
    replaced.uuid = "MIG-00000000-0000-5000-8000-000000000011".to_owned();
    replaced.gpu_instance.id = 11;
    let model = replaced.clone();
    devices.retain(|it| {
        it.known()
            .is_none_or(|it| it.gpu_instance.placement.size != 2)
    });
    for number in [12, 13] {
        let mut device = model.clone();
        device.uuid = format!("MIG-00000000-0000-5000-8000-0000000000{number}");
        device.gpu_instance.id = number;
        device.gpu_instance.placement.start = number - 10;
        devices.push(Fact::Known(device));
    }
    Ok(inventory)
}

/// The name of a pod's claim.
fn claim_of(cluster: &Cluster, namespace: &Namespace, pod: &str) -> Result<String> {
    let pod = cluster.json(&["get", "pod", pod, "-n", &namespace.name])?;
    let name = pod.pointer("/status/resourceClaimStatuses/0/resourceClaimName");
    let name = name.and_then(Value::as_str).context("no claim")?;
    Ok(name.to_owned())
}

/// The name of the device that a pod's claim was allocated.
fn device_of(cluster: &Cluster, namespace: &Namespace, pod: &str) -> Result<String> {
    let claim = claim_of(cluster, namespace, pod)?;
    let claim = cluster.json(&["get", "resourceclaim", &claim, "-n", &namespace.name])?;
    let device = claim.pointer("/status/allocation/devices/results/0/device");
    let device = device.and_then(Value::as_str).context("no device")?;
    Ok(device.to_owned())
}

/// When the containers of pods were started: a container that starts again has another time.
fn started(cluster: &Cluster, namespace: &Namespace, pods: &[&str]) -> Result<Vec<Value>> {
    let state = |pod: &&str| {
        let pod = cluster.json(&["get", "pod", pod, "-n", &namespace.name])?;
        let state = pod.pointer("/status/containerStatuses/0/state").cloned();
        state.context("no container")
    };
    pods.iter().map(state).collect()
}
