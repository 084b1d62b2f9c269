//! Hosts without Kubernetes, and what runtimes of any host need of it.

use std::fs;

use super::Row;
use super::broken::{row, running};
use crate::channels;
use crate::host::{Host, finding, text};
use crate::makers::{DEBIAN, bottlerocket, operator};
use crate::people::{DAEMON_JSON, HOOK, current_spec, docker, gpu_spec, podman, toolkit_refreshes};
use crate::prepared::Prepared;

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
/// A default handler that nothing defines.
const UNDEFINED: &str = "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd]\n\
                         default_runtime_name = 'nvidia'\n";
const NVIDIA_IN_CRIO: &str = "etc/crio/crio.conf.d/99-nvidia.conf";
const TOOLKIT_RUNTIME: &str = "usr/local/nvidia/toolkit/nvidia-container-runtime";

pub(super) const BROKEN: [Row; 23] = [
    row(
        "Docker 27 with a spec, CDI off",
        "runtime-cdi-off",
        DOCKER,
        || {
            let host = docker("27.5.1");
            host.write(STATIC, current_spec("0.5.0"));
            host
        },
    ),
    row(
        "Docker 28 with a spec, CDI turned off",
        "runtime-cdi-off",
        DOCKER,
        || {
            let host = docker("28.5.1");
            host.write(STATIC, current_spec("0.5.0"));
            host.write(DAEMON_JSON, r#"{"features": {"cdi": false}}"#);
            host
        },
    ),
    row(
        "Docker reads only a directory without specs",
        "runtime-spec-dirs",
        DOCKER,
        || {
            let host = docker("28.5.1");
            host.write("run/cdi/nvidia.yaml", current_spec("0.5.0"));
            host.write(DAEMON_JSON, r#"{"cdi-spec-dirs": ["/etc/cdi"]}"#);
            host
        },
    ),
    row(
        "Docker does not start",
        "runtime-config-unreadable",
        "moby, daemon/config",
        || {
            let host = docker("28.5.1");
            host.write(DAEMON_JSON, r#"{"features": {"cdi": true},}"#);
            host
        },
    ),
    row(
        "podman does not start",
        "runtime-config-unreadable",
        "containers.conf(5)",
        || {
            let host = podman("5.4.0");
            host.write("etc/containers/containers.conf", "[engine\n");
            host
        },
    ),
    row(
        "Docker's default runtime was removed",
        "runtime-handler-missing",
        DOCKER,
        || {
            let host = docker("28.5.1");
            let runtime =
                r#""runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime"}}"#;
            host.write(
                DAEMON_JSON,
                format!(r#"{{"default-runtime": "nvidia", {runtime}}}"#),
            );
            host
        },
    ),
    row(
        "Docker's default runtime is not defined",
        "runtime-handler-missing",
        "moby, setupRuntimes of daemon/runtime_unix.go",
        || {
            let host = docker("28.5.1");
            host.write(DAEMON_JSON, r#"{"default-runtime": "nvidia"}"#);
            host
        },
    ),
    row(
        "containerd's default runtime is not defined",
        "runtime-handler-missing",
        "containerd, ValidateRuntimeConfig of internal/cri/config",
        || {
            let host = running();
            host.plugin();
            host.containerd("2.1.3", UNDEFINED);
            host
        },
    ),
    row(
        "containerd's default runtime is defined only in a table that does not count",
        "runtime-handler-missing",
        "containerd, ValidatePluginConfig of pkg/cri/config",
        || {
            let host = running();
            host.plugin();
            let old = "io.containerd.grpc.v1.cri";
            let config = by_default(TOOLKIT_RUNTIME).replace("version = 3", "version = 2");
            let config = config.replace("io.containerd.cri.v1.runtime", old);
            let imports = "version = 2\nimports = ['/etc/containerd/conf.d/*.toml']\n";
            host.containerd("1.7.28", &config.replace("version = 2\n", imports));
            let drop_in = format!(
                "version = 2\n[plugins.'{old}']\nenable_cdi = true\n\
                 [plugins.'{old}'.containerd]\ndefault_runtime_name = 'nvidia'\n"
            );
            host.write("etc/containerd/conf.d/99-default.toml", drop_in);
            host.write(TOOLKIT_RUNTIME, "");
            host
        },
    ),
    row(
        "CRI-O's default runtime is not defined",
        "runtime-handler-missing",
        "CRI-O, ValidateDefaultRuntime of pkg/config",
        || {
            let host = crio();
            host.write(
                NVIDIA_IN_CRIO,
                "[crio.runtime]\ndefault_runtime = \"nvidia\"\n",
            );
            host
        },
    ),
    row(
        "podman is from before today's CDI",
        "runtime-without-cdi",
        "NVIDIA container toolkit, CDI with Podman: 4.1; containers/podman#12825",
        || {
            let host = podman("3.4.4+ds1-1ubuntu1.22.04.3");
            host.write(STATIC, current_spec("0.5.0"));
            host
        },
    ),
    row(
        "podman is too old for the spec",
        "cdi-spec-too-new",
        PODMAN,
        || {
            let host = podman("4.9.3+ds1-1ubuntu0.2");
            host.write(STATIC, current_spec("0.7.0"));
            host
        },
    ),
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
        "the operator's runtime was removed",
        "runtime-handler-missing",
        OPERATOR,
        || {
            let host = running();
            host.plugin();
            host.containerd("2.1.3", &by_default(TOOLKIT_RUNTIME));
            host
        },
    ),
    row(
        "the operator's runtime was removed, containerd 1.7",
        "runtime-handler-missing",
        OPERATOR,
        || {
            let host = running();
            host.plugin();
            let config = by_default(TOOLKIT_RUNTIME).replace("version = 3", "version = 2");
            let config =
                config.replace("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri");
            let on = "[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\n";
            host.containerd("1.7.28", &format!("{config}{on}"));
            host
        },
    ),
    row(
        "the operator's runtime was removed, its drop-in was not",
        "runtime-handler-missing",
        "NVIDIA GPU operator, /etc/containerd/conf.d/99-nvidia.toml",
        || {
            let host = running();
            host.plugin();
            let package = "version = 3\nimports = ['/etc/containerd/conf.d/*.toml']\n\
                           [plugins.'io.containerd.cri.v1.runtime'.containerd]\n\
                           default_runtime_name = 'runc'\n";
            host.containerd("2.1.3", package);
            let drop_in = "etc/containerd/conf.d/99-nvidia.toml";
            host.write(drop_in, by_default(TOOLKIT_RUNTIME));
            let report = host.json("doctor --json", 1);
            let found = finding(&report, "runtime-handler-missing").unwrap();
            assert!(text(found, "evidence").contains(drop_in));
            host
        },
    ),
    row(
        "CRI-O's default runtime was removed",
        "runtime-handler-missing",
        "CRI-O, ValidateRuntimePath of pkg/config",
        || {
            let host = crio();
            host.remove("usr/libexec/crio/crun");
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

pub(super) const HEALTHY: [Row; 26] = [
    healthy("Docker 28 with CDI", DOCKER, || {
        let host = docker("28.5.1");
        host.write(STATIC, current_spec("0.5.0"));
        host
    }),
    healthy("Docker 27 without CDI and without specs", DOCKER, || {
        docker("27.5.1")
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
        "Docker without CDI, NVIDIA's runtime takes devices by name",
        "NVIDIA container toolkit, CDI support: --runtime=nvidia",
        || {
            let host = docker("27.5.1");
            host.write(STATIC, current_spec("0.5.0"));
            host.write("usr/bin/nvidia-container-runtime", "");
            let path = r#"{"path": "nvidia-container-runtime", "args": []}"#;
            host.write(
                DAEMON_JSON,
                format!(r#"{{"runtimes": {{"nvidia": {path}}}}}"#),
            );
            host
        },
    ),
    healthy("Docker without CDI, podman has the specs", DOCKER, || {
        let host = docker("27.5.1");
        host.write(STATIC, current_spec("0.5.0"));
        host.write("usr/bin/podman", "");
        host
    }),
    healthy(
        "Docker without CDI, SingularityCE has the specs",
        "SingularityCE 4, --device",
        || {
            let host = docker("27.5.1");
            host.write(STATIC, current_spec("0.7.0"));
            host.write("usr/bin/singularity", "");
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
        "Docker reads one of two directories with specs",
        DOCKER,
        || {
            let host = docker("28.5.1");
            host.write(STATIC, current_spec("0.5.0"));
            toolkit_refreshes(&host);
            host.write(DAEMON_JSON, r#"{"cdi-spec-dirs": ["/etc/cdi"]}"#);
            host
        },
    ),
    healthy(
        "Docker with an empty daemon.json",
        "moby, daemon/config",
        || {
            let host = docker("28.5.1");
            host.write(DAEMON_JSON, "\n");
            host
        },
    ),
    healthy(
        "Ubuntu's docker.io and its containerd without a configuration",
        "Ubuntu's packages docker.io and containerd",
        || {
            let host = docker("28.2.2");
            let status = "Package: docker.io\nStatus: install ok installed\nVersion: 28.2.2-0ubuntu1\n\n\
                          Package: containerd\nStatus: install ok installed\nVersion: 1.7.28-0ubuntu1\n";
            host.write("var/lib/dpkg/status", status);
            host.remove("etc/containerd");
            host.write(STATIC, current_spec("0.5.0"));
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
        "a driver in a container whose root is not mounted here",
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
    healthy("the operator's runtime is the default", OPERATOR, || {
        let host = running();
        host.plugin();
        host.write(TOOLKIT_RUNTIME, "");
        host.containerd("2.1.3", &by_default(TOOLKIT_RUNTIME));
        host
    }),
    healthy(
        "Bottlerocket's default runtime, by a name that only its service finds",
        "bottlerocket-core-kit, containerd-config-toml_k8s_nvidia",
        || {
            let host = bottlerocket();
            host.containerd(
                "2.1.3",
                &by_default("nvidia-oci").replace("'/nvidia-oci'", "'nvidia-oci'"),
            );
            host
        },
    ),
    healthy(
        "a default runtime that another file defines",
        "containerd-config.toml(5), imports",
        || {
            let host = running();
            host.plugin();
            host.write(TOOLKIT_RUNTIME, "");
            let imports = "version = 3\nimports = ['/etc/containerd/conf.d/*.toml']\n";
            host.containerd("2.1.3", &UNDEFINED.replace("version = 3\n", imports));
            let drop_in = by_default(TOOLKIT_RUNTIME).replace("default_runtime_name", "# ");
            host.write("etc/containerd/conf.d/99-nvidia.toml", drop_in);
            host
        },
    ),
    healthy(
        "containerd's own default runtime, by name",
        "containerd, DefaultConfig",
        || {
            let host = running();
            host.plugin();
            host.containerd("2.1.3", &UNDEFINED.replace("nvidia", "runc"));
            host
        },
    ),
    healthy(
        "Docker's default runtime is a shim",
        "moby, isPermissibleC8dRuntimeName of daemon/runtime_unix.go",
        || {
            let host = docker("28.5.1");
            host.write(
                DAEMON_JSON,
                r#"{"default-runtime": "io.containerd.kata.v2"}"#,
            );
            host
        },
    ),
    healthy(
        "Docker's unit defines the default runtime",
        "docs.docker.com, dockerd --add-runtime",
        || {
            let host = docker("28.5.1");
            host.write(DAEMON_JSON, r#"{"default-runtime": "nvidia"}"#);
            host.write(
                "etc/systemd/system/docker.service.d/override.conf",
                "[Service]\nExecStart=\nExecStart=/usr/bin/dockerd -H fd:// \
                 --add-runtime=nvidia=/usr/bin/nvidia-container-runtime\n",
            );
            host
        },
    ),
    healthy(
        "CRI-O's default runtime is in a directory that its unit names",
        "crio(8), --config-dir",
        || {
            let host = crio();
            host.write(
                NVIDIA_IN_CRIO,
                "[crio.runtime]\ndefault_runtime = \"nvidia\"\n",
            );
            let options = "CRIO_CONFIG_OPTIONS=\"--config-dir=/etc/crio/own.d\"\n";
            host.write("etc/sysconfig/crio", options);
            host
        },
    ),
    healthy(
        "an old podman, and no specs",
        "Ubuntu 22.04's podman",
        || podman("3.4.4+ds1-1ubuntu1.22.04.3"),
    ),
    healthy(
        "an old podman beside a Docker with CDI",
        "Ubuntu 22.04's podman, Docker's own packages",
        || {
            let host = docker("28.5.1");
            let status = fs::read_to_string(host.at("var/lib/dpkg/status")).unwrap();
            let podman = "Package: podman\nStatus: install ok installed\nVersion: 3.4.4+ds1-1ubuntu1.22.04.3\n";
            host.write("var/lib/dpkg/status", format!("{status}{podman}"));
            host.write("usr/bin/podman", "");
            host.write(STATIC, current_spec("0.5.0"));
            host
        },
    ),
    healthy(
        "CRI-O with its own crun",
        "CRI-O's packages, 10-crio.conf",
        crio,
    ),
    healthy(
        "domains that share the node's device",
        "this driver's imex.sharing=many",
        || two_domains(true),
    ),
];

const fn healthy(host: &'static str, source: &'static str, build: fn() -> Host) -> Row {
    Row {
        host,
        source,
        first: None,
        needs_node: false,
        build,
    }
}

/// A node with containerd 1.7 as its package configures it for kubelet, and without a driver of
/// claims.
fn node() -> Host {
    let host = running();
    host.write("var/lib/kubelet/cpu_manager_state", "{}");
    host.write(&format!("{DEBIAN}/libcuda.so.580.82.07"), "");
    host.write(HOOK, "");
    host.containerd("1.7.28", "version = 2\n");
    host
}

/// containerd's configuration with a default handler of this path.
fn by_default(program: &str) -> String {
    let table = "plugins.'io.containerd.cri.v1.runtime'.containerd";
    format!(
        "version = 3\n[{table}]\ndefault_runtime_name = 'nvidia'\n\
         [{table}.runtimes.nvidia]\nruntime_type = 'io.containerd.runc.v2'\n\
         [{table}.runtimes.nvidia.options]\nBinaryName = '/{program}'\n"
    )
}

/// As CRI-O's packages configure it.
fn crio() -> Host {
    let host = running();
    host.plugin();
    for gone in ["usr/bin/containerd", "etc/containerd", "proc/800"] {
        host.remove(gone);
    }
    host.write("usr/bin/crio", "");
    host.write("usr/libexec/crio/crun", "");
    let config = "[crio.runtime]\ndefault_runtime = \"crun\"\n\
                  [crio.runtime.runtimes.crun]\nruntime_path = \"/usr/libexec/crio/crun\"\n";
    host.write("etc/crio/crio.conf.d/10-crio.conf", config);
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
