//! Nodes with mock GPUs, and the GPU plugin on them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use gpu_inventory::Inventory;
use mock_host::{MockHost, built, library, make_probe_image};
use serde_json::{Value, json};

use crate::cliques::LABEL_ENABLED;
use crate::fixtures::SLEEP;
use crate::node_pod::NAMESPACE;
use crate::release::upgrade;
use crate::{Cluster, Namespace, program_path, wait_until};

/// The node of [`GpuNode`].
pub const NODE: u8 = 1;

/// The version of the mock driver's files.
const DRIVER_VERSION: &str = "580.82.07";

/// The number of GPUs that `hack/install.sh` gives each node.
pub const GPUS_OF_NODE: usize = 4;

/// The plugin's log, in the node's private /run.
const LOG: &str = "/run/gpu-plugin.log";
const PID: &str = "/run/gpu-plugin.pid";

/// A directory that is a host with mock GPUs, for the GPU plugin on a node, and the image of the probe.
pub struct GpuNode {
    /// The cluster.
    pub cluster: Cluster,
    /// The host.
    pub host: MockHost,
    scratch: tempfile::TempDir,
    hook: PathBuf,
}

impl GpuNode {
    /// Makes a host with the inventory of this name, and the classes of GPUs.
    ///
    /// # Errors
    /// If a file cannot be written, or the API server refuses the classes.
    pub fn new(inventory: &str) -> Result<Self> {
        Self::with(&self::inventory(inventory)?)
    }

    /// As [`new`](Self::new), with this inventory.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(inventory: &Inventory) -> Result<Self> {
        let cluster = Cluster::connect()?;
        let scratch = tempfile::tempdir()?;
        let dir = scratch.path().join("host");
        fs::create_dir(&dir)?;
        let host = MockHost::new(&dir, inventory, library());
        host.install_cuda(&built("mock-cuda"), DRIVER_VERSION);
        host.install_smi();
        make_probe_image(&host, &scratch.path().join("image"));
        create_classes(&cluster)?;
        Ok(Self {
            cluster,
            hook: built("nvidia-cdi-hook"),
            scratch,
            host,
        })
    }

    /// Starts the plugin.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(&self) -> Result<GpuPlugin> {
        self.start_with("--feature-gates=TimeSlicingSettings=true")
    }

    /// Starts the plugin with more arguments, separated by spaces.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start_with(&self, args: &str) -> Result<GpuPlugin> {
        GpuPlugin::start(&self.cluster, NODE, &self.host.path(""), &self.hook, args)
    }

    /// Starts NVIDIA's plugin, a program that the caller has, with more arguments, separated by spaces. It reads the
    /// host's `/sys` and `/proc/driver`, so it gets the mock's in a mount namespace of its own.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start_nvidias(&self, program: &Path, args: &str) -> Result<GpuPlugin> {
        let host = self.host.path("");
        let host = host.display();
        let command = format!(
            "exec unshare --mount sh -c 'echo $$ >{PID}; mount --make-rprivate /
             mount --bind {host}/sys /sys; mount --bind {host}/proc/driver /proc/driver; export ALT_PROC_DEVICES_PATH={host}/proc/devices
             exec {program} --node-name node{NODE} --image-name none --cdi-root /etc/cdi \
             --nvidia-driver-root {host} --container-driver-root {host} \
             --nvidia-cdi-hook-path {hook} {args}' >>{LOG} 2>&1",
            program = program.display(),
            hook = self.hook.display(),
        );
        GpuPlugin::run(&self.cluster, NODE, &command)
    }

    /// The probe, for pods.
    ///
    /// # Errors
    /// As [`ProbeVolumes::new`].
    pub fn probe(&self) -> Result<ProbeVolumes> {
        ProbeVolumes::new(&self.scratch.path().join("image"))
    }

    /// Waits until this number of devices is published.
    ///
    /// # Errors
    /// If it is never published.
    pub fn wait_for_devices(&self, number: usize) -> Result<()> {
        wait_until(&self.cluster, "the GPUs are published", || {
            let found = published(&self.cluster, NODE)?;
            ensure!(found.len() == number, "{found:?}");
            Ok(())
        })
    }

    /// The claims with a spec: UID, and the paths of the GPUs' device nodes.
    ///
    /// # Errors
    /// If a spec cannot be read.
    pub fn specs(&self) -> Result<BTreeMap<String, Vec<String>>> {
        // The specs are JSON, each on one line.
        let print = "cd /etc/cdi; for spec in k8s.gpu.nvidia.com-claim_*; do
            [ ! -e $spec ] || { echo $spec; cat $spec; echo; }; done";
        let text = self.cluster.on_node(NODE, print)?;
        let mut lines = text.lines().filter(|line| !line.is_empty());
        let mut specs = BTreeMap::new();
        while let Some(name) = lines.next() {
            let uid = name
                .strip_prefix("k8s.gpu.nvidia.com-claim_")
                .and_then(|name| name.strip_suffix(".yaml"));
            let spec = lines.next().with_context(|| format!("{name} is empty"))?;
            let spec: Value = serde_json::from_str(spec).with_context(|| name.to_owned())?;
            let nodes = listed(&spec, "/devices")
                .flat_map(|device| listed(device, "/containerEdits/deviceNodes"));
            let paths = nodes.filter_map(|node| Some(node.get("path")?.as_str()?.to_owned()));
            specs.insert(uid.context("no UID")?.to_owned(), paths.collect());
        }
        Ok(specs)
    }

    /// Waits until this number of claims has a spec.
    ///
    /// # Errors
    /// If that is never so.
    pub fn wait_for_specs(&self, number: usize) -> Result<()> {
        wait_until(&self.cluster, "claims are unprepared", || {
            let specs = self.specs()?;
            ensure!(specs.len() == number, "{specs:?}");
            Ok(())
        })
    }
}

impl Drop for GpuNode {
    fn drop(&mut self) {
        // Ignored: they fail only while the cluster ends.
        drop(delete_slices(&self.cluster));
        let classes = ["gpu.nvidia.com", "mig.nvidia.com"];
        drop(
            self.cluster
                .kubectl(&[&["delete", "deviceclass"][..], &classes].concat()),
        );
    }
}

/// Deletes the slices of GPUs, which the plugin leaves at its end.
///
/// # Errors
/// As [`Cluster::kubectl`].
pub fn delete_slices(cluster: &Cluster) -> Result<()> {
    let of_driver = ["--field-selector", "spec.driver=gpu.nvidia.com"];
    let delete = [&["delete", "resourceslices"][..], &of_driver].concat();
    cluster.kubectl(&delete).map(drop)
}

/// The mock inventory of this name.
///
/// # Errors
/// If it cannot be read.
pub fn inventory(name: &str) -> Result<Inventory> {
    Ok(serde_json::from_slice(&fs::read(inventory_path(name))?)?)
}

/// The path of a mock inventory in the sources.
pub fn inventory_path(name: &str) -> PathBuf {
    let inventories = "../../dra-shim/gpu/inventory/tests/inventories";
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(inventories);
    dir.join(format!("{name}.json"))
}

/// The GPU plugin as a process on a node; ends when dropped.
pub struct GpuPlugin {
    cluster: Cluster,
    node: u8,
    child: Child,
}

impl GpuPlugin {
    /// Starts it on a node whose driver root, `/proc` and `/sys` are below `host`. `hook` is the built hook, `args` are
    /// more arguments, separated by spaces.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(
        cluster: &Cluster,
        node: u8,
        host: &Path,
        hook: &Path,
        args: &str,
    ) -> Result<Self> {
        let program = program_path("gpu-kubelet-plugin")?;
        let host = host.display();
        let command = format!(
            "echo $$ >{PID}; exec {program} --node-name node{node} --cdi-root /etc/cdi \
             --nvidia-driver-root {host} --container-driver-root {host} --gpu-proc-path {host}/proc \
             --gpu-sys-path {host}/sys --nvidia-cdi-hook-path {hook} {args} >>{LOG} 2>&1",
            hook = hook.display()
        );
        Self::run(cluster, node, &command)
    }

    fn run(cluster: &Cluster, node: u8, command: &str) -> Result<Self> {
        let child = Command::new(cluster.script_path())
            .args(["exec", "--node", &node.to_string(), "sh", "-c", command])
            .stdin(Stdio::null())
            .spawn()?;
        Ok(Self {
            cluster: cluster.clone(),
            node,
            child,
        })
    }

    /// Sends a signal and waits for its end.
    ///
    /// # Errors
    /// If it does not end.
    pub fn end(mut self, signal: &str) -> Result<()> {
        let kill = format!("kill -{signal} $(cat {PID})");
        self.cluster.on_node(self.node, &kill)?;
        let cluster = self.cluster.clone();
        wait_until(&cluster, "the GPU plugin has ended", || {
            self.child.try_wait()?.context("it runs").map(drop)
        })
    }

    /// Its output, also of earlier processes on the node.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn log(&self) -> Result<String> {
        self.cluster.on_node(self.node, &format!("cat {LOG}"))
    }
}

impl Drop for GpuPlugin {
    fn drop(&mut self) {
        let kill = format!("kill -KILL $(cat {PID})");
        drop(self.cluster.on_node(self.node, &kill)); // ignored: it has ended already
        drop(self.child.wait());
    }
}

/// The release with GPUs; dropped, without. Drop it after the namespace of pods with GPUs, which end only with the plugin.
pub struct ReleaseGpus(Cluster);

impl ReleaseGpus {
    /// Switches GPUs on, with or without `ComputeDomains`, and the chart's checks.
    ///
    /// # Errors
    /// As [`upgrade`].
    pub fn enable(cluster: &Cluster, domains: bool) -> Result<Self> {
        Self::enable_with(cluster, domains, "disabled")
    }

    /// As [`enable`](Self::enable), with this value of `consumableShares`.
    ///
    /// # Errors
    /// As [`upgrade`].
    pub fn enable_with(cluster: &Cluster, domains: bool, shares: &str) -> Result<Self> {
        let gpus = Self(cluster.clone());
        gpus.upgrade(&[
            "resources.gpus.enabled=true",
            "featureGates.ConsumableShares=true",
            &format!("consumableShares={shares}"),
            // Containers have their own /proc.
            "kubeletPlugin.containers.gpus.env[0].name=GPU_PROC_PATH",
            "kubeletPlugin.containers.gpus.env[0].value=/driver-root/proc",
            &format!("resources.computeDomains.enabled={domains}"),
            &format!("{LABEL_ENABLED}={domains}"),
            "guard.override=false",
        ])?;
        Ok(gpus)
    }

    fn upgrade(&self, values: &[&str]) -> Result<()> {
        upgrade(&self.0, &[&format!("--set={}", values.join(","))])
    }

    /// The containers of the plugins' pods.
    ///
    /// # Errors
    /// If their `DaemonSet` cannot be read.
    pub fn containers(&self) -> Result<Vec<String>> {
        let name = "imex-dra-kubelet-plugin";
        let set = self.0.json(&["get", "daemonset", name, "-n", NAMESPACE])?;
        let name = |it: &Value| Some(it.get("name")?.as_str()?.to_owned());
        Ok(listed(&set, "/spec/template/spec/containers")
            .filter_map(name)
            .collect())
    }
}

impl Drop for ReleaseGpus {
    fn drop(&mut self) {
        // Ignored: if it fails, the next test fails, too.
        drop(self.upgrade(&[
            "resources.gpus.enabled=false",
            "resources.computeDomains.enabled=true",
            "kubeletPlugin.containers.gpus.env=null",
            "featureGates.ConsumableShares=null",
            "consumableShares=",
            &format!("{LABEL_ENABLED}="),
            "guard.override=true",
        ]));
    }
}

/// Waits until kubelet has deleted the slices of GPUs from an earlier test.
///
/// # Errors
/// If it does not.
pub fn wait_until_unpublished(cluster: &Cluster) -> Result<()> {
    wait_until(cluster, "kubelet has deleted the slices of GPUs", || {
        for node in [1, 2] {
            let found = published(cluster, node)?;
            ensure!(found.is_empty(), "node{node}: {found:?}");
        }
        Ok(())
    })
}

/// The published devices of a node, by name, with the keys of their taints.
///
/// # Errors
/// If the slices cannot be read.
pub fn published(cluster: &Cluster, node: u8) -> Result<Vec<(String, Vec<String>)>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    for slice in cluster.items(&["resourceslices"])? {
        let of = |path: &str| slice.pointer(path).map(text).unwrap_or_default();
        if of("/spec/driver") != "gpu.nvidia.com" || of("/spec/nodeName") != format!("node{node}") {
            continue;
        }
        for device in listed(&slice, "/spec/devices") {
            let taints = listed(device, "/taints").filter_map(|taint| taint.get("key"));
            let name = device.get("name").map(text);
            found.push((name.unwrap_or_default(), taints.map(text).collect()));
        }
    }
    found.sort();
    Ok(found)
}

fn listed<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    let list = value.pointer(path).and_then(Value::as_array);
    list.into_iter().flatten()
}

/// The devices in the status of a pod, with their health. Each id ends with the device's name.
///
/// # Errors
/// If the pod cannot be read.
pub fn health(
    cluster: &Cluster,
    namespace: &Namespace,
    pod: &str,
) -> Result<Vec<(String, String)>> {
    let pod = cluster.json(&["get", "pod", pod, "-n", &namespace.name])?;
    let path = "/status/containerStatuses/0/allocatedResourcesStatus/0/resources";
    let devices = pod.pointer(path).and_then(Value::as_array);
    let devices = devices.into_iter().flatten().filter_map(|it| {
        let id = it.get("resourceID")?.as_str()?;
        Some((id.to_owned(), it.get("health")?.as_str()?.to_owned()))
    });
    Ok(devices.collect())
}

/// The classes of GPUs, as the chart makes them.
///
/// # Errors
/// If the API server refuses them.
pub fn create_classes(cluster: &Cluster) -> Result<()> {
    for (name, device_type) in [("gpu.nvidia.com", "gpu"), ("mig.nvidia.com", "mig")] {
        let expression = format!(
            "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == '{device_type}'"
        );
        let class = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name},
            "spec": {
                "selectors": [{"cel": {"expression": expression}}],
                "extendedResourceName": (device_type == "gpu").then_some("nvidia.com/gpu"),
            },
        });
        cluster.apply(&class.to_string())?;
    }
    Ok(())
}

/// A template of claims for `count` devices of a class.
pub fn claim_template(namespace: &Namespace, name: &str, class: &str, count: u32) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace.name},
        "spec": {"spec": {"devices": {"requests": [
            {"name": "gpu", "exactly": {"deviceClassName": class, "count": count}},
        ]}}},
    })
}

/// As [`claim_template`], with this time slice.
pub fn sliced_template(
    namespace: &Namespace,
    name: &str,
    class: &str,
    count: u32,
    interval: &str,
) -> Value {
    let mut template = claim_template(namespace, name, class, count);
    let parameters = json!({
        "apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig",
        "sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": interval}},
    });
    let opaque = json!({"driver": "gpu.nvidia.com", "parameters": parameters});
    if let Some(devices) = template.pointer_mut("/spec/spec/devices") {
        devices["config"] = json!([{"opaque": opaque}]);
    }
    template
}

/// A pod on any node whose containers sleep, restart when they end, and use this entry of its `resourceClaims`, with
/// the name `gpu`.
pub fn sleeping_pod(
    namespace: &Namespace,
    name: &str,
    claim: &Value,
    containers: &[&str],
) -> Value {
    let containers = containers.iter().map(|name| {
        json!({
            "name": name, "image": "localhost/busybox:1", "imagePullPolicy": "Never",
            "command": ["sh", "-c", SLEEP],
            "resources": {"claims": [{"name": "gpu"}]},
        })
    });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace.name},
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "resourceClaims": [claim],
            "containers": containers.collect::<Vec<_>>(),
        },
    })
}

/// The image of the probe as volumes of the node: a pod's own image is a static busybox.
pub struct ProbeVolumes {
    volumes: Vec<Value>,
    mounts: Vec<Value>,
}

impl ProbeVolumes {
    /// Makes the image in this directory.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn make(dir: &Path) -> Result<Self> {
        let (root, image) = (dir.join("root"), dir.join("image"));
        fs::create_dir(&root)?;
        let host = MockHost::new(&root, &inventory("h100")?, library());
        host.install_cuda(&built("mock-cuda"), DRIVER_VERSION);
        make_probe_image(&host, &image);
        Self::new(&image)
    }

    /// The files below `image`, which `mock_host::make_probe_image` has made.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub fn new(image: &Path) -> Result<Self> {
        let (mut volumes, mut mounts) = (Vec::new(), Vec::new());
        for (number, entry) in fs::read_dir(image)?.enumerate() {
            let path = entry?.path();
            let inside = Path::new("/").join(path.strip_prefix(image)?);
            if inside != Path::new("/etc") {
                let name = format!("part{number}");
                volumes.push(json!({"name": name, "hostPath": {"path": path}}));
                mounts.push(json!({"name": name, "mountPath": inside}));
            }
        }
        Ok(Self { volumes, mounts })
    }

    /// A container that runs the probe and then sleeps. `resources` is as in a pod.
    pub fn container(&self, name: &str, resources: &Value) -> Value {
        json!({
            "name": name,
            "image": "localhost/busybox:1",
            "imagePullPolicy": "Never",
            "command": ["sh", "-c", "/probe; exec sleep 3600"],
            "env": [{"name": "NVML_MOCK_CONFIG", "value": "/nvml-mock.json"}],
            "volumeMounts": self.mounts,
            "resources": resources,
        })
    }

    /// A pod on a node with these containers and claims.
    pub fn pod(
        &self,
        namespace: &Namespace,
        name: &str,
        node: u8,
        claims: &[(&str, &str)],
        containers: &[Value],
    ) -> Value {
        let claims = claims
            .iter()
            .map(|(claim, template)| json!({"name": claim, "resourceClaimTemplateName": template}));
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace.name},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": format!("node{node}")},
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "volumes": self.volumes,
                "resourceClaims": claims.collect::<Vec<_>>(),
                "containers": containers,
            },
        })
    }
}

/// The minors of the GPUs that the probe in a container could open, once it has printed them.
///
/// # Errors
/// If it does not print them, or CUDA counts other GPUs.
pub fn opened(
    cluster: &Cluster,
    namespace: &Namespace,
    pod: &str,
    container: &str,
) -> Result<Vec<u32>> {
    let mut opened = Vec::new();
    wait_until(cluster, "the probe has printed its GPUs", || {
        let log = cluster.kubectl(&["logs", pod, "-c", container, "-n", &namespace.name])?;
        ensure!(log.contains("/dev/nvidia7 "), "{log}");
        opened = log
            .lines()
            .filter_map(|line| line.strip_prefix("/dev/nvidia")?.strip_suffix(" may-open"))
            .filter_map(|minor| minor.parse().ok())
            .collect();
        let counted = format!("cuDeviceGetCount {}", opened.len());
        ensure!(
            log.contains(&counted) && log.contains("nvmlInitWithFlags 0"),
            "{log}"
        );
        Ok(())
    })?;
    Ok(opened)
}
