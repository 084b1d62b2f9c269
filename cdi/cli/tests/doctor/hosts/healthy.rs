//! Healthy hosts.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::Row;
use crate::host::{Host, PLUGIN};
use crate::makers::{
    DEBIAN, NODES, POD, REGISTRATION, bottlerocket, channel_spec, gke, listed, operator, rubin,
};

const OPERATOR: &str =
    "NVIDIA GPU operator, prerequisites of the DRA driver (cloud-native-docs#453)";
const IMEX_GUIDE: &str = "NVIDIA IMEX guide, Getting Started and Deployment Models";
const GKE: &str = "Google's DRA installation with nvidiaDriverRoot=/home/kubernetes/bin/nvidia";
const AKS: &str = "Azure/AgentBaker#8839, Azure/aks-gpu#170";

pub(super) const ROWS: [Row; 50] = [
    row("Ubuntu's packages, the host runs IMEX", IMEX_GUIDE, || {
        let host = Host::with_driver(DEBIAN, "580.82.07");
        symlink("usr/lib", host.at("lib")).unwrap();
        host.imex_by_host();
        host
    }),
    row("RHEL's packages, the host runs IMEX", IMEX_GUIDE, || {
        let host = Host::with_driver("usr/lib64", "580.82.07");
        host.imex_by_host();
        host
    }),
    row(
        "RHEL, enabled by the vendor's own link",
        "systemd.unit(5), .wants directories",
        || {
            let host = Host::with_driver("usr/lib64", "580.82.07");
            host.imex_package();
            host.imex_runs();
            let wants = "usr/lib/systemd/system/multi-user.target.wants";
            fs::create_dir_all(host.at(wants)).unwrap();
            symlink(
                "../nvidia-imex.service",
                host.at(&format!("{wants}/nvidia-imex.service")),
            )
            .unwrap();
            host
        },
    ),
    row(
        "names of nodes, of which only others are in the hosts file",
        "hosts(5), nsswitch.conf(5)",
        || {
            let host = listed("tray01\ntray02\n");
            host.write("etc/hosts", "127.0.0.1 localhost\n10.0.0.2 tray02\n");
            host
        },
    ),
    row(
        "its own name has a loopback address",
        "Debian's hosts file, 127.0.1.1",
        || {
            let host = listed("tray01\ntray02\n");
            host.write("etc/hosts", "127.0.1.1 tray01\n10.0.0.2 tray02\n");
            host
        },
    ),
    row(
        "names of nodes, with an alias of its own address",
        "hosts(5)",
        || {
            let host = listed("imex-a\nimex-b\n");
            host.write("etc/hosts", "10.0.0.1 tray01 imex-a\n10.0.0.2 imex-b\n");
            host
        },
    ),
    row("Ubuntu, unit disabled and masked", OPERATOR, || {
        let host = Host::with_driver(DEBIAN, "580.82.07");
        host.imex_package();
        host.imex_masked("etc/systemd/system");
        host
    }),
    row(
        "OKE, masked by cloud-init, driver of pods",
        "Oracle's OKE guide for GB200",
        || {
            let host = Host::with_driver("usr/lib64", "580.82.07");
            host.imex_package();
            host.imex_masked("etc/systemd/system");
            host.plugin();
            host.imex_in_pod();
            host
        },
    ),
    row(
        "masked until the next boot",
        "systemctl(1), mask --runtime",
        || {
            let host = Host::with_driver("usr/lib64", "580.82.07");
            host.imex_package();
            host.imex_masked("run/systemd/system");
            // A file in /etc counts before one in /run; the package's does not.
            host
        },
    ),
    row(
        "masked by an empty unit file",
        "systemd.unit(5), masked units",
        || {
            let host = Host::with_driver("usr/lib64", "580.82.07");
            host.imex_package();
            host.write("etc/systemd/system/nvidia-imex.service", "");
            host
        },
    ),
    row("masked, and still wanted", OPERATOR, || {
        let host = Host::with_driver("usr/lib64", "580.82.07");
        host.imex_package();
        host.imex_enabled();
        host.imex_masked("etc/systemd/system");
        host
    }),
    row(
        "RHEL, installed, disabled, list of nodes removed",
        OPERATOR,
        || {
            let host = Host::with_driver("usr/lib64", "580.82.07");
            host.imex_package();
            host.remove(NODES);
            host
        },
    ),
    row("disabled with a drop-in of its own", OPERATOR, || {
        let host = Host::with_driver("usr/lib64", "580.82.07");
        host.imex_package();
        let drop_in = "etc/systemd/system/nvidia-imex.service.d/own.conf";
        host.write(
            drop_in,
            "[Service]\nExecStart=\nExecStart=/usr/bin/nvidia-imex -c /etc/a\n",
        );
        host
    }),
    row("GKE's COS without the plugin", GKE, gke),
    row(
        "GKE's COS with the plugin and a daemon in a pod",
        GKE,
        || {
            let host = gke();
            host.plugin();
            host.imex_in_pod();
            host
        },
    ),
    row(
        "Bottlerocket, programs without a unit",
        "bottlerocket-kernel-kit#204, #365",
        bottlerocket,
    ),
    row(
        "Bottlerocket, unit inactive",
        "bottlerocket-kernel-kit#428",
        || {
            let host = bottlerocket();
            host.imex_package();
            host
        },
    ),
    row(
        "Bottlerocket, libraries at /usr/lib",
        "bottlerocket-kernel-kit#473",
        || {
            let host = Host::with_driver(
                "x86_64-bottlerocket-linux-gnu/sys-root/usr/lib",
                "595.71.05",
            );
            fs::rename(host.at("usr"), host.at("usr.old")).unwrap();
            symlink("x86_64-bottlerocket-linux-gnu/sys-root/usr", host.at("usr")).unwrap();
            host
        },
    ),
    row("AKS, GB300, as it is provisioned", AKS, || {
        let host = Host::with_driver(DEBIAN, "580.82.07");
        host.imex_package();
        host.params("ModifyDeviceFiles: 1\nImexChannelCount: 2048\nCreateImexChannel0: 1\n");
        host.write(
            "etc/modprobe.d/nvidia-imex.conf",
            "options nvidia NVreg_CreateImexChannel0=1\n",
        );
        host
    }),
    row(
        "Bottlerocket with channel 0 from the next boot on",
        "bottlerocket-kernel-kit#428, the opt-in override of modprobe",
        || {
            let host = bottlerocket();
            host.write(
                "etc/modprobe.d/nvidia-imex.conf",
                "# options nvidia NVreg_CreateImexChannel0=1\noptions nvidia NVreg_CreateImexChannel0=1\n",
            );
            assert!(
                host.ids(0)
                    .contains(&"imex-channel0-open-to-all".to_owned())
            );
            host
        },
    ),
    row(
        "GPU operator's driver container",
        "NVIDIA GPU operator, driver container",
        operator,
    ),
    row(
        "GPU operator's driver container and a daemon in a pod",
        "NVIDIA GPU operator, driver container",
        || {
            let host = operator();
            host.plugin();
            host.imex_in_pod();
            host
        },
    ),
    row(
        "OpenShift's CRI-O with a driver container",
        "NVIDIA GPU operator on OpenShift",
        || {
            let host = operator();
            host.remove_containerd();
            host.write("usr/bin/crio", "");
            host.write(
                "etc/crio/crio.conf.d/00-default",
                "[crio.runtime]\ndefault_runtime = \"crun\"\n",
            );
            host
        },
    ),
    row(
        "AWS ParallelCluster, unit and files of its own",
        "aws-parallelcluster-cookbook#2996, #3024",
        || {
            let host = Host::with_driver("usr/lib64", "570.158.01");
            host.imex_by_host();
            let shared = "opt/parallelcluster/shared/nvidia-imex";
            host.write(
                &format!("{shared}/config_q_c.cfg"),
                format!("IMEX_NODE_CONFIG_FILE=/{shared}/nodes_q_c.cfg\n"),
            );
            host.write(&format!("{shared}/nodes_q_c.cfg"), "10.0.0.1\n10.0.0.2\n");
            host.write(NODES, "");
            host.write(
                "etc/systemd/system/nvidia-imex.service",
                format!("[Service]\nExecStart=/usr/bin/nvidia-imex -c /{shared}/config_q_c.cfg\n"),
            );
            host.write(
                "proc/700/cmdline",
                format!("/usr/bin/nvidia-imex\0-c\0/{shared}/config_q_c.cfg\0"),
            );
            host
        },
    ),
    row(
        "Vera Rubin image, RKE2, IMEX enabled",
        "NVIDIA/aicr#2520, #2601",
        rubin,
    ),
    row(
        "Vera Rubin image with the plugin where hosts run IMEX",
        "NVIDIA/aicr#2601",
        || {
            let host = rubin();
            host.plugin();
            host.plugin_process("IMEX_MODE=hostManaged\nNODE_NAME=a\n");
            host
        },
    ),
    row(
        "the plugin's sockets have other names than they were bound with",
        "this driver's dra-kubelet, server/sockets.rs",
        || {
            let host = rubin();
            host.plugin();
            host.renamed_sockets();
            host
        },
    ),
    row(
        "HGX H100, no IMEX at all",
        "NVIDIA IMEX guide: for multi-node NVLink only",
        || Host::with_driver(DEBIAN, "570.158.01"),
    ),
    row(
        "Talos with the driver's extensions",
        "siderolabs/extensions, glibc below /usr/local",
        || Host::with_driver("usr/local/glibc/usr/lib", "570.158.01"),
    ),
    row(
        "NixOS",
        "NixOS, hardware.graphics: /run/opengl-driver/lib",
        || Host::with_driver("run/opengl-driver/lib", "570.158.01"),
    ),
    row(
        "IMEX by addresses of IPv6",
        "NVIDIA IMEX guide, nodes_config.cfg",
        || listed("fd00::1\nfd00::2\n"),
    ),
    row(
        "IMEX by host names",
        "NVIDIA IMEX guide, nodes_config.cfg",
        || listed("node-a.example.com\n10.0.0.2\n"),
    ),
    row(
        "IMEX by a list with comments",
        "NVIDIA IMEX guide, nodes_config.cfg",
        || listed("# a\n\n 10.0.0.1 \n"),
    ),
    row(
        "RHEL 8 and an unconfigured toolkit, no plugin",
        "systemd 239 of RHEL 8; NVIDIA container toolkit's defaults",
        || {
            let host = Host::with_driver("usr/lib64", "580.82.07");
            host.remove("usr/lib/systemd/libsystemd-shared-255.so");
            host.write("usr/lib/systemd/libsystemd-shared-239.so", "");
            host.write(
                "etc/nvidia-container-runtime/config.toml",
                "[nvidia-container-cli]\n",
            );
            host
        },
    ),
    row(
        "a runtime that reads only /var/run/cdi, /etc/cdi empty",
        "GPU operator's containerd drop-in",
        || {
            let host = Host::with_driver("usr/lib64", "580.82.07");
            host.imex_by_host();
            host.plugin();
            host.containerd("2.1.3", "version = 3\n[plugins.'io.containerd.cri.v1.runtime']\ncdi_spec_dirs = ['/var/run/cdi']\n");
            host
        },
    ),
    row(
        "a stale spec that a newer one shadows",
        "CDI specification, priority of directories",
        || {
            let host = Host::with_driver("usr/lib64", "580.82.07");
            host.imex_by_host();
            host.write("etc/cdi/imex.json", channel_spec(234));
            host.write("run/cdi/imex.json", channel_spec(235));
            host
        },
    ),
    row(
        "no GPU: a control plane",
        "Kubernetes, kubeadm; PCI bus in sysfs",
        || {
            let host = Host::system();
            host.containerd("1.6.20", "version = 2\n");
            host.pci("0000:00:02.0", "0x8086", "0x030000", Some("i915"));
            fs::create_dir_all(host.at("var/lib/kubelet/pods")).unwrap();
            host
        },
    ),
    row("AMD's GPUs", "AMD ROCm with Docker", || {
        let host = Host::system();
        host.pci("0000:c1:00.0", "0x1002", "0x120000", Some("amdgpu"));
        host
    }),
    row(
        "WSL2, whose GPU is no PCI device",
        "NVIDIA, CUDA on WSL: the driver is in /usr/lib/wsl/lib",
        || {
            let host = Host::system();
            host.pci("5582:00:00.0", "0x1414", "0x030200", Some("dxgkrnl"));
            host.nvml("usr/lib/wsl/lib", "580.82.07");
            host.write("etc/nvidia-container-runtime/config.toml", "");
            host
        },
    ),
    row(
        "GPUs given to virtual machines",
        "KubeVirt, host devices; NVIDIA GPU operator with sandboxWorkloads",
        || {
            let host = Host::system();
            host.gpu(Some("vfio-pci"));
            host.write("etc/nvidia-container-runtime/config.toml", "");
            host
        },
    ),
    row(
        "Flatcar, with the driver in a directory of its version",
        "NVIDIA/nvidia-container-toolkit#134",
        || {
            let host = Host::system();
            host.gpu(Some("nvidia"));
            host.module("570.172.08");
            host.nvml(
                "opt/nvidia/570.172.08/6.6.100-flatcar/usr/lib64",
                "570.172.08",
            );
            host
        },
    ),
    row(
        "GKE's COS with a driver before IMEX, no claims",
        "NVIDIA data center driver 535; cos-gpu-installer",
        || {
            let host = Host::with_driver("home/kubernetes/bin/nvidia/lib64", "535.247.01");
            host.gpu(Some("nvidia"));
            host.params("ModifyDeviceFiles: 1\n");
            host.remove("proc/driver/nvidia/capabilities");
            host.write(
                "proc/devices",
                "Character devices:\n195 nvidia\n234 nvidia-caps\n507 nvidia-uvm\n\nBlock devices:\n",
            );
            host
        },
    ),
    row(
        "a device plugin's node with a containerd before CDI",
        "NVIDIA k8s-device-plugin, device lists by envvar",
        || {
            let host = Host::with_driver(DEBIAN, "550.163.01");
            host.gpu(Some("nvidia"));
            host.containerd("1.6.20", "version = 2\n");
            fs::create_dir_all(host.at("var/lib/kubelet/pods")).unwrap();
            host
        },
    ),
    row(
        "a device plugin serves the GPUs, and the plugin only channels",
        "NVIDIA's DRA driver with resources.gpus.enabled=false",
        || {
            let host = Host::with_driver("usr/lib64", "580.82.07");
            host.imex_by_host();
            host.plugin();
            let socket = "/var/lib/kubelet/device-plugins/nvidia-gpu.sock";
            host.socket(&socket[1..]);
            host.listens(&format!("/{REGISTRATION} {socket}"));
            host
        },
    ),
    row(
        "specs that NVIDIA's DRA driver wrote",
        "cncf-tags/container-device-interface#224: they stay 0600",
        || {
            let host = Host::with_driver(DEBIAN, "580.82.07");
            let spec = "run/cdi/k8s.gpu.nvidia.com-claim_11111111-aaaa-4bbb-8ccc-000000000002.yaml";
            let checkpoint = "var/lib/kubelet/plugins/gpu.nvidia.com/checkpoint.json";
            host.write(checkpoint, Host::fixture("22-gpu-completed.json"));
            host.write(
                "var/lib/kubelet/plugins_registry/gpu.nvidia.com-reg.sock",
                "",
            );
            host.write(spec, "{\"cdiVersion\":\"0.5.0\",\"kind\":\"k8s.gpu.nvidia.com/claim\",\"devices\":[{\"name\":\"a\",\"containerEdits\":{\"env\":[\"A=1\"]}}]}");
            fs::set_permissions(host.at(spec), fs::Permissions::from_mode(0o600)).unwrap();
            host
        },
    ),
    row(
        "uninstalled, and rebooted since",
        "Helm removes no directory of a hostPath",
        || {
            let host = Host::with_driver(DEBIAN, "580.82.07");
            fs::create_dir_all(host.at("run/cdi")).unwrap();
            fs::create_dir_all(host.at("var/lib/kubelet/plugins_registry")).unwrap();
            host.write(
                &format!("{PLUGIN}/checkpoint.json"),
                Host::fixture("01-empty.json"),
            );
            host.write("proc/sys/kernel/random/boot_id", "another-boot");
            host
        },
    ),
    row(
        "IMEX runs, and other users' processes are hidden",
        "proc(5), hidepid=invisible",
        || {
            let host = Host::with_driver(DEBIAN, "580.82.07");
            host.imex_by_host();
            for hidden in ["proc/1", "proc/700", "proc/800"] {
                host.remove(hidden);
            }
            host.process(4242, "bash", "0::/user.slice\n", "-bash");
            host
        },
    ),
    row(
        "Docker, and udev makes the driver's nodes",
        "NVIDIA driver, NVreg_ModifyDeviceFiles=0",
        || {
            let host = Host::with_driver(DEBIAN, "580.82.07");
            host.gpu(Some("nvidia"));
            host.params("ModifyDeviceFiles: 0\nImexChannelCount: 2048\nCreateImexChannel0: 0\n");
            host
        },
    ),
    row(
        "IMEX runs, seen from a pod with processes and a network of its own",
        "pid_namespaces(7); hostPID of Kubernetes",
        || {
            let host = Host::with_driver(DEBIAN, "580.82.07");
            host.imex_by_host();
            for hidden in ["proc/1", "proc/700", "proc/800"] {
                host.remove(hidden);
            }
            host.process(1, "sleep", POD, "sleep infinity");
            host.namespace(1, "pid:[4026534001]");
            let own = "Local:\n     |-- 10.244.1.7\n        /32 host LOCAL\n";
            host.write("proc/1/net/fib_trie", own);
            host
        },
    ),
    row(
        "the plugin was uninstalled, its directory is left",
        "Helm removes no directory of a hostPath",
        || {
            let host = Host::with_driver(DEBIAN, "580.82.07");
            fs::create_dir_all(host.at("run/cdi")).unwrap();
            fs::create_dir_all(host.at("var/lib/kubelet/plugins_registry")).unwrap();
            host.write(
                &format!("{PLUGIN}/checkpoint.json"),
                Host::fixture("01-empty.json"),
            );
            host
        },
    ),
];

pub(super) const fn row(host: &'static str, source: &'static str, build: fn() -> Host) -> Row {
    Row {
        host,
        source,
        first: None,
        needs_node: false,
        build,
    }
}
