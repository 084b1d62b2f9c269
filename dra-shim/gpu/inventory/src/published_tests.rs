use super::device::version;
use super::*;

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
