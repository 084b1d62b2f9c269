//! `cdi-gen generate gpu` on a node: containerd gives a pod the GPUs of the spec, without a driver in the pod's image.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use cluster_tests::{Cluster, Injector, Namespace, wait_until};
use mock_host::{MockHost, built, generate_gpu_spec, library, make_probe_image};
use serde_json::json;

const SPEC: &str = "/etc/cdi/nvidia-gpu.json";

#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_pod_opens_its_two_gpus_and_no_others() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "host-gpus")?;
    let scratch = tempfile::tempdir()?;
    let host = scratch.path().join("host");
    fs::create_dir(&host)?;
    let inventory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../dra-shim/gpu/inventory/tests/inventories/h100.json");
    let inventory = serde_json::from_slice(&fs::read(inventory)?)?;
    let host = MockHost::new(&host, &inventory, library());
    host.install_cuda(&built("mock-cuda"), "580.82.07");
    let image = scratch.path().join("image");
    make_probe_image(&host, &image);

    let file = scratch.path().join("gpu.json");
    let generated = generate_gpu_spec(&built("cdi-gen"), &host, &built("nvidia-cdi-hook"), &file);
    let errors = String::from_utf8_lossy(&generated.stderr);
    ensure!(generated.status.success(), "{errors}");
    cluster.on_node(1, &format!("cp {} {SPEC}", file.display()))?;

    // The pod's own image is a static busybox: probe, loader and C library come from the node.
    let mut volumes = Vec::new();
    let mut mounts = Vec::new();
    for (number, entry) in fs::read_dir(&image)?.enumerate() {
        let path = entry?.path();
        let inside = Path::new("/").join(path.strip_prefix(&image)?);
        if inside != Path::new("/etc") {
            let name = format!("part{number}");
            volumes.push(json!({"name": name, "hostPath": {"path": path}}));
            mounts.push(json!({"name": name, "mountPath": inside}));
        }
    }
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "probe",
            "namespace": namespace.name,
            "annotations": {
                "cdi-devices.noderesource.dev/container.main": "- nvidia.com/gpu=1\n- nvidia.com/gpu=3\n",
            },
        },
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": "node1"},
            "restartPolicy": "Never",
            "volumes": volumes,
            "containers": [{
                "name": "main",
                "image": "localhost/busybox:1",
                "imagePullPolicy": "Never",
                "command": ["/probe"],
                "env": [{"name": "NVML_MOCK_CONFIG", "value": "/nvml-mock.json"}],
                "volumeMounts": mounts,
            }],
        },
    });
    // containerd takes CDI devices from kubelet or from a plugin.
    let _injector = Injector::start(&cluster, env!("CARGO_BIN_EXE_injector"), 1, 10)?;
    cluster.apply(&pod.to_string())?;
    wait_until(&cluster, "the probe has ended", || {
        let pod = cluster.json(&["get", "pod", "probe", "-n", &namespace.name])?;
        let phase = pod.pointer("/status/phase").context("no phase")?;
        ensure!(phase == "Succeeded", "{pod:#}");
        Ok(())
    })?;
    let printed = cluster.kubectl(&["logs", "probe", "-n", &namespace.name])?;
    let lines: Vec<&str> = printed.lines().collect();
    ensure!(lines.contains(&"cuDeviceGetCount 2"), "{printed}");
    ensure!(lines.contains(&"nvmlInitWithFlags 0"), "{printed}");
    ensure!(lines.contains(&"/dev/nvidia3 may-open"), "{printed}");
    ensure!(
        lines.contains(&"/dev/nvidia2 No such file or directory"),
        "{printed}"
    );
    cluster.on_node(1, &format!("rm {SPEC}")).map(drop)
}
