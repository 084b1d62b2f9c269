//! A healthy GPU host, for tests to break.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::cri::{Runtime, containerd_config, serve};
use super::unprivileged::unprivileged;
use super::{stderr, stdout};

pub(crate) const CLAIM: &str = "11111111-aaaa-4bbb-8ccc-000000000001";
/// The boot of the fixtures, and of the host.
pub(crate) const BOOT: &str = "6f1c1f0e-2c38-4c4a-9f5b-0d3a5a1b7c11";
pub(crate) const PLUGIN: &str = "var/lib/kubelet/plugins/compute-domain.nvidia.com";
pub(crate) const SPEC: &str =
    "run/cdi/k8s.compute-domain.nvidia.com-claim_11111111-aaaa-4bbb-8ccc-000000000001.yaml";
pub(crate) const KUBELET: &str = "var/lib/kubelet/dra_manager_state";
pub(crate) const LIBRARY: &str = "usr/lib64/libnvidia-ml.so.580.82.07";

/// CDI is enabled explicitly.
pub(crate) const ON: &str =
    "version = 3\n[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = true\n";

/// Root of a host, in its own directory.
pub(crate) struct Host(TempDir);

impl Host {
    /// An empty root.
    pub(crate) fn bare() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// One claim is prepared on it, through the plugin and kubelet.
    pub(crate) fn healthy() -> Self {
        let host = Self::bare();
        host.add_driver();
        host.add_imex();
        host.add_runtime();
        host.add_claim();
        host
    }

    fn add_driver(&self) {
        self.write(LIBRARY, library());
        symlink(
            "libnvidia-ml.so.580.82.07",
            self.at("usr/lib64/libnvidia-ml.so.1"),
        )
        .unwrap();
        self.write(
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build\n",
        );
        self.write(
            "proc/driver/nvidia/params",
            "ModifyDeviceFiles: 1\nImexChannelCount: 2048\nCreateImexChannel0: 0\n",
        );
        self.write(
            "proc/driver/nvidia/capabilities/fabric-imex-mgmt",
            "DeviceFileMinor: 4323\nDeviceFileMode: 256\nDeviceFileModify: 1\n",
        );
        self.write(
            "proc/devices",
            "Character devices:\n234 nvidia-caps\n235 nvidia-caps-imex-channels\n\nBlock devices:\n",
        );
    }

    fn add_imex(&self) {
        self.write("usr/lib/systemd/system/nvidia-imex.service", "[Unit]\n");
        self.imex_enabled();
        self.write("proc/700/comm", "nvidia-imex\n");
        symlink("../..", self.at("proc/700/root")).unwrap();
        self.write("etc/nvidia-imex/nodes_config.cfg", "10.0.0.1\n10.0.0.2\n");
        self.write("usr/lib/systemd/libsystemd-shared-252.so", "");
    }

    fn add_runtime(&self) {
        self.write("usr/bin/containerd", "");
        self.write("proc/800/comm", "containerd\n");
        self.containerd("2.1.3", ON);
        self.write("proc/1/comm", "systemd\n");
        for process in [1, 800] {
            self.write(&format!("proc/{process}/mountinfo"), mounts(""));
        }
        symlink("../..", self.at("proc/800/root")).unwrap();
        self.write("proc/sys/fs/inotify/max_user_instances", "1024\n");
        self.write("proc/sys/fs/inotify/max_user_watches", "65536\n");
        self.write(
            "etc/nvidia-container-runtime/config.toml",
            "[features]\nignore-imex-channel-requests = true\n",
        );
    }

    fn add_claim(&self) {
        for dir in ["etc/cdi", "run/cdi", "var"] {
            fs::create_dir_all(self.at(dir)).unwrap();
        }
        symlink("/run", self.at("var/run")).unwrap();
        self.write(SPEC, spec("0.5.0", 235));
        let checkpoint = Self::fixture("02-channel-completed.json");
        self.write(&format!("{PLUGIN}/checkpoint.json"), &checkpoint);
        self.write("proc/sys/kernel/random/boot_id", BOOT);
        self.write(
            "var/lib/kubelet/plugins_registry/compute-domain.nvidia.com-reg.sock",
            "",
        );
        self.write(KUBELET, kubelet(&[CLAIM]));
    }

    /// A containerd of a version, with a configuration.
    pub(crate) fn containerd(&self, version: &str, config: &str) {
        self.write(
            "var/lib/dpkg/status",
            format!(
                "Package: bash\nStatus: install ok installed\nVersion: 5.2\n\n\
                 Package: containerd.io\nStatus: install ok installed\nVersion: {version}-1\n"
            ),
        );
        self.write("etc/containerd/config.toml", config);
    }

    /// Program, configuration and process of the healthy host's containerd.
    pub(crate) fn remove_containerd(&self) {
        for gone in ["usr/bin/containerd", "etc/containerd", "proc/800"] {
            self.remove(gone);
        }
    }

    /// The packages that are installed, by name and version, and no others.
    pub(crate) fn packages(&self, packages: &[(&str, &str)]) {
        let status = packages.iter().map(|(name, version)| {
            format!("Package: {name}\nStatus: install ok installed\nVersion: {version}\n\n")
        });
        self.write("var/lib/dpkg/status", status.collect::<String>());
    }

    /// A process of root's with a command line.
    pub(crate) fn root_process(&self, pid: u32, name: &str, line: &str) {
        let at = |file: &str| format!("proc/{pid}/{file}");
        self.write(&at("comm"), format!("{name}\n"));
        self.write(&at("cmdline"), line.replace(' ', "\0") + "\0");
        self.write(&at("status"), "Uid:\t0\t0\t0\t0\n");
        let root = self.at(&at("root"));
        if !root.is_symlink() {
            symlink("../..", root).unwrap();
        }
    }

    /// kubelet runs, and is given the socket of a runtime.
    pub(crate) fn kubelet_asks(&self, socket: &str) {
        let line = format!("kubelet --container-runtime-endpoint=unix://{socket}");
        self.root_process(900, "kubelet", &line);
    }

    /// A runtime answers at kubelet's usual socket for it.
    pub(crate) fn answers(&self, runtime: Runtime) {
        let socket = match runtime {
            Runtime::CriO(..) => "run/crio/crio.sock",
            Runtime::CriDockerd => "run/cri-dockerd.sock",
            _ => "run/containerd/containerd.sock",
        };
        serve(&self.at(socket), runtime);
    }

    /// containerd answers that it has these members in its configuration.
    pub(crate) fn containerd_answers(&self, version: &'static str, members: &Value) {
        self.answers(Runtime::Containerd(version, containerd_config(members)));
    }

    pub(crate) fn fixture(name: &str) -> String {
        let fixtures =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../checkpoint/tests/fixtures");
        fs::read_to_string(fixtures.join(name)).unwrap()
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    }

    pub(crate) fn remove(&self, path: &str) {
        let path = self.at(path);
        if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }

    /// The program with `--root` of this host.
    pub(crate) fn command(&self, words: &str) -> Command {
        self.with_root(Command::new(env!("CARGO_BIN_EXE_cdi-gen")), words)
    }

    pub(crate) fn run(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }

    /// The program, run by an unprivileged user.
    pub(crate) fn run_unprivileged(&self, words: &str) -> Output {
        let program = unprivileged(self.0.path());
        self.with_root(program, words).output().unwrap()
    }

    fn with_root(&self, mut program: Command, words: &str) -> Command {
        program
            .args(words.split_whitespace())
            .arg("--root")
            .arg(self.0.path())
            .stdin(Stdio::null());
        program
    }

    /// The stdout of a command that ends with `code`.
    pub(crate) fn out(&self, words: &str, code: i32) -> String {
        let output = self.run(words);
        let both = stdout(&output) + &stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{words}: {both}");
        stdout(&output)
    }

    /// The JSON document of a command that ends with `code`.
    pub(crate) fn json(&self, words: &str, code: i32) -> Value {
        serde_json::from_str(&self.out(words, code)).unwrap()
    }

    /// The findings of `doctor`, as ids, in order.
    pub(crate) fn ids(&self, code: i32) -> Vec<String> {
        let report = self.json("doctor --json", code);
        let findings = report.get("findings").and_then(Value::as_array).unwrap();
        let ids = findings.iter().map(|it| it.get("id").unwrap());
        ids.map(|id| id.as_str().unwrap().to_owned()).collect()
    }
}

/// The first finding of that id in a report of `doctor`.
pub(crate) fn finding<'a>(report: &'a Value, id: &str) -> Option<&'a Value> {
    let findings = report.get("findings").and_then(Value::as_array).unwrap();
    findings.iter().find(|it| it.get("id").unwrap() == id)
}

/// A member of a finding.
pub(crate) fn text<'a>(finding: &'a Value, member: &str) -> &'a str {
    finding.get(member).and_then(Value::as_str).unwrap()
}

/// The content of `/proc/PID/mountinfo`, with one more line.
pub(crate) fn mounts(more: &str) -> String {
    format!("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n{more}")
}

/// The spec of the claim, with the channel's node of a major.
pub(crate) fn spec(version: &str, major: u32) -> String {
    json!({
        "cdiVersion": version,
        "kind": "k8s.compute-domain.nvidia.com/claim",
        "devices": [{"name": format!("{CLAIM}-channel-0"), "containerEdits": {
            "deviceNodes": [{
                "path": "/dev/nvidia-caps-imex-channels/channel0",
                "type": "c", "major": major, "minor": 0, "fileMode": 438,
            }],
        }}],
    })
    .to_string()
}

/// kubelet's state, with these claims prepared.
pub(crate) fn kubelet(claims: &[&str]) -> String {
    let claims: Vec<Value> = claims
        .iter()
        .map(|uid| {
            json!({
                "ClaimUID": uid, "ClaimName": "worker-0-channel", "Namespace": "default",
                "PodUIDs": {"88888888-0000-4000-8000-000000000001": {}},
                "DriverState": {"compute-domain.nvidia.com": {"Devices": [{
                    "PoolName": "node-a", "DeviceName": "channel-0", "RequestNames": ["channel"],
                    "CDIDeviceIDs": [format!("k8s.compute-domain.nvidia.com/claim={uid}-channel-0")],
                }]}},
            })
        })
        .collect();
    let data = json!({
        "kind": "DRACheckpoint",
        "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1",
        "ClaimInfoStateList": claims,
    })
    .to_string();
    let checksum = crc32fast::hash(data.as_bytes());
    json!({"Data": data, "Checksum": checksum}).to_string()
}

/// The header of a shared library for this machine, which is all of it.
pub(crate) fn library() -> Vec<u8> {
    let mut header = vec![0; 64];
    header.splice(0..6, *b"\x7fELF\x02\x01");
    header.splice(16..17, [3]);
    let machine = if cfg!(target_arch = "aarch64") {
        183
    } else {
        62
    };
    header.splice(18..19, [machine]);
    header
}
