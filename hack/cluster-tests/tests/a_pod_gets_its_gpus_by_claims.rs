//! The GPU plugin on a real node with mock GPUs: claims, extended resources, MIG devices; kills and lost GPUs.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use cluster_tests::gpus::{
    DRIVER_VERSION, GpuPlugin, ProbeVolumes, claim_template, create_classes, inventory_path,
    opened, published,
};
use cluster_tests::{Cluster, Namespace, wait_until};
use mock_host::{MockHost, built, library, make_probe_image};
use serde_json::json;

const NODE: u8 = 1;

const DELETE_CLASSES: [&str; 4] = ["delete", "deviceclass", "gpu.nvidia.com", "mig.nvidia.com"];

const DELETE_SLICES: [&str; 4] = [
    "delete",
    "resourceslices",
    "--field-selector",
    "spec.driver=gpu.nvidia.com",
];

/// A host with mock GPUs, and the image of the probe.
struct GpuNode {
    cluster: Cluster,
    scratch: tempfile::TempDir,
    host: MockHost,
    hook: PathBuf,
}

impl GpuNode {
    fn new(inventory: &str) -> Result<Self> {
        let cluster = Cluster::connect()?;
        let scratch = tempfile::tempdir()?;
        let dir = scratch.path().join("host");
        fs::create_dir(&dir)?;
        let inventory = serde_json::from_slice(&fs::read(inventory_path(inventory))?)?;
        let host = MockHost::new(&dir, &inventory, library());
        host.install_cuda(&built("mock-cuda"), DRIVER_VERSION);
        make_probe_image(&host, &scratch.path().join("image"));
        create_classes(&cluster)?;
        Ok(Self {
            cluster,
            hook: built("nvidia-cdi-hook"),
            scratch,
            host,
        })
    }

    fn start(&self) -> Result<GpuPlugin> {
        GpuPlugin::start(&self.cluster, NODE, &self.host.path(""), &self.hook)
    }

    fn probe(&self) -> Result<ProbeVolumes> {
        ProbeVolumes::new(&self.scratch.path().join("image"))
    }

    fn wait_for_devices(&self, number: usize) -> Result<()> {
        wait_until(&self.cluster, "the GPUs are published", || {
            let found = published(&self.cluster, NODE)?;
            ensure!(found.len() == number, "{found:?}");
            Ok(())
        })
    }

    fn specs(&self) -> Result<usize> {
        let list = "ls /etc/cdi | grep -c k8s.gpu.nvidia.com-claim_ || true";
        Ok(self.cluster.on_node(NODE, list)?.trim().parse()?)
    }
}

impl Drop for GpuNode {
    fn drop(&mut self) {
        // Ignored: they fail only while the cluster ends.
        drop(self.cluster.kubectl(&DELETE_SLICES));
        drop(self.cluster.kubectl(&DELETE_CLASSES));
    }
}

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
    ensure!(node.specs()? == 3);

    plugin.end("KILL")?;
    let plugin = node.start()?;
    node.cluster
        .kubectl(&["delete", "pod", "extended", "-n", &namespace.name])?;
    wait_until(&node.cluster, "the claim is unprepared", || {
        let specs = node.specs()?;
        ensure!(specs == 2, "{specs} specs");
        Ok(())
    })?;
    plugin.end("TERM")?;
    let _plugin = node.start()?;
    node.cluster
        .kubectl(&["delete", "pod", "pod", "-n", &namespace.name])?;
    wait_until(&node.cluster, "all claims are unprepared", || {
        let specs = node.specs()?;
        ensure!(specs == 0, "{specs} specs");
        Ok(())
    })
}

// req: GPU-32
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_pod_with_a_mig_claim_opens_the_gpu_of_its_instance_only() -> Result<()> {
    let node = GpuNode::new("h100-mig")?;
    write_capabilities(&node.host)?;
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

/// The capability files of the instances, as the kernel module has them.
fn write_capabilities(host: &MockHost) -> Result<()> {
    let inventory: serde_json::Value =
        serde_json::from_slice(&fs::read(inventory_path("h100-mig"))?)?;
    let mut minor = 10;
    for gpu in inventory["gpus"].as_array().into_iter().flatten() {
        for device in gpu["mig"]["devices"].as_array().into_iter().flatten() {
            let instance = format!(
                "proc/driver/nvidia/capabilities/gpu{}/mig/gi{}",
                gpu["minor"], device["gpu_instance"]["id"]
            );
            let compute = format!("{instance}/ci{}", device["compute_instance"]);
            for dir in [instance, compute] {
                let text = format!("DeviceFileMinor: {minor}\nDeviceFileMode: 292\n");
                host.write(&format!("{dir}/access"), &text);
                minor += 1;
            }
        }
    }
    Ok(())
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
            node.cluster.kubectl(&DELETE_SLICES)?;
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
