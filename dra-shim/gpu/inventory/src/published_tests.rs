use super::device::version;
use super::*;
use crate::facts::MigFacts;

#[test]
fn a_version_has_three_numbers_without_leading_zeros() {
    let cases = [
        ("580.105.08", "580.105.8"),
        ("595.10", "595.10.0"),
        ("9.0", "9.0.0"),
        ("13", "13.0.0"),
        ("1.2.3.4", "1.2.3"),
        ("000.00.1", "0.0.1"),
    ];
    for (given, expected) in cases {
        assert_eq!(version(given), Attribute::Version(expected.to_owned()));
    }
}

#[test]
fn memory_that_is_the_hosts_is_not_the_gpus_own() {
    let mut inventory = Inventory::default();
    inventory.host.memory = Fact::Known(128 << 30);
    let memory = |bytes| {
        let memory = Fact::Known(bytes);
        let gpu = GpuFacts {
            memory,
            ..GpuFacts::default()
        };
        own_memory(&inventory, &gpu)
    };
    assert_eq!(memory(80 << 30), Some(80 << 30));
    assert_eq!(memory(128 << 30), None);
    assert_eq!(memory((128 << 30) - 4096), None);
    assert_eq!(
        memory((128 << 30) - (2 << 20)),
        Some((128 << 30) - (2 << 20))
    );
    assert_eq!(memory(0), None);
}

#[test]
fn a_display_adapter_is_neither_published_nor_reported() {
    let mut inventory = Inventory::default();
    inventory.gpus.push(GpuFacts {
        name: Fact::Known("NVIDIA DGX Display".to_owned()),
        ..GpuFacts::default()
    });
    assert_eq!(published(&inventory), Published::default());
}

// req: GPU-5
#[test]
fn a_gpu_in_mig_mode_or_in_an_unknown_one_is_not_published_whole_and_the_reason_is_reported() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/inventories/h100.json");
    let whole: Inventory = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let with_mig = |mig| {
        let mut inventory = whole.clone();
        inventory.gpus[3].mig = mig;
        published(&inventory)
    };
    assert_eq!(with_mig(Fact::Absent).devices.len(), 8);
    let unknown = with_mig(Fact::Failed(nvml_session::Failure::new(
        "nvmlDeviceGetMigMode",
        "GPU is lost",
    )));
    let without_devices = with_mig(Fact::Known(MigFacts {
        enabled: true,
        ..MigFacts::default()
    }));
    for (published, reason) in [
        (unknown, "whether it is in MIG mode is unknown"),
        (without_devices, "it is in MIG mode and has no MIG devices"),
    ] {
        assert_eq!(published.devices.len(), 7);
        assert!(published.devices.iter().all(|it| it.name != "gpu-3"));
        let [skipped] = &published.skipped[..] else {
            panic!("{:?}", published.skipped);
        };
        assert!(skipped.reason.starts_with(reason), "{skipped}");
    }
}
