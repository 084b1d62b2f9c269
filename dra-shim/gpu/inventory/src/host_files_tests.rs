use super::*;

#[test]
fn the_modules_version_is_found_in_either_form_of_the_line() {
    for (line, version) in [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025",
            Some("550.163.01"),
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.82.07  Release Build  (dvs-builder)",
            Some("580.82.07"),
        ),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module", None),
        ("GCC version:  gcc version 13.3.0", None),
        ("", None),
    ] {
        assert_eq!(module_version(line).as_deref(), version, "{line}");
    }
}

#[test]
fn an_uninitialised_gpu_has_a_minor_and_no_uuid() {
    let dir = tempfile::tempdir().unwrap();
    let path = HostPath::new(&dir.path().join("information"), "/proc/information");
    let text = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 139\nGPU UUID: \t GPU-????????-????-????-????-????????????\nDevice Minor: \t 3\n";
    fs::write(&path.here, text).unwrap();
    let mut facts = FileFacts::default();
    read_information(&path, &mut facts);
    assert_eq!(facts.minor, Fact::Known(3));
    let reason = facts.uuid.failure().unwrap().reason.clone();
    assert_eq!(
        reason,
        "has no UUID, because the driver has not initialised the GPU"
    );
}

#[test]
fn majors_of_block_devices_and_of_other_drivers_are_not_nvidias() {
    let devices = "Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n507 nvidia-uvm\n\nBlock devices:\n259 nvidia-disk\n";
    let majors = nvidia_majors(devices);
    let expected = [("nvidia", 195), ("nvidia-uvm", 507), ("nvidiactl", 195)];
    assert_eq!(
        majors,
        expected
            .map(|(name, major)| (name.to_owned(), major))
            .into()
    );
}

#[test]
fn a_malformed_file_fails_and_costs_only_its_fact() {
    let dir = tempfile::tempdir().unwrap();
    for (file, text) in [
        ("vendor", "0x10de"),
        ("class", "0x030200"),
        ("device", "what"),
        ("numa_node", "x"),
    ] {
        fs::write(dir.path().join(file), text).unwrap();
    }
    let device = HostPath::new(dir.path(), "/sys/gpu");
    assert!(is_gpu(&device));
    let mut facts = FileFacts::default();
    read_sysfs(&device, &mut facts);
    let text = |fact: &Fact<u32>| fact.failure().unwrap().to_string();
    // The host's own paths, wherever its files are read.
    assert_eq!(
        text(&facts.device_id),
        "/sys/gpu/device is not a hexadecimal number"
    );
    assert_eq!(
        text(&facts.numa_node),
        "/sys/gpu/numa_node has \"x\" instead of a number"
    );
    assert_eq!(facts.pci_driver, Fact::Absent);
}

#[test]
fn a_virtual_function_is_no_gpu_of_its_host() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("vendor"), "0x10de\n").unwrap();
    fs::write(dir.path().join("class"), "0x030200\n").unwrap();
    let device = HostPath::new(dir.path(), "/sys/gpu");
    assert!(is_gpu(&device));
    std::os::unix::fs::symlink("../0000:18:00.0", dir.path().join("physfn")).unwrap();
    assert!(!is_gpu(&device));
}
