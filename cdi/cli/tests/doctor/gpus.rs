//! The GPUs of this host, with the mock of NVML as its driver.
//!
//! Needs root, to put a mock host's files below `/proc` and `/sys`. Without root, the tests pass with a message.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gpu_inventory::{Fact, Inventory, MigFacts};
use mock_host::{MockHost, library};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::host::{finding, text};
use super::prepared_gpus::GpuNode;

/// Far longer than anything takes.
const GIVE_UP: Duration = Duration::from_secs(60);

struct Place {
    _dir: TempDir,
    host: MockHost,
}

// === impl Place ===

impl Place {
    /// `None` without root.
    fn new(inventory: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let inventories = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../dra-shim/gpu/inventory/tests/inventories");
        let file = fs::read(inventories.join(format!("{inventory}.json"))).unwrap();
        let inventory: Inventory = serde_json::from_slice(&file).unwrap();
        let host = MockHost::new(dir.path(), &inventory, library());
        host.install_cuda(library(), inventory.driver.module.known().unwrap());
        let can_mount = host.command().arg("true").output().unwrap();
        if !can_mount.status.success() {
            let line = b"\nSKIPPED: nothing may be mounted here\n";
            std::io::stderr().write_all(line).unwrap();
            return None;
        }
        Some(Self { _dir: dir, host })
    }

    fn doctor(&self) -> Command {
        let mut command = self.host.command();
        command
            .arg(env!("CARGO_BIN_EXE_cdi-gen"))
            .args(["doctor", "--json", "--driver-root"])
            .arg(self.host.path(""))
            .stdin(Stdio::null());
        command
    }

    fn report(&self) -> Value {
        serde_json::from_slice(&self.doctor().output().unwrap().stdout).unwrap()
    }
}

/// The ids of the findings whose evidence has this text.
fn ids_with<'a>(report: &'a Value, evidence: &str) -> Vec<&'a str> {
    let findings = report.get("findings").and_then(Value::as_array).unwrap();
    let found = findings.iter();
    let found = found.filter(|it| text(it, "evidence").contains(evidence));
    found.map(|it| text(it, "id")).collect()
}

fn area<'a>(report: &'a Value, name: &str) -> &'a Value {
    let areas = report.get("areas").and_then(Value::as_array).unwrap();
    areas
        .iter()
        .find(|it| it.get("name").unwrap() == name)
        .unwrap()
}

// req: DOCTOR-13
#[test]
fn the_gpus_are_an_area_with_the_findings_of_gpus() {
    let Some(place) = Place::new("h100") else {
        return;
    };
    let gpus = place.report();
    let state = json!({"name": "gpus", "state": "ok", "summary": "8 GPUs"});
    assert_eq!(*area(&gpus, "gpus"), state);

    // The area of the fabric does not make this call.
    place
        .host
        .inject(&json!({"abort": ["nvmlDeviceGetMemoryInfo@2"]}));
    let report = place.report();
    let found = finding(&report, "gpu-unreadable").unwrap();
    assert_eq!(text(found, "subject"), "GPU 0000:38:00.0");
    assert_eq!(
        text(found, "evidence"),
        "nvmlDeviceGetMemoryInfo ended its process with SIGABRT"
    );
    assert_eq!(text(area(&report, "gpus"), "state"), "warning");
}

// req: DOCTOR-13
#[test]
fn a_gpu_that_is_lost_is_reported_once() {
    let Some(place) = Place::new("h100") else {
        return;
    };
    place.host.inject(&json!({"errors": {"@3": 15}}));
    let report = place.report();
    assert_eq!(
        ids_with(&report, "NVML_ERROR_GPU_IS_LOST"),
        ["gpu-unreadable"]
    );
}

// req: DOCTOR-13
#[test]
fn a_driver_that_fails_as_a_whole_is_reported_once() {
    let Some(place) = Place::new("h100") else {
        return;
    };
    place
        .host
        .inject(&json!({"errors": {"nvmlInitWithFlags": 999}}));
    let report = place.report();
    assert_eq!(ids_with(&report, "NVML_ERROR_UNKNOWN"), ["nvml-error"]);
}

// req: DOCTOR-13
#[test]
fn a_gpu_that_hangs_is_reported_once_with_its_address() {
    let Some(place) = Place::new("h100") else {
        return;
    };
    place.host.inject(&json!({"hang": ["nvmlDeviceGetName@3"]}));
    let report = place.report();
    assert_eq!(ids_with(&report, "nvmlDeviceGetName"), ["nvml-no-answer"]);
    let evidence = text(finding(&report, "nvml-no-answer").unwrap(), "evidence");
    let end = "; GPU 0000:48:00.0: nvmlDeviceGetName did not return within 10 s";
    assert!(evidence.ends_with(end), "{evidence}");
}

// req: DOCTOR-17
#[test]
fn a_gpu_of_a_claim_that_was_switched_to_mig_mode_is_gone() {
    let Some(place) = Place::new("h100") else {
        return;
    };
    let kubelet = place.host.path("kubelet");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let plugin = kubelet.join("plugins/gpu.nvidia.com");
    let node = GpuNode::start(&plugin, &place.host.path("cdi"), boot.trim());
    node.prepare("22222222-aaaa-4bbb-8ccc-000000000002", "gpu-0");
    let gone = || {
        let mut doctor = place.doctor();
        let output = doctor.arg("--kubelet-root").arg(&kubelet).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let found = finding(&report, "gpu-of-claim-gone")?;
        Some(text(found, "evidence").to_owned())
    };
    assert_eq!(gone(), None);

    let inventory = fs::read(place.host.path("usr/lib64/inventory.json")).unwrap();
    let mut inventory: Inventory = serde_json::from_slice(&inventory).unwrap();
    inventory.gpus[0].mig = Fact::Known(MigFacts {
        enabled: true,
        pending: true,
        ..MigFacts::default()
    });
    place.host.replace_inventory(&inventory);
    let evidence = gone().unwrap();
    let uuid = inventory.gpus[0].uuid.known().unwrap();
    let end = format!("holds {uuid}, which is in MIG mode now");
    assert!(evidence.contains(&end), "{evidence}");
}

// req: DOCTOR-16
#[test]
fn a_driver_without_cuda_or_its_module_for_memory_is_reported() {
    let Some(place) = Place::new("h100") else {
        return;
    };
    let inventory = fs::read(place.host.path("usr/lib64/inventory.json")).unwrap();
    let inventory: Inventory = serde_json::from_slice(&inventory).unwrap();
    let library = format!("libcuda.so.{}", inventory.driver.module.known().unwrap());
    place.host.remove(&format!("usr/lib64/{library}"));
    let devices = fs::read_to_string(place.host.path("proc/devices")).unwrap();
    let devices = devices.replace("nvidia-uvm", "other");
    place.host.write("proc/devices", &devices);
    let report = place.report();
    assert_eq!(ids_with(&report, &library), ["driver-library-missing"]);
    assert_eq!(ids_with(&report, "nvidia-uvm"), ["gpu-common-node-missing"]);
    assert_eq!(text(area(&report, "gpus"), "state"), "warning");
}

// req: DOCTOR-14
#[test]
fn a_driver_that_hangs_is_waited_for_once() {
    let Some(place) = Place::new("h100") else {
        return;
    };
    place.host.inject(&json!({"hang": ["nvmlDeviceGetName@3"]}));
    place.host.write("usr/lib64/nvml-mock.calls", "");
    let doctor = place.doctor().stdout(Stdio::piped()).spawn().unwrap();
    // Fabric and GPUs reach the call before either is given up.
    let began = Instant::now();
    let calls = place.host.path("usr/lib64/nvml-mock.calls");
    loop {
        let calls = fs::read_to_string(&calls).unwrap();
        let names = calls.lines().filter(|it| *it == "nvmlDeviceGetName");
        if names.count() == 8 {
            break;
        }
        assert!(began.elapsed() < GIVE_UP, "{calls}");
        std::thread::sleep(Duration::from_millis(5));
    }
    place.host.inject(&json!({}));
    let output = doctor.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(ids_with(&report, "nvmlDeviceGetName"), [""; 0]);
    assert_eq!(text(area(&report, "gpus"), "state"), "ok");
}
