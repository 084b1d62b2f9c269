//! Hosts with something wrong with specs, drivers' files, runtimes or claims.

use std::fs;
use std::os::unix::fs::symlink;

use super::Row;
use super::broken::{rebooted, row, running};
use crate::host::{Host, KUBELET, PLUGIN, SPEC, kubelet, spec};
use crate::makers::{REGISTRATION, channel_spec};

const PLUGIN_LIFE: &str = "kubelet's plugin registration; /proc/net/unix";
const CDI: &str = "CDI specification";

pub(super) const ROWS: [Row; 20] = [
    row(
        "a spec in a subdirectory",
        "cdi-spec-in-subdirectory",
        CDI,
        || {
            let host = running();
            host.write("etc/cdi/imex/channel.json", channel_spec(235));
            host
        },
    ),
    row(
        "a claim's spec in a subdirectory",
        "cdi-spec-in-subdirectory",
        CDI,
        || {
            let host = running();
            host.plugin();
            let text = fs::read_to_string(host.at(SPEC)).unwrap();
            host.remove(SPEC);
            host.write(&SPEC.replace("run/cdi/", "run/cdi/old/"), text);
            host
        },
    ),
    row(
        "a registration socket that nobody listens on",
        "plugin-not-listening",
        PLUGIN_LIFE,
        || {
            let host = running();
            host.plugin();
            host.listens("/run/containerd/containerd.sock");
            host
        },
    ),
    row(
        "no registration socket",
        "plugin-not-registered",
        PLUGIN_LIFE,
        || {
            let host = running();
            host.plugin();
            host.remove(REGISTRATION);
            host
        },
    ),
    row(
        "rebooted, and the plugin does not run: no spec, a socket of before",
        "plugin-not-listening",
        "/var/run/cdi is a tmpfs, kubelet's directory is not",
        || {
            let host = rebooted();
            host.remove(SPEC);
            host.listens("/run/containerd/containerd.sock");
            host
        },
    ),
    row(
        "rebooted, and the plugin has not prepared the claims yet",
        "checkpoint-of-earlier-boot",
        "/var/run/cdi is a tmpfs, kubelet's directory is not",
        || {
            let host = rebooted();
            host.remove(SPEC);
            host
        },
    ),
    row(
        "rebooted, and the major changed",
        "checkpoint-of-earlier-boot",
        "dynamic majors, alloc_chrdev_region",
        || {
            let host = rebooted();
            host.write(SPEC, spec("0.5.0", 236));
            host
        },
    ),
    row(
        "the driver was loaded again",
        "cdi-spec-stale-major",
        "dynamic majors, alloc_chrdev_region",
        || {
            let host = running();
            host.plugin();
            host.write(SPEC, spec("0.5.0", 236));
            host
        },
    ),
    row(
        "a stale spec that shadows a good one",
        "cdi-spec-stale-major",
        CDI,
        || {
            let host = running();
            host.write("etc/cdi/imex.json", channel_spec(235));
            host.write("run/cdi/imex.json", channel_spec(234));
            host
        },
    ),
    row("no driver", "nvml-missing", "no nvidia-* package", || {
        let host = Host::system();
        host.gpu(None);
        host
    }),
    row(
        "GKE's COS before the installer",
        "nvml-missing",
        "GKE's driver installer",
        || {
            let host = Host::system();
            host.gpu(None);
            fs::create_dir_all(host.at("home/kubernetes/bin/nvidia/lib64")).unwrap();
            host
        },
    ),
    row(
        "GKE's COS, module not loaded",
        "nvidia-module-not-loaded",
        "GKE's driver installer",
        || {
            let host = Host::system();
            host.nvml("home/kubernetes/bin/nvidia/lib64", "580.82.07");
            host
        },
    ),
    row(
        "a driver container beside an older module",
        "driver-version-mismatch",
        "GPU operator's driver upgrades",
        || {
            let host = Host::system();
            host.module("570.148.08");
            host.nvml("run/nvidia/driver/usr/lib64", "580.82.07");
            host
        },
    ),
    row(
        "Bottlerocket without the library's link",
        "nvml-missing",
        "bottlerocket-kernel-kit#365",
        || {
            let host = Host::with_driver("usr/lib/nvidia/tesla", "570.148.08");
            host.remove("usr/lib/nvidia/tesla/libnvidia-ml.so.1");
            host
        },
    ),
    row(
        "a spec's directory that is a link",
        "cdi-directory-link",
        CDI,
        || {
            let host = running();
            host.plugin();
            fs::rename(host.at("run/cdi"), host.at("run/real")).unwrap();
            symlink("real", host.at("run/cdi")).unwrap();
            host
        },
    ),
    row(
        "a runtime that reads only /etc/cdi, specs are elsewhere",
        "runtime-spec-dirs",
        "containerd, cdi_spec_dirs",
        || {
            let host = running();
            host.plugin();
            host.containerd("2.1.3", "version = 3\n[plugins.'io.containerd.cri.v1.runtime']\ncdi_spec_dirs = ['/etc/cdi']\n");
            host
        },
    ),
    row(
        "a claim's spec was removed",
        "claim-without-spec",
        "this driver's life of a claim",
        || {
            let host = running();
            host.plugin();
            host.remove(SPEC);
            host
        },
    ),
    row(
        "the plugin's records were removed",
        "claim-unknown-to-plugin",
        "this driver's life of a claim",
        || {
            let host = running();
            host.plugin();
            host.remove(&format!("{PLUGIN}/checkpoint.json"));
            host
        },
    ),
    row(
        "kubelet forgot the claim",
        "claim-unknown-to-kubelet",
        "kubelet's dra_manager_state",
        || {
            let host = running();
            host.plugin();
            host.write(KUBELET, kubelet(&[]));
            host
        },
    ),
    row(
        "the toolkit grants channels beside claims",
        "imex-channels-env-bypass",
        "NVIDIA container toolkit, NVIDIA_IMEX_CHANNELS",
        || {
            let host = running();
            host.plugin();
            host.write("etc/nvidia-container-runtime/config.toml", "[features]\n");
            host
        },
    ),
];
