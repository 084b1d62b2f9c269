//! Hosts as their makers ship them, after the makers' own documentation and sources, which the
//! table in `hosts` names.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use super::host::{BOOT, CLAIM, Host, KUBELET, PLUGIN, SPEC, kubelet, library, mounts, spec};

pub(crate) const REGISTRATION: &str =
    "var/lib/kubelet/plugins_registry/compute-domain.nvidia.com-reg.sock";
pub(crate) const NODES: &str = "etc/nvidia-imex/nodes_config.cfg";
/// Debian's directory of libraries, of the architecture of Grace and Vera.
pub(crate) const DEBIAN: &str = "usr/lib/aarch64-linux-gnu";
const IMEX_PID: u32 = 700;
const SERVICE: &str = "0::/system.slice/nvidia-imex.service\n";
pub(crate) const POD: &str = "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-abc.scope\n";

/// The kernel's tables of a host with one address of each family, as
/// `/proc/PID/net` has them.
pub(crate) const FIB_TRIE: &str = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.0.0.0\n        /24 link UNICAST\n\
    Local:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.0.0.1\n        /32 host LOCAL\n     |-- 10.0.0.255\n        \
    /32 link BROADCAST\n     |-- 127.0.0.1\n        /32 host LOCAL\n";
pub(crate) const IF_INET6: &str = "fd000000000000000000000000000001 02 40 00 80     eth0\n";

impl Host {
    /// An operating system with containerd 2 and nothing of NVIDIA.
    pub(crate) fn system() -> Self {
        let host = Self::bare();
        for dir in ["run", "var", "etc/systemd/system", "proc/sys"] {
            fs::create_dir_all(host.at(dir)).unwrap();
        }
        symlink("/run", host.at("var/run")).unwrap();
        host.write("usr/lib/systemd/libsystemd-shared-255.so", "");
        host.write("usr/bin/containerd", "");
        host.containerd("2.1.3", "version = 3\n");
        host.process(1, "systemd", "0::/init.scope\n", "/sbin/init");
        host.process(
            800,
            "containerd",
            "0::/system.slice/containerd.service\n",
            "/usr/bin/containerd",
        );
        host.write("proc/sys/fs/inotify/max_user_instances", "128\n");
        host.write("proc/sys/fs/inotify/max_user_watches", "65536\n");
        host.write("proc/sys/kernel/random/boot_id", BOOT);
        host
    }

    /// A process in the host's namespaces.
    pub(crate) fn process(&self, pid: u32, name: &str, cgroup: &str, line: &str) {
        let at = |file: &str| format!("proc/{pid}/{file}");
        let comm: String = name.chars().take(15).collect();
        self.write(&at("comm"), comm + "\n");
        self.write(&at("cgroup"), cgroup);
        self.write(&at("cmdline"), line.replace(' ', "\0") + "\0");
        self.write(&at("mountinfo"), mounts(""));
        self.write(&at("net/fib_trie"), FIB_TRIE);
        self.write(&at("net/if_inet6"), IF_INET6);
        symlink("../..", self.at(&at("root"))).unwrap();
    }

    /// The namespace of processes that a process is in.
    pub(crate) fn namespace(&self, pid: u32, name: &str) {
        let dir = self.at(&format!("proc/{pid}/ns"));
        fs::create_dir_all(&dir).unwrap();
        symlink(name, dir.join("pid")).unwrap();
    }

    /// The loaded kernel module of a driver with IMEX channels.
    pub(crate) fn module(&self, version: &str) {
        self.write(
            "proc/driver/nvidia/version",
            format!("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  {version}  Release Build\n"),
        );
        self.params("ModifyDeviceFiles: 1\nImexChannelCount: 2048\nCreateImexChannel0: 0\n");
        self.write(
            "proc/driver/nvidia/capabilities/fabric-imex-mgmt",
            "DeviceFileMinor: 4323\nDeviceFileMode: 256\nDeviceFileModify: 1\n",
        );
        self.write(
            "proc/devices",
            "Character devices:\n195 nvidia\n234 nvidia-caps\n235 nvidia-caps-imex-channels\n507 nvidia-uvm\n\nBlock devices:\n",
        );
    }

    pub(crate) fn params(&self, params: &str) {
        self.write("proc/driver/nvidia/params", params);
    }

    /// A device on the PCI bus, as sysfs shows it.
    pub(crate) fn pci(&self, address: &str, vendor: &str, class: &str, driver: Option<&str>) {
        let device = format!("sys/devices/pci/{address}");
        self.write(&format!("{device}/vendor"), format!("{vendor}\n"));
        self.write(&format!("{device}/class"), format!("{class}\n"));
        let bus = "sys/bus/pci/devices";
        fs::create_dir_all(self.at(bus)).unwrap();
        let link = self.at(&format!("{bus}/{address}"));
        symlink(format!("../../../devices/pci/{address}"), link).unwrap();
        if let Some(driver) = driver {
            let target = format!("../../../bus/pci/drivers/{driver}");
            symlink(target, self.at(&format!("{device}/driver"))).unwrap();
        }
    }

    /// A GPU of NVIDIA's.
    pub(crate) fn gpu(&self, driver: Option<&str>) {
        self.pci("0008:01:00.0", "0x10de", "0x030200", driver);
    }

    /// NVML of a version in a directory, with its link, and CUDA.
    pub(crate) fn nvml(&self, dir: &str, version: &str) {
        self.write(&format!("{dir}/libcuda.so.{version}"), library());
        let name = format!("libnvidia-ml.so.{version}");
        self.write(&format!("{dir}/{name}"), library());
        symlink(&name, self.at(&format!("{dir}/libnvidia-ml.so.1"))).unwrap();
    }

    /// A driver on the host.
    pub(crate) fn with_driver(dir: &str, version: &str) -> Self {
        let host = Self::system();
        host.module(version);
        host.nvml(dir, version);
        host
    }

    /// The package nvidia-imex, neither configured nor enabled.
    pub(crate) fn imex_package(&self) {
        self.write("usr/bin/nvidia-imex", "");
        self.write("usr/bin/nvidia-imex-ctl", "");
        self.write(
            "etc/nvidia-imex/config.cfg",
            "LOG_LEVEL=4\nIMEX_NODE_CONFIG_FILE=/etc/nvidia-imex/nodes_config.cfg\n",
        );
        self.write(NODES, "# One address of the domain's nodes in each line.\n");
        self.write(
            "usr/lib/systemd/system/nvidia-imex.service",
            "[Unit]\nDescription=NVIDIA IMEX service\n\n[Service]\nType=forking\n\
             ExecStart=/usr/bin/nvidia-imex -c /etc/nvidia-imex/config.cfg\n\n\
             [Install]\nWantedBy=multi-user.target\n",
        );
    }

    /// `systemctl enable nvidia-imex`.
    pub(crate) fn imex_enabled(&self) {
        let wants = "etc/systemd/system/multi-user.target.wants";
        fs::create_dir_all(self.at(wants)).unwrap();
        let link = self.at(&format!("{wants}/nvidia-imex.service"));
        symlink("/usr/lib/systemd/system/nvidia-imex.service", link).unwrap();
    }

    /// `systemctl mask nvidia-imex`, in the directory of unit files.
    pub(crate) fn imex_masked(&self, dir: &str) {
        fs::create_dir_all(self.at(dir)).unwrap();
        symlink("/dev/null", self.at(&format!("{dir}/nvidia-imex.service"))).unwrap();
    }

    /// The service runs, and is configured for a domain of two.
    pub(crate) fn imex_runs(&self) {
        self.write(NODES, "10.0.0.1\n10.0.0.2\n");
        let line = "/usr/bin/nvidia-imex -c /etc/nvidia-imex/config.cfg";
        self.process(IMEX_PID, "nvidia-imex", SERVICE, line);
    }

    /// Installed, enabled, running.
    pub(crate) fn imex_by_host(&self) {
        self.imex_package();
        self.imex_enabled();
        self.imex_runs();
    }

    /// A daemon that a pod of NVIDIA's DRA driver runs.
    pub(crate) fn imex_in_pod(&self) {
        self.write("proc/900/comm", "nvidia-imex\n");
        self.write("proc/900/cgroup", POD);
        self.write("proc/900/cmdline", "nvidia-imex\0-c\0/imexd/imexd.cfg\0");
        self.write(
            "proc/900/root/imexd/imexd.cfg",
            "IMEX_NODE_CONFIG_FILE=/imexd/nodes.cfg\n",
        );
        // Names that the daemon's own /etc/hosts resolves.
        self.write(
            "proc/900/root/imexd/nodes.cfg",
            "compute-domain-daemon-0000\n",
        );
        self.write(
            "proc/900/net/fib_trie",
            "Local:\n     |-- 10.244.1.7\n        /32 host LOCAL\n",
        );
    }

    /// The kubelet plugin, with one prepared claim.
    pub(crate) fn plugin(&self) {
        fs::create_dir_all(self.at("etc/cdi")).unwrap();
        self.write(SPEC, spec("0.5.0", 235));
        let checkpoint = Self::fixture("02-channel-completed.json");
        self.write(&format!("{PLUGIN}/checkpoint.json"), checkpoint);
        self.write(KUBELET, kubelet(&[CLAIM]));
        self.socket(REGISTRATION);
        self.listens(&format!("/{REGISTRATION}"));
        self.write(
            "etc/nvidia-container-runtime/config.toml",
            "[features]\nignore-imex-channel-requests = true\n",
        );
    }

    /// A socket's file.
    pub(crate) fn socket(&self, path: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        drop(UnixListener::bind(path).unwrap());
    }

    /// This driver's sockets: bound under a dot-name, and renamed.
    pub(crate) fn renamed_sockets(&self) {
        let registry = "var/lib/kubelet/plugins_registry";
        self.remove(REGISTRATION);
        self.socket(&format!(
            "{registry}/compute-domain.nvidia.com-0011aabb@reg.sock"
        ));
        self.socket(&format!("{PLUGIN}/dra-0011aabb@plugin.sock"));
        let line = "0000000000000000: 00000002 00000000 00010000 0001 01 21000";
        self.write(
            "proc/1/net/unix",
            format!(
                "{line} /{registry}/.compute-domain.nvidia.com-0011aabb\n{line} /{PLUGIN}/.dra-0011aabb\n"
            ),
        );
    }

    /// What `/proc/net/unix` has where a process listens at each of these paths, separated by spaces.
    pub(crate) fn listens(&self, paths: &str) {
        let line = "0000000000000000: 00000002 00000000 00010000 0001 01 21000";
        let head = "Num       RefCount Protocol Flags    Type St Inode Path\n";
        let lines = paths.split(' ').map(|path| format!("{line} {path}\n"));
        self.write(
            "proc/1/net/unix",
            head.to_owned() + &lines.collect::<String>(),
        );
    }

    /// The plugin's process, with these variables in its environment.
    pub(crate) fn plugin_process(&self, environment: &str) {
        let name = "compute-domain-kubelet-plugin";
        self.process(950, name, POD, &format!("/usr/bin/{name}"));
        self.write("proc/950/environ", environment.replace('\n', "\0"));
    }
}

pub(crate) fn gke() -> Host {
    let host = Host::system();
    host.module("580.82.07");
    host.nvml("home/kubernetes/bin/nvidia/lib64", "580.82.07");
    host.write("home/kubernetes/bin/nvidia/bin/nvidia-imex", "");
    host
}

pub(crate) fn bottlerocket() -> Host {
    let host = Host::with_driver("usr/lib/nvidia/tesla", "570.148.08");
    host.write("usr/libexec/nvidia/tesla/bin/nvidia-imex", "");
    host
}

pub(crate) fn operator() -> Host {
    let host = Host::system();
    host.module("580.82.07");
    host.nvml("run/nvidia/driver/usr/lib/aarch64-linux-gnu", "580.82.07");
    host.write("run/nvidia/driver/usr/bin/nvidia-imex", "");
    host
}

pub(crate) fn rubin() -> Host {
    let host = Host::with_driver(DEBIAN, "615.12.01");
    host.imex_by_host();
    host
}

/// IMEX runs, with this list of nodes.
pub(crate) fn listed(nodes: &str) -> Host {
    let host = Host::with_driver("usr/lib64", "580.82.07");
    host.imex_by_host();
    host.write(NODES, nodes);
    host
}

/// A spec of channel 0 that is no claim's.
pub(crate) fn channel_spec(major: u32) -> String {
    spec("0.5.0", major).replace(
        "k8s.compute-domain.nvidia.com/claim",
        "nvidia.com/imex-channel",
    )
}
