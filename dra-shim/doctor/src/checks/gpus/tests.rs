use gpu_inventory::MigFacts;

use super::*;
use crate::finding::Severity;

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
fn a_gpu_without_uuid_cannot_be_given_to_a_container() {
    let ids = ids(|it| it.gpus[0].uuid = failed("nvmlDeviceGetUUID", "returned 15"));
    assert_eq!(ids, ["gpu-without-identity", "gpu-unreadable"]);
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
