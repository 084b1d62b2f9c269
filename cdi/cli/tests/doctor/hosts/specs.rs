//! Hosts by their CDI specs, with and without Kubernetes.

use std::fs;

use serde_json::json;

use super::Row;
use super::broken::{row, running};
use super::healthy::row as healthy;
use crate::channels;
use crate::host::Host;
use crate::makers::{DEBIAN, operator};
use crate::prepared::Prepared;
use crate::without_kubelet::{HOOK, current_spec, docker, gpu_spec, toolkit_refreshes};

const DOCKER: &str = "docs.docker.com, dockerd: features.cdi, cdi-spec-dirs";
const PODMAN: &str = "NVIDIA/nvidia-container-toolkit#1860, #1940";
const TOOLKIT: &str = "NVIDIA/nvidia-container-toolkit#856, #1611, #1982";
const REFRESH: &str = "NVIDIA container toolkit 1.18, nvidia-cdi-refresh";
const OPERATOR: &str = "NVIDIA GPU operator, its toolkit in /usr/local/nvidia/toolkit";
const SHARES: [&str; 2] = [
    "99999999-0000-4000-8000-000000000001",
    "99999999-0000-4000-8000-000000000002",
];
const STATIC: &str = "etc/cdi/nvidia.yaml";
pub(super) const BROKEN: [Row; 7] = [
    row(
        "the driver was updated, its spec was not",
        "cdi-spec-path-missing",
        TOOLKIT,
        || {
            let host = docker("28.5.1");
            let hook = "/usr/bin/nvidia-cdi-hook";
            let old = gpu_spec("nvidia.com/gpu", "0.5.0", "570.172.08", hook);
            host.write(STATIC, old);
            host
        },
    ),
    row(
        "the toolkit was removed, its spec was not",
        "cdi-spec-path-missing",
        TOOLKIT,
        || {
            let host = docker("28.5.1");
            host.write(STATIC, current_spec("0.5.0"));
            host.remove(HOOK);
            host
        },
    ),
    row(
        "the operator was removed, its spec was not",
        "cdi-spec-path-missing",
        OPERATOR,
        || {
            let host = operator();
            let hook = "/usr/local/nvidia/toolkit/nvidia-cdi-hook";
            host.write(&format!("{DEBIAN}/libcuda.so.580.82.07"), "");
            let spec = gpu_spec("management.nvidia.com/gpu", "0.5.0", "580.82.07", hook);
            host.write("run/cdi/management.nvidia.com-gpu.yaml", spec);
            host
        },
    ),
    row(
        "the driver was updated and not loaded again",
        "driver-version-mismatch",
        "unattended upgrades of the driver's packages",
        || {
            let host = docker("28.5.1");
            host.module("570.172.08");
            let hook = "/usr/bin/nvidia-cdi-hook";
            host.write(
                STATIC,
                gpu_spec("nvidia.com/gpu", "0.5.0", "570.172.08", hook),
            );
            host
        },
    ),
    row(
        "NVIDIA's device plugin gives devices by CDI, containerd does not",
        "runtime-cdi-off",
        "NVIDIA device plugin, deviceListStrategy cdi-cri",
        || {
            let host = node();
            let hook = "/usr/bin/nvidia-cdi-hook";
            let kind = "k8s.device-plugin.nvidia.com/gpu";
            let spec = gpu_spec(kind, "0.5.0", "580.82.07", hook);
            host.write("run/cdi/k8s.device-plugin.nvidia.com-gpu.json", spec);
            host
        },
    ),
    row(
        "a kind of one letter",
        "cdi-kind-one-letter",
        "Go's CDI library, pkg/parser/parser.go",
        || {
            let host = docker("28.5.1");
            let hook = "/usr/bin/nvidia-cdi-hook";
            host.write(
                "etc/cdi/a.json",
                gpu_spec("a.com/b", "0.5.0", "570.195.03", hook),
            );
            host
        },
    ),
    row(
        "two domains on channel 0, and no shares",
        "channel-of-two-owners",
        "kubernetes/kubernetes#141471",
        || two_domains(false),
    ),
];

pub(super) const HEALTHY: [Row; 9] = [
    healthy("Docker 28 with CDI", DOCKER, || {
        let host = docker("28.5.1");
        host.write(STATIC, current_spec("0.5.0"));
        host
    }),
    healthy(
        "Docker 27 for --gpus, the toolkit writes its spec",
        REFRESH,
        || {
            let host = docker("27.5.1");
            toolkit_refreshes(&host);
            host
        },
    ),
    healthy(
        "an old podman beside a Docker that loads the spec",
        PODMAN,
        || {
            let host = docker("28.5.1");
            let status = fs::read_to_string(host.at("var/lib/dpkg/status")).unwrap();
            let podman = "Package: podman\nStatus: install ok installed\nVersion: 4.9.3+ds1-1\n";
            host.write("var/lib/dpkg/status", format!("{status}{podman}"));
            host.write("usr/bin/podman", "");
            host.write(STATIC, current_spec("0.7.0"));
            host
        },
    ),
    healthy(
        "a node with an old containerd and no driver of claims",
        "Debian 12's containerd",
        || {
            let host = running();
            host.write("var/lib/kubelet/cpu_manager_state", "{}");
            host.containerd("1.6.20", "version = 2\n");
            host
        },
    ),
    healthy(
        "a node of a device plugin without CDI, the toolkit writes its spec",
        REFRESH,
        || {
            let host = node();
            host.write(
                "run/cdi/nvidia.yaml",
                gpu_spec(
                    "nvidia.com/gpu",
                    "0.5.0",
                    "580.82.07",
                    "/usr/bin/nvidia-cdi-hook",
                ),
            );
            host
        },
    ),
    healthy(
        "mounts that are no files, hooks of the container",
        "CDI specification; OCI hooks",
        || {
            let host = docker("28.5.1");
            let spec = r#"{"cdiVersion": "0.5.0", "kind": "example.com/memory", "devices": [
            {"name": "a", "containerEdits": {
                "mounts": [{"hostPath": "tmpfs", "containerPath": "/m", "type": "tmpfs"}],
                "hooks": [{"hookName": "startContainer", "path": "/bin/of-the-container"}]}}]}"#;
            host.write("etc/cdi/memory.json", spec);
            host
        },
    ),
    healthy(
        "the root of a driver's container is not mounted here",
        "NVIDIA GPU operator, /run/nvidia/driver",
        || {
            let host = docker("28.5.1");
            let hook = "/usr/bin/nvidia-cdi-hook";
            let spec = gpu_spec("management.nvidia.com/gpu", "0.5.0", "570.195.03", hook);
            let spec = spec.replace(
                &format!("\"hostPath\":\"/{DEBIAN}"),
                &format!("\"hostPath\":\"/run/nvidia/driver/{DEBIAN}"),
            );
            host.write("run/cdi/management.nvidia.com-gpu.yaml", spec);
            fs::create_dir_all(host.at("run/nvidia/driver")).unwrap();
            host
        },
    ),
    healthy(
        "an old driver's spec that a newer one shadows",
        "CDI specification",
        || {
            let host = docker("28.5.1");
            let hook = "/usr/bin/nvidia-cdi-hook";
            host.write(
                STATIC,
                gpu_spec("nvidia.com/gpu", "0.5.0", "570.172.08", hook),
            );
            toolkit_refreshes(&host);
            host
        },
    ),
    healthy(
        "domains that share the node's device",
        "this driver's imex.sharing=many",
        || two_domains(true),
    ),
];

/// A node with containerd 1.7 as its package configures it for kubelet, and without a driver of
/// claims.
fn node() -> Host {
    let host = running();
    host.write("var/lib/kubelet/cpu_manager_state", "{}");
    host.write(&format!("{DEBIAN}/libcuda.so.580.82.07"), "");
    host.write(HOOK, "");
    host.containerd("1.7.28", "version = 2\n");
    let off = json!({"enableCDI": false, "cdiSpecDirs": ["/etc/cdi", "/var/run/cdi"]});
    host.containerd_answers("v1.7.28", &off);
    host
}

/// Claims of two domains are prepared, both on channel 0.
fn two_domains(has_shares: bool) -> Host {
    let claim = |number: u32, share| Prepared {
        share: has_shares.then_some(share),
        ..Prepared::new(
            &format!("{number}1111111-aaaa-4bbb-8ccc-000000000001"),
            &format!("{number}aaaaaaa-1234-4567-89ab-0123456789ab"),
            0,
        )
    };
    channels::host(&[claim(1, SHARES[0]), claim(2, SHARES[1])])
}
