use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use gpu_inventory::{GpuInstance, MigDevice, MigFacts, Placement};
use nvml_clique::{Gpu, GpuRef, NvmlCode, NvmlFailure};

use super::*;
use crate::error_facts::ErrorFacts;
use crate::facts::FabricFacts;
use crate::finding::Severity;
use crate::{Diagnosis, Facts, Host, Invocation, Options, diagnose};

/// A host with one healthy GPU.
fn healthy() -> Inventory {
    let mut inventory = Inventory::default();
    let version = Fact::Known("580.82.07".to_owned());
    inventory.driver.module = version.clone();
    inventory.driver.nvml = version;
    inventory.driver.gpu_count = Fact::Known(1);
    inventory.gpus.push(GpuFacts {
        pci: Fact::Known("0000:65:00.0".parse().unwrap()),
        index: Fact::Known(0),
        minor: Fact::Known(0),
        uuid: Fact::Known("GPU-1".to_owned()),
        pci_driver: Fact::Known("nvidia".to_owned()),
        recovery_action: Fact::Known(0),
        ..GpuFacts::default()
    });
    inventory
}

/// The id, severity and evidence of each finding of the host with this change.
fn found(change: impl FnOnce(&mut Inventory)) -> Vec<(&'static str, Severity, String)> {
    let mut inventory = healthy();
    change(&mut inventory);
    let findings = gpu_findings(&inventory).into_iter();
    findings
        .map(|it| (it.id, it.severity, it.evidence))
        .collect()
}

fn ids(change: impl FnOnce(&mut Inventory)) -> Vec<&'static str> {
    found(change).into_iter().map(|it| it.0).collect()
}

fn failed<T>(call: &str, reason: &str) -> Fact<T> {
    Fact::Failed(Failure::new(call, reason))
}

#[test]
fn a_healthy_gpu_has_no_finding() {
    assert_eq!(found(|_| {}), []);
}

#[test]
fn without_the_module_that_is_the_only_finding() {
    let ids = ids(|it| {
        it.driver.module = Fact::Absent;
        it.gpus[0].index = Fact::Absent;
        it.gpus[0].pci_driver = Fact::Absent;
    });
    assert_eq!(ids, ["nvidia-module-not-loaded"]);
}

#[test]
fn a_gpu_that_nvml_does_not_enumerate_is_reported_with_the_reason() {
    for (driver, id, severity) in [
        (Some("nvidia"), "gpu-not-enumerated", Severity::Error),
        (Some("nouveau"), "gpu-other-driver", Severity::Error),
        (Some("vfio-pci"), "gpu-passed-through", Severity::Info),
        (
            Some("nvgrace_gpu_vfio_pci"),
            "gpu-passed-through",
            Severity::Info,
        ),
        (None, "gpu-without-driver", Severity::Error),
    ] {
        let found = found(|it| {
            it.gpus[0].index = Fact::Absent;
            it.gpus[0].minor = Fact::Absent;
            it.gpus[0].pci_driver = driver.map_or(Fact::Absent, |it| Fact::Known(it.to_owned()));
        });
        assert_eq!((found.len(), found[0].0, found[0].1), (1, id, severity));
    }
}

#[test]
fn without_sysfs_a_gpu_of_the_driver_counts_as_bound_to_it() {
    let ids = ids(|it| {
        it.gpus[0].index = Fact::Absent;
        it.gpus[0].pci_driver = Fact::Absent;
    });
    assert_eq!(ids, ["gpu-not-enumerated"]);
}

#[test]
fn if_nvml_fails_as_a_whole_its_gpus_are_not_reported_one_by_one() {
    let found = found(|it| {
        it.driver.gpu_count = failed("nvmlInitWithFlags", "did not return within 10 s");
        it.gpus[0].index = Fact::Absent;
    });
    assert_eq!(
        found,
        [(
            "gpu-nvml-failed",
            Severity::Error,
            "nvmlInitWithFlags did not return within 10 s".to_owned()
        )]
    );
}

#[test]
fn library_and_module_of_two_versions_are_reported() {
    let found = found(|it| it.driver.module = Fact::Known("570.1".to_owned()));
    assert_eq!(found[0].0, "driver-version-mismatch");
    let evidence = "NVML has version 580.82.07, but the kernel module has 570.1";
    assert_eq!(found[0].2, evidence);
}

#[test]
fn what_cannot_be_read_is_one_finding_with_its_first_cause() {
    let hang = "did not return within 10 s";
    let found = found(|it| {
        it.gpus[0].brand = failed("nvmlDeviceGetBrand", hang);
        let consequence = "was not called, because nvmlDeviceGetBrand did not return within 10 s";
        it.gpus[0].memory = failed("nvmlDeviceGetMemoryInfo", consequence);
    });
    assert_eq!(
        found,
        [(
            "gpu-unreadable",
            Severity::Warning,
            "nvmlDeviceGetBrand did not return within 10 s".to_owned()
        )]
    );
}

#[test]
fn of_calls_that_were_not_made_one_is_reported() {
    let found = found(|it| {
        // The UUID is that of /proc.
        let consequence = "was not called, because nvmlDeviceGetUUID did not return within 10 s";
        it.gpus[0].memory = failed("nvmlDeviceGetMemoryInfo", consequence);
        it.gpus[0].brand = failed("nvmlDeviceGetBrand", consequence);
    });
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].2, "nvmlDeviceGetUUID did not return within 10 s");
}

#[test]
fn a_gpu_without_uuid_cannot_be_given_to_a_container() {
    let found = found(|it| it.gpus[0].uuid = failed("nvmlDeviceGetUUID", "returned 15"));
    let evidence = "it has no UUID: nvmlDeviceGetUUID returned 15".to_owned();
    assert_eq!(found, [("gpu-without-identity", Severity::Error, evidence)]);
}

#[test]
fn without_nvml_a_gpu_without_uuid_is_only_an_info() {
    let uninitialised = |it: &mut Inventory| {
        it.gpus[0].index = Fact::Absent;
        it.gpus[0].uuid = failed("/proc/information", "has no UUID");
    };
    let not_called = found(|it| {
        it.driver.gpu_count = Fact::Absent;
        uninitialised(it);
    });
    let evidence = "without NVML, it has no UUID: /proc/information has no UUID".to_owned();
    assert_eq!(
        not_called,
        [("gpu-without-identity", Severity::Info, evidence)]
    );
    let fails = found(|it| {
        it.driver.gpu_count = failed("nvmlInitWithFlags", "returned 999");
        uninitialised(it);
    });
    let severities: Vec<_> = fails.iter().map(|it| (it.0, it.1)).collect();
    assert_eq!(
        severities,
        [
            ("gpu-nvml-failed", Severity::Error),
            ("gpu-without-identity", Severity::Info)
        ]
    );
}

#[test]
fn a_recovery_action_is_named_even_if_its_number_is_unknown() {
    for (action, name) in [(1, "Reset"), (2, "Reboot"), (77, "number 77")] {
        let found = found(|it| it.gpus[0].recovery_action = Fact::Known(action));
        assert_eq!(found[0].0, "gpu-needs-recovery");
        assert!(found[0].2.ends_with(name), "{}", found[0].2);
    }
}

#[test]
fn a_mig_mode_that_waits_for_a_reset_is_reported() {
    let ids = ids(|it| {
        it.gpus[0].mig = Fact::Known(MigFacts {
            pending: true,
            ..MigFacts::default()
        });
    });
    assert_eq!(ids, ["gpu-mig-pending"]);
}

#[test]
fn a_mig_device_that_only_dra_drivers_do_not_give_is_an_info() {
    let found = found(|it| {
        let device = MigDevice {
            uuid: "MIG-1".to_owned(),
            gpu_instance: GpuInstance {
                id: 1,
                profile: 99,
                placement: Placement { start: 0, size: 1 },
            },
            compute_instance: 0,
            compute_profile: 0,
        };
        it.gpus[0].mig = Fact::Known(MigFacts {
            enabled: true,
            pending: true,
            devices: vec![Fact::Absent, Fact::Known(device)],
            ..MigFacts::default()
        });
    });
    let evidence =
        "MIG device MIG-1 has the unknown profile 99: DRA drivers do not publish it".to_owned();
    assert_eq!(found, [("mig-device-unusable", Severity::Info, evidence)]);
}

#[test]
fn a_gpu_in_mig_mode_without_mig_devices_is_an_info() {
    let found = |pending| {
        found(|it| {
            it.gpus[0].mig = Fact::Known(MigFacts {
                enabled: true,
                pending,
                ..MigFacts::default()
            });
        })
    };
    let [(id, severity, _)] = &found(true)[..] else {
        panic!("one finding");
    };
    assert_eq!(
        (*id, *severity),
        ("gpu-mig-without-devices", Severity::Info)
    );
    // Only the next reset is reported.
    assert_eq!(found(false)[0].0, "gpu-mig-pending");
    assert_eq!(found(false).len(), 1);
}

/// The diagnosis of a host with this change.
fn diagnosis(change: impl FnOnce(&mut Facts)) -> Diagnosis {
    let empty = tempfile::tempdir().unwrap();
    let host = Host::open(empty.path()).unwrap();
    let mut facts = Facts::read(&host, &Options::default());
    facts.driver.library = Some("/usr/lib64/libnvidia-ml.so.580.82.07".to_owned());
    facts.driver.rejected = None;
    facts.gpus = healthy();
    facts.channels.major = Ok(imex_cdi::Major::new(235).unwrap());
    facts.fabric = fabric(Fabric::from_gpus(&[nvmls(0, GpuFabricState::NotSupported)]));
    change(&mut facts);
    diagnose(&facts, &Invocation::default())
}

fn fabric(fabric: Fabric) -> FabricFacts {
    FabricFacts::Read {
        fabric,
        gpus: None,
        health_unknown: 0,
    }
}

fn nvmls(index: u32, fabric: GpuFabricState) -> Gpu {
    Gpu {
        id: GpuRef { index, uuid: None },
        name: None,
        fabric,
        health: None,
    }
}

/// The ids above info of a host with this change.
fn bad(change: impl FnOnce(&mut Facts)) -> Vec<&'static str> {
    let findings = diagnosis(change).findings.into_iter();
    let bad = findings.filter(|it| it.severity > Severity::Info);
    bad.map(|it| it.id).collect()
}

fn lost() -> NvmlFailure {
    NvmlFailure::Returned {
        call: "nvmlDeviceGetUUID",
        code: NvmlCode::GPU_IS_LOST,
    }
}

#[test]
fn an_area_has_the_findings_and_the_numbers_of_gpus() {
    let whole = diagnosis(|_| {});
    let area = &whole.areas[1];
    assert_eq!((area.name, area.summary.as_str()), ("gpus", "1 GPU"));
    assert_eq!(whole.findings.iter().find(|it| it.area == "gpus"), None);

    let ids = bad(|it| it.gpus.gpus[0].recovery_action = Fact::Known(1));
    assert_eq!(ids, ["gpu-needs-recovery"]);
}

// req: DOCTOR-13
#[test]
fn without_the_module_only_the_area_of_the_driver_has_a_finding() {
    let module = bad(|it| {
        it.gpus.driver.module = Fact::Absent;
        it.gpus.driver.gpu_count = failed("nvmlInitWithFlags", "returned 9");
        it.gpus.gpus[0].index = Fact::Absent;
        it.fabric = FabricFacts::OtherRoot;
    });
    assert_eq!(module, ["nvidia-module-not-loaded"]);
}

// req: DOCTOR-13
#[test]
fn nvml_that_fails_as_a_whole_is_reported_once() {
    let fails = |it: &mut Facts| {
        it.gpus.driver.gpu_count = failed("nvmlInitWithFlags", "returned 999");
        it.gpus.gpus[0].index = Fact::Absent;
    };
    for (facts, id) in [
        (FabricFacts::OtherRoot, "gpu-nvml-failed"),
        (fabric(Fabric::NvmlFailed(lost())), "nvml-error"),
        (
            fabric(Fabric::NoAnswer {
                waited: Duration::from_secs(10),
                call: None,
            }),
            "nvml-no-answer",
        ),
    ] {
        let ids = bad(|it| {
            fails(it);
            it.fabric = facts;
        });
        assert_eq!(ids, [id]);
    }
    let missing = bad(|it| {
        fails(it);
        let empty = tempfile::tempdir().unwrap();
        let root = nvml_clique::DriverRoot::new(empty.path().join("none"));
        it.driver.rejected = root.find_library().err();
        it.driver.library = None;
        it.fabric = FabricFacts::NoLibrary;
    });
    assert_eq!(missing, ["nvml-missing"]);
}

// req: DOCTOR-13
#[test]
fn library_and_module_of_two_versions_are_reported_once() {
    let ids = bad(|it| it.gpus.driver.module = Fact::Known("570.1".to_owned()));
    assert_eq!(ids, ["driver-version-mismatch"]);
    let plain = bad(|it| {
        it.driver.library = Some("/usr/lib64/libnvidia-ml.so.1".to_owned());
        it.gpus.driver.module = Fact::Known("570.1".to_owned());
    });
    assert_eq!(plain, ["driver-version-mismatch"]);
}

// req: DOCTOR-13
#[test]
fn an_unreadable_list_of_devices_is_reported_once() {
    let unreadable = || failed(PROC_DEVICES, "cannot be read");
    let alone = bad(|it| it.gpus.host.majors = unreadable());
    assert_eq!(alone, ["driver-unreadable"]);
    let with_channels = bad(|it| {
        it.gpus.host.majors = unreadable();
        it.channels.capability = Ok(crate::facts::CapabilityFacts {
            minor: 1,
            major: None,
            node: Ok(None),
        });
        it.channels.major = Err(ErrorFacts {
            code: "device-list-unreadable",
            message: io::Error::from(io::ErrorKind::PermissionDenied).to_string(),
            hint: String::new(),
        });
    });
    assert_eq!(with_channels, ["device-list-unreadable"]);
}

// req: DOCTOR-13
#[test]
fn a_gpu_that_the_area_of_the_fabric_names_is_reported_once() {
    let fails = |index| {
        bad(|it| {
            it.gpus.gpus[0].memory = Fact::Failed(lost().into());
            let state = GpuFabricState::Unreadable(lost());
            it.fabric = fabric(Fabric::from_gpus(&[nvmls(index, state)]));
        })
    };
    // Both areas have this id.
    assert_eq!(fails(0), ["gpu-unreadable"]);
    assert_eq!(fails(1), ["gpu-unreadable", "gpu-unreadable"]);
}

// req: DOCTOR-13
#[test]
fn a_gpu_that_hangs_is_named_where_nvml_does_not_answer() {
    let hangs = |it: &mut Facts| {
        it.gpus.gpus[0].name = failed("nvmlDeviceGetName", "did not return within 10 s");
    };
    assert_eq!(bad(hangs), ["gpu-unreadable"]);
    let diagnosis = diagnosis(|it| {
        hangs(it);
        it.fabric = fabric(Fabric::NoAnswer {
            waited: Duration::from_secs(10),
            call: Some("nvmlDeviceGetName"),
        });
    });
    let first = &diagnosis.findings[0];
    assert_eq!(first.id, "nvml-no-answer");
    assert_eq!(diagnosis.areas[1].summary, "1 GPU, 1 unreadable");
    let end = "; GPU 0000:65:00.0: nvmlDeviceGetName did not return within 10 s";
    assert!(first.evidence.ends_with(end), "{}", first.evidence);
    let mut others = diagnosis.findings.iter().skip(1);
    assert!(others.all(|it| it.severity == Severity::Info));
}

// req: DOCTOR-2
#[test]
fn a_gpu_that_nvml_does_not_see_precedes_the_fabric_without_gpus() {
    let ids = bad(|it| {
        it.gpus.gpus[0].index = Fact::Absent;
        it.gpus.driver.gpu_count = Fact::Known(0);
        it.fabric = fabric(Fabric::from_gpus(&[]));
    });
    assert_eq!(ids, ["gpu-not-enumerated", "no-gpus"]);
}

/// The majors of these drivers.
fn majors(names: &[&str]) -> Fact<BTreeMap<String, u32>> {
    let majors = names.iter().map(|name| ((*name).to_owned(), 195));
    Fact::Known(majors.collect())
}

/// What containers with GPUs lack.
fn of_containers(change: impl FnOnce(&mut Facts)) -> Vec<(&'static str, Severity)> {
    let diagnosis = diagnosis(|it| {
        it.gpus.host.majors = majors(&["nvidia"]);
        it.driver.container_files = Some(ContainerFiles {
            root: "/run/nvidia/driver".to_owned(),
            problems: vec![ErrorFacts {
                code: "driver-library-missing",
                message: "libcuda.so.580.82.07 was not found in the driver root".to_owned(),
                hint: "install the driver completely".to_owned(),
            }],
        });
        change(it);
    });
    let findings = diagnosis.findings.into_iter();
    let bad = findings.filter(|it| it.area == "gpus" && it.severity > Severity::Info);
    bad.map(|it| (it.id, it.severity)).collect()
}

// req: DOCTOR-16
#[test]
fn what_every_container_with_a_gpu_needs_is_examined() {
    let file = ("driver-library-missing", Severity::Warning);
    assert_eq!(of_containers(|_| {}), [file]);
    let loaded = of_containers(|it| it.gpus.host.majors = majors(&["nvidia", "nvidia-uvm"]));
    assert_eq!(loaded, [file]);
    let with_plugin = of_containers(|it| {
        let facts = &mut it.claims[0];
        facts.root.driver = crate::DraDriver::Gpu;
        facts.root.has_plugin = Some(true);
        facts.is_registered = Some(true);
    });
    let node = ("gpu-common-node-missing", Severity::Error);
    assert_eq!(with_plugin, [node, file]);
}

// req: DOCTOR-13
// req: DOCTOR-16
#[test]
fn what_containers_lack_is_left_out_without_gpus_or_if_its_cause_is_reported() {
    assert_eq!(of_containers(|it| it.gpus.gpus.clear()), []);
    let passed_through = of_containers(|it| {
        it.gpus.gpus[0].index = Fact::Absent;
        it.gpus.gpus[0].pci_driver = Fact::Known("vfio-pci".to_owned());
    });
    assert_eq!(passed_through, []);
    let other_version = |library: &str| {
        of_containers(|it| {
            it.gpus.host.majors = Fact::Absent;
            it.driver.library = Some(library.to_owned());
            it.gpus.driver.module = Fact::Known("570.1".to_owned());
        })
    };
    assert_eq!(other_version("/usr/lib64/libnvidia-ml.so.580.82.07"), []);
    let of_nvml = ("driver-version-mismatch", Severity::Error);
    assert_eq!(other_version("/usr/lib64/libnvidia-ml.so.1"), [of_nvml]);
    let no_module = of_containers(|it| {
        it.gpus.driver.module = Fact::Absent;
        it.gpus.gpus[0].index = Fact::Absent;
    });
    assert_eq!(no_module, []);
}
