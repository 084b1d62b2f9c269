//! A container gets GPUs by the spec of `cdi-gen generate gpu`, in an image without any file of the driver.
//!
//! Needs root, a C compiler, and `runc` (or the program that `IMEX_RUNC` names). Where they are missing, the tests pass
//! with a message, unless `IMEX_REQUIRE_RUNC` is set. The same applies to podman and `IMEX_REQUIRE_PODMAN`.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed unwrap outside a test function fails the test too"
)]

#[path = "support/output.rs"]
mod output;

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpu_inventory::Inventory;
use imex_cdi::{OsHost, Plan, QualifiedName, Registry};
use mock_host::{MockHost, built, generate_gpu_spec, library, make_probe_image};
use serde_json::{Value, json};
use tempfile::TempDir;

use output::{stderr, stdout};

const VERSION: &str = "580.82.07";

/// A host with eight GPUs, and a bundle. Its image has only the probe and the C library.
struct Place {
    scratch: TempDir,
    runc: OsString,
    host: MockHost,
}

/// The runtime, or `None` with a message.
fn runc() -> Option<OsString> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let is_root = status.lines().any(|it| it.starts_with("Uid:\t0\t0\t"));
    let runc = std::env::var_os("IMEX_RUNC").unwrap_or_else(|| "runc".into());
    let has = |program: &OsString| Command::new(program).arg("--version").output().is_ok();
    if is_root && has(&runc) && has(&"cc".into()) {
        return Some(runc);
    }
    let required = std::env::var_os("IMEX_REQUIRE_RUNC");
    assert!(required.is_none(), "root, runc or cc is missing");
    let line = b"\nSKIPPED: no container was run: root, runc or cc is missing\n";
    std::io::stderr().write_all(line).unwrap();
    None
}

fn has_podman() -> bool {
    let found = Command::new("podman").arg("--version").output().is_ok();
    let required = std::env::var_os("IMEX_REQUIRE_PODMAN");
    assert!(found || required.is_none(), "podman is missing");
    found
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", stderr(&output));
    stdout(&output)
}

// === impl Place ===

impl Place {
    fn new(inventory: &str) -> Option<Self> {
        let runc = runc()?;
        let scratch = tempfile::tempdir().unwrap();
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../dra-shim/gpu/inventory/tests/inventories")
            .join(format!("{inventory}.json"));
        let inventory: Inventory = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        let dir = scratch.path().join("host");
        fs::create_dir(&dir).unwrap();
        let host = MockHost::new(&dir, &inventory, library());
        host.install_cuda(&built("mock-cuda"), VERSION);
        make_probe_image(&host, &scratch.path().join("rootfs"));
        Some(Self {
            scratch,
            runc,
            host,
        })
    }

    fn at(&self, path: &str) -> PathBuf {
        self.scratch.path().join(path)
    }

    /// Runs `cdi-gen generate gpu` where `/proc` and `/sys` are the mock host's, and returns its stderr.
    fn generate(&self) -> String {
        fs::create_dir(self.at("cdi")).unwrap();
        let cdi_gen = Path::new(env!("CARGO_BIN_EXE_cdi-gen"));
        let hook = built("nvidia-cdi-hook");
        let output = generate_gpu_spec(cdi_gen, &self.host, &hook, &self.at("cdi/gpu.json"));
        // Exit code 1 if it has reported a problem.
        assert!(output.status.code() < Some(2), "{}", stderr(&output));
        stderr(&output)
    }

    /// Runs the probe in a container with these devices, and returns its lines.
    fn probe(&self, devices: &[&str], mounts: &[Value]) -> Result<Vec<String>, String> {
        let path = self.at("config.json");
        let _ = fs::remove_file(&path);
        run(Command::new(&self.runc)
            .arg("spec")
            .current_dir(self.scratch.path()));
        let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        config["process"]["terminal"] = json!(false);
        config["process"]["args"] = json!(["/probe"]);
        config["root"]["readonly"] = json!(false);
        let env = config["process"]["env"].as_array_mut().unwrap();
        env.push(json!("NVML_MOCK_CONFIG=/nvml-mock.json"));
        let all = config["mounts"].as_array_mut().unwrap();
        all.extend(mounts.iter().cloned());
        let name = |device: &&str| format!("nvidia.com/gpu={device}").parse();
        let names: Vec<QualifiedName> = devices.iter().map(|it| name(it).unwrap()).collect();
        let registry = Registry::load(&[self.at("cdi")]);
        let plan = Plan::new(&registry, &names, &config, &OsHost::new("/")).unwrap();
        plan.apply(&mut config);
        fs::write(&path, config.to_string()).unwrap();
        let id = self.scratch.path().file_name().unwrap().display();
        let output = Command::new(&self.runc)
            .arg("--root")
            .arg(self.at("state"))
            .args(["run", "--bundle"])
            .arg(self.scratch.path())
            .arg(format!("gpu{id}"))
            .output()
            .unwrap();
        if output.status.success() {
            Ok(stdout(&output).lines().map(str::to_owned).collect())
        } else {
            Err(stderr(&output))
        }
    }
}

#[test]
fn a_container_sees_its_gpus_and_no_others() {
    let Some(place) = Place::new("h100") else {
        return;
    };
    assert_eq!(place.generate(), "");
    // GPU 0 is no device of the container: its node, brought in by a mount, must not help.
    run(Command::new("mknod")
        .arg(place.at("nvidia0"))
        .args(["c", "195", "0", "--mode", "666"]));
    let foreign = json!({
        "destination": "/dev/nvidia0",
        "source": place.at("nvidia0"),
        "type": "bind",
        "options": ["bind"],
    });
    let uuid = "GPU-00000000-0000-4000-8000-000000000003";
    let lines = place.probe(&["1", uuid], &[foreign]).unwrap();
    let expected = [
        "cuInit 0",
        "cuDriverGetVersion 13000",
        "cuDeviceGetCount 2",
        "nvmlInitWithFlags 0",
        "/dev/nvidia0 Operation not permitted",
        "/dev/nvidia1 may-open",
        "/dev/nvidia2 No such file or directory",
        "/dev/nvidia3 may-open",
    ];
    assert_eq!(lines[..8], expected);

    let lines = place.probe(&["all"], &[]).unwrap();
    assert_eq!(lines[2], "cuDeviceGetCount 8");
}

#[test]
fn podman_gives_a_container_the_gpus_of_the_spec() {
    let Some(place) = Place::new("h100") else {
        return;
    };
    if !has_podman() {
        return;
    }
    assert_eq!(place.generate(), "");
    // podman reads /run/cdi and keeps its state below /run: both are of this test only. Its default storage driver
    // does not work on tmpfs.
    let script = "set -e
        mount --make-rprivate /
        mount -t tmpfs tmpfs /run
        mkdir /run/cdi
        mount --bind \"$1/cdi\" /run/cdi
        podman --root \"$1/podman\" --storage-driver vfs --runtime \"$2\" run --rm --network none \
            --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 --env NVML_MOCK_CONFIG=/nvml-mock.json \
            --device nvidia.com/gpu=1 --device nvidia.com/gpu=3 --rootfs \"$1/rootfs\" /probe";
    let printed = run(Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(place.scratch.path())
        .arg(&place.runc));
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(lines[2..4], ["cuDeviceGetCount 2", "nvmlInitWithFlags 0"]);
    assert_eq!(lines[5], "/dev/nvidia1 may-open");
}

#[test]
fn without_a_gpu_the_probe_does_not_start() {
    let Some(place) = Place::new("h100") else {
        return;
    };
    assert_eq!(place.generate(), "");
    let error = place.probe(&[], &[]).unwrap_err();
    assert!(error.contains("libcuda.so.1"), "{error}");
}

#[test]
fn a_mig_device_is_its_gpus_node_and_two_capabilities() {
    let Some(place) = Place::new("h100-mig") else {
        return;
    };
    assert_eq!(place.generate(), "");
    let spec: Value = serde_json::from_slice(&fs::read(place.at("cdi/gpu.json")).unwrap()).unwrap();
    let devices = spec["devices"].as_array().unwrap();
    let nodes = |device: &Value| -> Vec<String> {
        let nodes = device["containerEdits"]["deviceNodes"].as_array().unwrap();
        let path = |node: &Value| node["path"].as_str().unwrap().to_owned();
        nodes.iter().map(path).collect()
    };
    let named = |name: &str| devices.iter().find(|it| it["name"] == name).unwrap();
    let expected = [
        "/dev/nvidia0",
        "/dev/nvidia-caps/nvidia-cap66",
        "/dev/nvidia-caps/nvidia-cap67",
    ];
    assert_eq!(nodes(named("0:0")), expected);
    assert_eq!(
        nodes(named("MIG-00000000-0000-5000-8000-000000000001")),
        expected
    );
    assert_eq!(nodes(named("2")), ["/dev/nvidia2"]);
    let found: Vec<_> = devices
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert!(
        !found.contains(&"0") && !found.contains(&"1"),
        "a GPU with MIG mode: {found:?}"
    );
}

// req: GPU-12
#[test]
fn a_gpu_whose_mig_mode_is_unknown_is_not_given_as_a_whole() {
    let Some(place) = Place::new("h100-mig") else {
        return;
    };
    let errors = json!({"errors": {"nvmlDeviceGetMigMode@0": 999}});
    place.host.inject(&errors);
    place.generate();
    let spec = fs::read_to_string(place.at("cdi/gpu.json")).unwrap();
    assert!(!spec.contains("/dev/nvidia0\""), "{spec}");
    assert!(spec.contains("/dev/nvidia2\""), "{spec}");
}

#[test]
fn without_nvml_no_spec_is_written() {
    let Some(place) = Place::new("h100") else {
        return;
    };
    place
        .host
        .inject(&json!({"errors": {"nvmlInitWithFlags": 9}}));
    let reported = place.generate();
    assert!(
        reported.contains("no spec is written, because NVML cannot be used"),
        "{reported}"
    );
    assert!(!place.at("cdi/gpu.json").exists());
}
