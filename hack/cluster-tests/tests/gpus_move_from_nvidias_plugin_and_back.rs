//! A node's GPUs move from NVIDIA's plugin to ours and back while pods hold them: pods stay, containers restart, pods
//! come and go, and the records of both are equal. So do shares of GPUs, time slices and MIG devices.
//!
//! By hand, because the project does not build NVIDIA's plugin: `NVIDIAS_GPU_PLUGIN` is the path of its program.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use cluster_tests::gpus::{
    GpuNode, NODE, claim_template, inventory, sleeping_pod, sliced_template,
};
use cluster_tests::{Namespace, fixtures, output_of, wait_until};
use gpu_inventory::{Fact, Inventory};
use mock_host::repeated;
use serde_json::{Value, json};

const DATA: &str = "/var/lib/kubelet/plugins/gpu.nvidia.com";

const GPUS: u32 = 24;
const PODS: u32 = 20;

/// The plugins' settings in which claims can have time slices and shares.
const SETTINGS: &str =
    "--feature-gates=TimeSlicingSettings=true,ConsumableShares=true --consumable-shares=10";

// req: GPU-30
#[test]
#[ignore = "needs the cluster of hack/e2e.sh, and NVIDIAS_GPU_PLUGIN"]
fn twenty_pods_keep_their_gpus() -> Result<()> {
    let nvidias = nvidias()?;
    let inventory = repeated(&inventory("h100")?, GPUS);
    let node = GpuNode::with(&inventory)?;
    complete_for_nvidias(&node, &inventory)?;
    let namespace = Namespace::create(&node.cluster, "gpus-move")?;
    let pods = Pods(&node, &namespace);
    let template = claim_template(&namespace, "gpu", "gpu.nvidia.com", 1);
    node.cluster.apply(&template.to_string())?;
    let names = |numbers: std::ops::Range<u32>| -> Vec<_> {
        numbers.map(|number| format!("gpu-{number}")).collect()
    };

    let plugin = node.start_nvidias(&nvidias, "")?;
    node.wait_for_devices(usize::try_from(GPUS)?)?;
    pods.run(&names(0..PODS))?;
    let of_nvidias = records(&node)?;
    ensure!(of_nvidias.len() == usize::try_from(PODS)?);
    let seen = pods.devices("gpu-0")?;
    plugin.end("TERM")?;

    let plugin = node.start()?;
    wait_for_records(&node, &of_nvidias)?;
    pods.restart(&["gpu-0", "gpu-5", "gpu-6"])?;
    ensure!(pods.devices("gpu-0")? == seen);
    pods.delete(&["gpu-1", "gpu-2", "gpu-3"])?;
    pods.run(&names(PODS..PODS + 3))?;
    let ours = records(&node)?;
    ensure!(ours.len() == usize::try_from(PODS)?);
    plugin.end("TERM")?;

    let _plugin = node.start_nvidias(&nvidias, "")?;
    pods.restart(&["gpu-0", "gpu-5", "gpu-6"])?;
    ensure!(pods.devices("gpu-0")? == seen);
    pods.delete(&["gpu-4", "gpu-20"])?;
    pods.run(&names(PODS + 3..PODS + 5))?;
    ensure_kept(&ours, &records(&node)?)?;
    pods.delete(&["--all"])?;
    node.wait_for_specs(0)?;
    ensure!(records(&node)?.is_empty());
    Ok(())
}

// req: GPU-30, GPU-53, GPU-64
#[test]
#[ignore = "needs the cluster of hack/e2e.sh, and NVIDIAS_GPU_PLUGIN"]
fn time_slices_shares_and_mig_devices_move_and_back() -> Result<()> {
    let nvidias = nvidias()?;
    let inventory = with_mig_devices()?;
    let node = GpuNode::with(&inventory)?;
    complete_for_nvidias(&node, &inventory)?;
    let namespace = Namespace::create(&node.cluster, "settings-move")?;
    let pods = Pods(&node, &namespace);
    for (gpu, template) in [
        sliced_template(&namespace, "long", "gpu.nvidia.com", 1, "Long"),
        sliced_template(&namespace, "short", "gpu.nvidia.com", 1, "Short"),
        claim_template(&namespace, "plain", "gpu.nvidia.com", 1),
        claim_template(&namespace, "mig", "mig.nvidia.com", 1),
    ]
    .iter_mut()
    .enumerate()
    {
        on_gpu(template, &inventory, gpu)?;
        node.cluster.apply(&template.to_string())?;
    }
    let stay = ["short-0", "plain-0", "mig-0"];
    let devices = || -> Result<Vec<_>> { stay.iter().map(|pod| pods.devices(pod)).collect() };
    let slices_are = |expected: &[&str]| {
        let mut found = node.host.time_slices();
        found.sort();
        ensure!(found == expected, "{found:?} instead of {expected:?}");
        Ok(())
    };

    let plugin = node.start_nvidias(&nvidias, SETTINGS)?;
    node.wait_for_devices(6)?;
    pods.run(&["long-0", "short-1", "plain-1", "mig-1"])?;
    pods.run(&stay)?;
    slices_are(&["1", "3"])?;
    let of_nvidias = records(&node)?;
    ensure!(of_nvidias.len() == 7);
    let seen = devices()?;
    plugin.end("TERM")?;

    let plugin = node.start_with(SETTINGS)?;
    wait_for_records(&node, &of_nvidias)?;
    pods.restart(&stay)?;
    ensure!(devices()? == seen);
    pods.delete(&["short-1", "plain-1", "mig-1"])?;
    slices_are(&["1", "3"])?;
    pods.delete(&["long-0"])?;
    slices_are(&["1"])?;
    pods.run(&["long-2", "short-2", "plain-2", "mig-2"])?;
    slices_are(&["1", "3"])?;
    let ours = records(&node)?;
    ensure!(ours.len() == 7);
    plugin.end("TERM")?;

    let plugin = node.start_nvidias(&nvidias, SETTINGS)?;
    pods.restart(&stay)?;
    ensure!(devices()? == seen);
    pods.delete(&["long-2"])?;
    slices_are(&["1"])?;
    pods.run(&["long-3", "short-3", "plain-3", "mig-3"])?;
    slices_are(&["1", "3"])?;
    ensure_kept(&ours, &records(&node)?)?;
    pods.delete(&["short-0", "short-2", "plain-0", "plain-2", "mig-0", "mig-2"])?;
    slices_are(&["1", "3"])?;
    plugin.end("TERM")?;

    // Our plugin has journals of claims that NVIDIA's plugin has ended.
    let _plugin = node.start_with(SETTINGS)?;
    pods.run(&["long-4"])?;
    pods.delete(&["long-4"])?;
    slices_are(&["1", "3"])?;
    pods.delete(&["short-3"])?;
    slices_are(&["3"])?;
    pods.delete(&["--all"])?;
    slices_are(&[])?;
    node.wait_for_specs(0)?;
    ensure!(records(&node)?.is_empty());
    Ok(())
}

/// Pods of a namespace, each with a claim of the template that its name begins with.
struct Pods<'a>(&'a GpuNode, &'a Namespace);

// === impl Pods ===

impl Pods<'_> {
    /// Creates pods, and waits until they run.
    fn run(&self, names: &[impl AsRef<str>]) -> Result<()> {
        let Self(node, namespace) = self;
        for name in names.iter().map(AsRef::as_ref) {
            let template = name.split('-').next();
            let claim = json!({"name": "gpu", "resourceClaimTemplateName": template});
            let pod = sleeping_pod(namespace, name, &claim, &["main"]);
            node.cluster.apply(&pod.to_string())?;
        }
        let mut names = names.iter().map(AsRef::as_ref);
        names.try_for_each(|name| fixtures::wait_until_running(&node.cluster, namespace, name))
    }

    fn delete(&self, names: &[&str]) -> Result<()> {
        let Self(node, namespace) = self;
        let delete = ["delete", "pod", "--wait", "-n", &namespace.name];
        node.cluster
            .kubectl(&[&delete[..], names].concat())
            .map(drop)
    }

    /// Ends the containers, and waits until they run again.
    fn restart(&self, names: &[&str]) -> Result<()> {
        let Self(node, namespace) = self;
        for pod in names {
            let get = ["get", "pod", pod, "-n", &namespace.name];
            let restarts = |pod: &Value| {
                let status = pod.pointer("/status/containerStatuses/0")?;
                let count = status["restartCount"].as_u64()?;
                Some((count, status["ready"] == true))
            };
            let (before, _) = restarts(&node.cluster.json(&get)?).context("no status")?;
            // Ignored: it fails if it ends with the container.
            drop(node.cluster.in_pod(&namespace.name, pod, "kill 1"));
            wait_until(&node.cluster, "its container runs again", || {
                let now = node.cluster.json(&get)?;
                ensure!(restarts(&now) == Some((before + 1, true)), "{now}");
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The device nodes of its GPU or MIG device.
    fn devices(&self, pod: &str) -> Result<String> {
        let Self(node, namespace) = self;
        let list = "find /dev -name 'nvidia[0-9]*' -o -name 'nvidia-cap[0-9]*' | sort";
        let (_, devices) = node.cluster.in_pod(&namespace.name, pod, list)?;
        ensure!(devices.contains("/dev/nvidia"), "{pod}: {devices}");
        Ok(devices)
    }
}

fn nvidias() -> Result<PathBuf> {
    let path = std::env::var_os("NVIDIAS_GPU_PLUGIN");
    Ok(path.context("NVIDIAS_GPU_PLUGIN is not set")?.into())
}

/// Three whole GPUs, and one with three MIG devices.
fn with_mig_devices() -> Result<Inventory> {
    let mut gpus = repeated(&inventory("h100")?, 4);
    let mut mig = inventory("h100-mig")?.gpus.swap_remove(0).mig;
    if let Fact::Known(mig) = &mut mig {
        // NVIDIA's plugin does not start if a MIG device is a part of its GPU instance, as the others are.
        mig.devices.truncate(3);
    }
    gpus.gpus.last_mut().context("no GPU")?.mig = mig;
    Ok(gpus)
}

/// Makes the template's claims for the GPU with this index, or its MIG devices.
fn on_gpu(template: &mut Value, inventory: &Inventory, gpu: usize) -> Result<()> {
    let address = inventory.gpus.get(gpu).and_then(|gpu| gpu.pci.known());
    let address = address.context("no address")?;
    let attribute = "device.attributes['resource.kubernetes.io'].pciBusID";
    let selector = json!({"cel": {"expression": format!("{attribute} == '{address}'")}});
    let request = template.pointer_mut("/spec/spec/devices/requests/0/exactly");
    request.context("no request")?["selectors"] = json!([selector]);
    Ok(())
}

/// The devices in the checkpoint's records by claim. NVIDIA's plugin drops what else ours records.
fn records(node: &GpuNode) -> Result<BTreeMap<String, Value>> {
    let text = node
        .cluster
        .on_node(NODE, &format!("cat {DATA}/checkpoint.json"))?;
    let checkpoint: Value = serde_json::from_str(&text)?;
    let claims = checkpoint.pointer("/v2/preparedClaims");
    let claims = claims.and_then(Value::as_object).into_iter().flatten();
    Ok(claims
        .map(|(uid, record)| {
            let kept = json!([record["checkpointState"], record["preparedDevices"]]);
            (uid.clone(), kept)
        })
        .collect())
}

/// Waits until the plugin runs that has just been started. It has all records of the earlier one.
fn wait_for_records(node: &GpuNode, expected: &BTreeMap<String, Value>) -> Result<()> {
    wait_until(&node.cluster, "our plugin has the records", || {
        let records = records(node)?;
        ensure!(records == *expected, "{expected:#?}, then {records:#?}");
        Ok(())
    })
}

/// Records of claims that are still prepared are as before.
fn ensure_kept(before: &BTreeMap<String, Value>, now: &BTreeMap<String, Value>) -> Result<()> {
    for (uid, devices) in now {
        let before = before.get(uid).unwrap_or(devices);
        ensure!(before == devices, "{before}, then {devices}");
    }
    Ok(())
}

/// What NVIDIA's plugin needs of a host beyond what the mock has.
fn complete_for_nvidias(node: &GpuNode, inventory: &Inventory) -> Result<()> {
    let host = &node.host;
    let majors = inventory.host.majors.known().context("no majors")?;
    let mut nodes = vec![("nvidiactl".to_owned(), "nvidia", 255)];
    nodes.push(("nvidia-uvm".to_owned(), "nvidia-uvm", 0));
    nodes.push(("nvidia-uvm-tools".to_owned(), "nvidia-uvm", 1));
    for gpu in &inventory.gpus {
        let minor = *gpu.minor.known().context("no minor")?;
        nodes.push((format!("nvidia{minor}"), "nvidia", minor));
        if let Fact::Known(address) = &gpu.pci {
            // No memory regions: as many lines as PCI has.
            let resource = format!("sys/bus/pci/devices/{address}/resource");
            host.write(&resource, &"0x0 0x0 0x0\n".repeat(17));
        }
    }
    std::fs::create_dir_all(host.path("dev"))?;
    for (name, module, minor) in nodes {
        let major = majors.get(module).context("no major")?;
        let (path, major, minor) = (host.path("dev").join(name), major, minor);
        let mut mknod = Command::new("mknod");
        mknod
            .arg(path)
            .args(["c", &major.to_string(), &minor.to_string()]);
        output_of(&mut mknod, "")?;
    }
    Ok(())
}
