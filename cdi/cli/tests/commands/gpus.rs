//! `gpus`, on files and on the mock of NVML.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use gpu_inventory::{GpuFacts, Inventory};
use mock_host::{MockHost, built, library};
use serde_json::{Value, json};

use super::{Place, stderr, stdout};

fn inventory(name: &str) -> Inventory {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dra-shim/gpu/inventory");
    let path = dir.join(format!("tests/inventories/{name}.json"));
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// A mock host `mock` in the place.
fn mock(place: &Place, name: &str) -> MockHost {
    let dir = place.at("mock");
    fs::create_dir(&dir).unwrap();
    MockHost::new(&dir, &inventory(name), library())
}

/// What NVML has of the GPUs of the mock. This machine's own GPUs and files are left out.
fn through_nvml(place: &Place) -> Vec<GpuFacts> {
    let output = place.run("gpus --json --driver-root mock");
    let read: Inventory = serde_json::from_str(&stdout(&output)).unwrap();
    let enumerated = read
        .gpus
        .into_iter()
        .filter(|it| it.index.known().is_some());
    enumerated.collect()
}

/// The facts that NVML has.
fn of_nvml(gpu: &GpuFacts) -> Value {
    let mut value = serde_json::to_value(gpu).unwrap();
    let members = value.as_object_mut().unwrap();
    for of_files in [
        "device_id",
        "numa_node",
        "pcie_root",
        "pci_driver",
        "iommu_group",
        "drm",
    ] {
        members.remove(of_files);
    }
    value
}

#[test]
fn the_gpus_of_nvml_are_read_by_a_process_of_this_program() {
    let place = Place::new();
    let _host = mock(&place, "h100-mig");
    let read = through_nvml(&place);
    let expected = inventory("h100-mig").gpus;
    assert_eq!(read.len(), expected.len());
    for (read, expected) in read.iter().zip(&expected) {
        assert_eq!(of_nvml(read), of_nvml(expected));
    }
}

#[test]
fn a_host_without_gpus_is_noted() {
    let place = Place::new();
    fs::create_dir(place.at("empty")).unwrap();
    let output = place.run("gpus --root empty");
    assert_eq!(output.status.code(), Some(0));
    let note = stderr(&output);
    assert!(
        note.starts_with("cdi-gen: empty has no NVIDIA GPU"),
        "{note}"
    );
    assert_eq!(note.lines().count(), 1, "{note}");

    let _host = mock(&place, "h100");
    assert_eq!(stderr(&place.run("gpus --root mock")), "");
}

#[test]
fn a_library_that_aborts_on_one_gpu_is_survived_and_reported() {
    let place = Place::new();
    let host = mock(&place, "h100");
    host.inject(&json!({"abort": ["nvmlDeviceGetMemoryInfo@2"]}));
    let read = through_nvml(&place);
    let unreadable = read.iter().filter(|gpu| gpu.memory.failure().is_some());
    assert_eq!(unreadable.count(), 1);
    assert_eq!(read.len(), 8);

    let output = place.run("gpus --driver-root mock");
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    let finding = "warning: GPU 0000:38:00.0 [gpu-unreadable]\n  nvmlDeviceGetMemoryInfo ended its process with SIGABRT\n";
    assert!(text.contains(finding), "{text}");
    let row = text.lines().find(|line| line.starts_with("0000:38:00.0"));
    assert!(row.unwrap().contains("  ?  "), "{text}");
}

#[test]
fn a_host_below_another_root_is_read_without_nvml() {
    let place = Place::new();
    let host = mock(&place, "l4");
    host.write("usr/lib64/libnvidia-ml.so.1.new", "not loaded");
    let text = place.out("gpus --root mock", 0);
    let row = text.lines().find(|line| line.starts_with("0000:18:00.0"));
    let words: Vec<_> = row.unwrap().split_whitespace().collect();
    assert_eq!(words[..4], ["0000:18:00.0", "0", "NVIDIA", "L4"]);
    assert!(words.contains(&"nvidia"), "{text}");
}

#[test]
fn without_the_module_the_gpus_of_the_bus_are_listed_with_the_cause() {
    let place = Place::new();
    let host = mock(&place, "t4");
    host.remove("proc/driver");
    let text = place.out("gpus --root mock", 1);
    assert!(text.contains("\n0000:18:00.0  "), "{text}");
    assert!(
        text.contains("error: nvidia kernel module [nvidia-module-not-loaded]"),
        "{text}"
    );
}

#[test]
fn a_root_that_does_not_exist_is_an_error() {
    let place = Place::new();
    let output = place.run("gpus --root nowhere");
    assert_eq!(output.status.code(), Some(3));
}

/// Installs a program in the hook's default place.
fn write_hook(host: &MockHost) {
    let hook = "usr/local/bin/nvidia-cdi-hook";
    host.write(hook, "");
    fs::set_permissions(host.path(hook), Permissions::from_mode(0o755)).unwrap();
}

/// The spec that `generate gpu` prints for the host, and its stderr.
fn generated(place: &Place, options: &str) -> (Value, String) {
    let output = place.run(&format!("generate gpu --root mock {options}"));
    let spec = serde_json::from_str(&stdout(&output));
    (spec.unwrap_or_default(), stderr(&output))
}

#[test]
fn a_spec_has_the_gpu_by_index_and_uuid_and_the_files_of_the_driver() {
    let place = Place::new();
    let host = mock(&place, "l4");
    host.install_cuda(&built("mock-cuda"), "550.163.01");
    host.write("opt/nvidia-cdi-hook", "");
    let hook = host.path("opt/nvidia-cdi-hook");
    fs::set_permissions(&hook, Permissions::from_mode(0o755)).unwrap();
    // Installed as a link, which leads into the host's root and not this machine's.
    fs::create_dir_all(host.path("usr/local/bin")).unwrap();
    let link = host.path("usr/local/bin/nvidia-cdi-hook");
    symlink("/opt/nvidia-cdi-hook", link).unwrap();
    let (spec, reported) = generated(&place, "");
    assert_eq!(reported, "");
    let uuid = "GPU-00000000-0000-4000-8000-000000000000";
    // Without NVML, the index is unknown.
    let names: Vec<_> = spec["devices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(names, [uuid, "all"]);
    let mounts = spec["containerEdits"]["mounts"].to_string();
    assert!(
        mounts.contains(r#""hostPath":"/usr/lib64/libcuda.so.550.163.01""#),
        "{mounts}"
    );
    place.out("generate gpu --root mock --kind example.com/gpu", 0);
}

#[test]
fn files_of_another_version_than_the_modules_are_reported_and_left_out() {
    let place = Place::new();
    let host = mock(&place, "l4");
    host.install_cuda(&built("mock-cuda"), "535.261.03");
    let (spec, reported) = generated(&place, "");
    assert!(
        reported.contains("libcuda.so.550.163.01 was not found"),
        "{reported}"
    );
    assert!(
        reported.contains("/usr/lib64 has files of driver 535.261.03"),
        "{reported}"
    );
    assert!(!spec["containerEdits"].to_string().contains("535.261.03"));
}

#[test]
fn a_hook_program_that_cannot_be_run_is_reported() {
    let place = Place::new();
    let host = mock(&place, "l4");
    host.install_cuda(&built("mock-cuda"), "550.163.01");
    host.write("opt/hook", "");
    fs::set_permissions(host.path("opt/hook"), Permissions::from_mode(0o644)).unwrap();
    for (path, reason) in [
        ("/opt/missing", "does not exist"),
        ("/opt/hook/below", "does not exist"),
        ("/opt/hook", "is not executable"),
        ("/opt", "is not a file"),
        ("opt/hook", "is not an absolute path"),
    ] {
        let (spec, reported) = generated(&place, &format!("--hook {path}"));
        let problem = format!("cdi-gen: the hook program {path} {reason}, so ");
        assert!(reported.starts_with(&problem), "{reported}");
        assert_eq!(reported.lines().count(), 1, "{reported}");
        let hook = &spec["containerEdits"]["hooks"][0];
        assert_eq!(hook["path"], path);
    }
}

// req: GPU-11
#[test]
fn without_a_kernel_module_no_spec_is_written() {
    let place = Place::new();
    let host = mock(&place, "l4");
    host.write("proc/devices", "Character devices:\n195 nvidia\n");
    let (spec, reported) = generated(&place, "");
    assert_eq!(spec, Value::Null);
    let problem =
        "/dev/nvidia-uvm has no number: /proc/devices has no nvidia-uvm; load the driver's modules";
    assert!(reported.contains(problem), "{reported}");
}

#[test]
fn generate_without_channels_or_gpu_is_a_usage_error() {
    let place = Place::new();
    let output = place.run("generate");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--channels <LIST|all>"));
}

// req: GPU-11
#[test]
fn without_nvml_a_gpu_with_mig_devices_is_left_out() {
    let place = Place::new();
    let host = mock(&place, "h100-mig");
    host.install_cuda(&built("mock-cuda"), "580.82.07");
    write_hook(&host);
    let output = place.run("generate gpu --root mock");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        stderr(&output),
        "cdi-gen: GPU GPU-00000000-0000-4000-8000-000000000000 has MIG devices, and is left out: only NVML, which is \
         not called with --root, knows them; run cdi-gen generate gpu on the host\n"
    );
    let all = stdout(&output);
    assert!(!all.contains("/dev/nvidia0\""), "{all}");
    assert!(all.contains("/dev/nvidia2\""), "{all}");
}

#[test]
fn gpus_that_cannot_be_told_apart_are_reported_and_left_out() {
    let place = Place::new();
    let mut twice = inventory("h100");
    twice.gpus[1].minor = twice.gpus[0].minor.clone();
    twice.gpus[3].uuid = twice.gpus[2].uuid.clone();
    fs::create_dir(place.at("mock")).unwrap();
    let host = MockHost::new(&place.at("mock"), &twice, library());
    host.install_cuda(&built("mock-cuda"), "580.82.07");
    let (spec, reported) = generated(&place, "");
    let problem = "another GPU has its PCI address, minor number or UUID";
    assert_eq!(reported.matches(problem).count(), 4, "{reported}");
    assert_eq!(spec["devices"].as_array().unwrap().len(), 5);
}

#[test]
fn nodes_have_the_owner_and_mode_of_the_drivers_parameters() {
    let place = Place::new();
    let host = mock(&place, "t4");
    host.install_cuda(&built("mock-cuda"), "535.261.03");
    let params = "DeviceFileUID: 0\nDeviceFileGID: 44\nDeviceFileMode: 432\n";
    host.write("proc/driver/nvidia/params", params);
    let (spec, _) = generated(&place, "");
    let node = &spec["devices"][0]["containerEdits"]["deviceNodes"][0];
    assert_eq!(
        (&node["gid"], &node["fileMode"]),
        (&json!(44), &json!(0o660))
    );
}

#[test]
fn a_kind_that_crashes_runtimes_is_refused() {
    let place = Place::new();
    let _host = mock(&place, "l4");
    let output = place.run("generate gpu --root mock --kind a/b");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_named_pipe_in_place_of_a_file_blocks_nothing() {
    let place = Place::new();
    let host = mock(&place, "l4");
    host.remove("proc/driver/nvidia/version");
    let path = host.path("proc/driver/nvidia/version");
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.unwrap().success());
    let text = place.out("gpus --root mock", 1);
    assert!(text.contains("[driver-unreadable]"), "{text}");
}

#[test]
fn without_nvml_a_gpu_that_is_not_initialised_is_no_problem_but_gets_no_device() {
    let place = Place::new();
    let host = mock(&place, "t4");
    host.install_cuda(&built("mock-cuda"), "535.261.03");
    write_hook(&host);
    let information = "proc/driver/nvidia/gpus/0000:18:00.0/information";
    let text = "GPU UUID: \t GPU-????????-????-????-????-????????????\nDevice Minor: \t 0\n";
    host.write(information, text);
    let text = place.out("gpus --root mock", 0);
    assert!(text.contains("[gpu-without-identity]"), "{text}");
    let reported = place.err("generate gpu --root mock", 1);
    let expected = format!(
        "cdi-gen: GPU 0000:18:00.0: without NVML, it has no UUID: /{information} has no UUID, because the driver has \
         not initialised the GPU; run cdi-gen on the host itself, without --root: NVML has this property\n"
    );
    assert!(reported.starts_with(&expected), "{reported}");
}

#[test]
fn hints_about_a_spec_for_gpus_are_about_gpus() {
    let place = Place::new();
    let host = mock(&place, "l4");
    host.install_cuda(&built("mock-cuda"), "550.163.01");
    fs::create_dir_all(place.at("mock/etc/cdi")).unwrap();
    place.err("generate gpu --root mock --output mock/etc/cdi/a.json", 1);

    let rewrite = "install the hook program, or rewrite the spec with the program that wrote it: cdi-gen generate gpu \
                   --output /etc/cdi/a.json (on the host), or nvidia-ctk cdi generate --output=/etc/cdi/a.json\n";
    let listed = place.run("list --root mock");
    assert_eq!(listed.status.code(), Some(1));
    assert!(stderr(&listed).ends_with(rewrite), "{}", stderr(&listed));
    let why = place.out("why --root mock nvidia.com/gpu=all", 1);
    assert!(why.ends_with(rewrite), "{why}");
    let once =
        "but the spec runs /usr/local/bin/nvidia-cdi-hook, which does not exist on the host\n";
    assert!(why.contains(once), "{why}");

    let conflict = place.err("generate gpu --root mock --output mock/etc/cdi/b.json", 1);
    let replace = "; replace the other file (pass it as --output), remove that file, or choose another --kind\n";
    assert!(conflict.ends_with(replace), "{conflict}");
}
