//! Hosts on which people start containers with Docker or podman, without Kubernetes.

use serde_json::json;

use super::host::Host;
use super::makers::DEBIAN;

pub(crate) const HOOK: &str = "usr/bin/nvidia-cdi-hook";

/// A driver, and no runtime.
fn with_gpu() -> Host {
    let host = Host::with_driver(DEBIAN, "570.195.03");
    host.remove_containerd();
    host.write(HOOK, "");
    host
}

/// Docker's own packages, whose containerd has no CRI.
pub(crate) fn docker(version: &str) -> Host {
    let host = with_gpu();
    let versions = [
        ("docker-ce", &*format!("5:{version}-1~ubuntu.24.04~noble")),
        ("containerd.io", "1.7.28-1~ubuntu.24.04~noble"),
    ];
    host.packages(&versions);
    host.write("usr/bin/dockerd", "");
    host.write("usr/bin/containerd", "");
    host.write(
        "etc/containerd/config.toml",
        "disabled_plugins = [\"cri\"]\n",
    );
    host
}

/// What `nvidia-ctk cdi generate` writes for a driver, of a kind.
pub(crate) fn gpu_spec(kind: &str, cdi: &str, driver: &str, hook: &str) -> String {
    let library = format!("/{DEBIAN}/libcuda.so.{driver}");
    json!({
        "cdiVersion": cdi,
        "kind": kind,
        "devices": [{"name": "all", "containerEdits": {"env": ["NVIDIA_VISIBLE_DEVICES=void"]}}],
        "containerEdits": {
            "mounts": [{
                "hostPath": library, "containerPath": library,
                "options": ["ro", "nosuid", "nodev", "rbind", "rprivate"],
            }],
            "hooks": [{
                "hookName": "createContainer", "path": hook,
                "args": ["nvidia-cdi-hook", "update-ldcache", "--folder", format!("/{DEBIAN}")],
            }],
        },
    })
    .to_string()
}

/// That of the driver that is installed.
pub(crate) fn current_spec(cdi: &str) -> String {
    gpu_spec(
        "nvidia.com/gpu",
        cdi,
        "570.195.03",
        "/usr/bin/nvidia-cdi-hook",
    )
}

/// NVIDIA's container toolkit, from 1.18 on, with the spec that it writes by itself.
pub(crate) fn toolkit_refreshes(host: &Host) {
    let unit = "etc/systemd/system/nvidia-cdi-refresh.service";
    host.write(unit, "[Service]\nType=oneshot\n");
    host.write("run/cdi/nvidia.yaml", current_spec("0.5.0"));
}
