//! A node's GPUs move from NVIDIA's plugin to ours and back while pods hold them: pods stay, containers restart, pods
//! come and go, and the records of both are equal.
//!
//! By hand, because the project does not build NVIDIA's plugin: `NVIDIAS_GPU_PLUGIN` is the path of its program.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use cluster_tests::gpus::{GpuNode, NODE, claim_template, inventory_path, sleeping_pod};
use cluster_tests::{Namespace, fixtures, output_of, wait_until};
use gpu_inventory::{Fact, Inventory};
use mock_host::repeated;
use serde_json::{Value, json};

const CHECKPOINT: &str = "/var/lib/kubelet/plugins/gpu.nvidia.com/checkpoint.json";

const GPUS: u32 = 24;
const PODS: u32 = 20;

// req: GPU-30
#[test]
#[ignore = "needs the cluster of hack/e2e.sh, and NVIDIAS_GPU_PLUGIN"]
fn twenty_pods_keep_their_gpus() -> Result<()> {
    let nvidias = std::env::var_os("NVIDIAS_GPU_PLUGIN");
    let nvidias = PathBuf::from(nvidias.context("NVIDIAS_GPU_PLUGIN is not set")?);
    let model: Inventory = serde_json::from_slice(&fs::read(inventory_path("h100"))?)?;
    let inventory = repeated(&model, GPUS);
    let node = GpuNode::with(&inventory)?;
    complete_for_nvidias(&node, &inventory)?;
    let namespace = Namespace::create(&node.cluster, "gpus-move")?;
    let template = claim_template(&namespace, "gpu", "gpu.nvidia.com", 1);
    node.cluster.apply(&template.to_string())?;
    let create = |numbers: std::ops::Range<u32>| {
        let names: Vec<_> = numbers.map(|number| format!("pod-{number}")).collect();
        for name in &names {
            let claim = json!({"name": "gpu", "resourceClaimTemplateName": "gpu"});
            let pod = sleeping_pod(&namespace, name, &claim, &["main"]);
            node.cluster.apply(&pod.to_string())?;
        }
        names
            .iter()
            .try_for_each(|name| fixtures::wait_until_running(&node.cluster, &namespace, name))
    };
    let delete = |pods: &[&str]| {
        let delete = ["delete", "pod", "--wait", "-n", &namespace.name];
        node.cluster
            .kubectl(&[&delete[..], pods].concat())
            .map(drop)
    };
    let gpu_of = |pod: &str| {
        let list = "ls -d /dev/nvidia[0-9]*";
        node.cluster.in_pod(&namespace.name, pod, list)
    };

    let plugin = node.start_nvidias(&nvidias)?;
    node.wait_for_devices(usize::try_from(GPUS)?)?;
    create(0..PODS)?;
    let of_nvidias = records(&node)?;
    ensure!(of_nvidias.len() == usize::try_from(PODS)?);
    let seen = gpu_of("pod-0")?;
    plugin.end("TERM")?;

    let plugin = node.start()?;
    wait_until(&node.cluster, "our plugin has the records", || {
        let records = records(&node)?;
        ensure!(records == of_nvidias, "{of_nvidias:#?}, then {records:#?}");
        Ok(())
    })?;
    restart_containers(&node, &namespace)?;
    ensure!(gpu_of("pod-0")? == seen);
    delete(&["pod-1", "pod-2", "pod-3"])?;
    create(PODS..PODS + 3)?;
    let ours = records(&node)?;
    ensure!(ours.len() == usize::try_from(PODS)?);
    plugin.end("TERM")?;

    let _plugin = node.start_nvidias(&nvidias)?;
    restart_containers(&node, &namespace)?;
    ensure!(gpu_of("pod-0")? == seen);
    delete(&["pod-4", "pod-20"])?;
    create(PODS + 3..PODS + 5)?;
    let again = records(&node)?;
    for (uid, devices) in &again {
        if let Some(before) = ours.get(uid) {
            ensure!(before == devices, "{before}, then {devices}");
        }
    }
    let all = ["delete", "pods", "--all", "--wait", "-n", &namespace.name];
    node.cluster.kubectl(&all)?;
    node.wait_for_specs(0)?;
    ensure!(records(&node)?.is_empty());
    Ok(())
}

/// The devices in the checkpoint's records by claim. NVIDIA's plugin drops what else ours records.
fn records(node: &GpuNode) -> Result<BTreeMap<String, Value>> {
    let text = node.cluster.on_node(NODE, &format!("cat {CHECKPOINT}"))?;
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

/// Ends the containers of some pods, and waits until they run again.
fn restart_containers(node: &GpuNode, namespace: &Namespace) -> Result<()> {
    for pod in ["pod-0", "pod-5", "pod-6"] {
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

/// What NVIDIA's plugin needs of a host beyond what the mock has.
fn complete_for_nvidias(node: &GpuNode, inventory: &Inventory) -> Result<()> {
    let host = &node.host;
    // MIG profiles are supported by H100, and the mock has none.
    host.inject(&json!({"errors": {"nvmlDeviceGetGpuInstanceProfileInfo": 3}}));
    host.write("usr/bin/nvidia-smi", "#!/bin/sh\n");
    fs::set_permissions(
        host.path("usr/bin/nvidia-smi"),
        Permissions::from_mode(0o755),
    )?;
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
    fs::create_dir_all(host.path("dev"))?;
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
