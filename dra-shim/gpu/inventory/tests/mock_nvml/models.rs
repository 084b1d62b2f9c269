//! The GPUs of many models: read as they are, and published.

use std::fs;

use gpu_inventory::published::{Attribute, published};
use gpu_inventory::{Fact, Inventory};
use serde_json::Value;

use crate::host::{GIVE_UP, Host, inventories, inventory};

fn names() -> Vec<String> {
    let files = fs::read_dir(inventories()).unwrap();
    let name = |file: fs::DirEntry| {
        file.path()
            .file_stem()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    };
    let mut names: Vec<_> = files.map(|file| name(file.unwrap())).collect();
    names.sort();
    names
}

/// The names of the published devices, and the number of those that are not.
fn devices(inventory: &Inventory) -> (Vec<String>, usize) {
    let published = published(inventory);
    let names = published.devices.into_iter().map(|device| device.name);
    (names.collect(), published.skipped.len())
}

#[test]
fn a_host_of_each_model_is_read_as_it_is() {
    for name in names() {
        let host = inventory(&name);
        let read = Host::new(&host).read(GIVE_UP);
        assert_eq!(read, host, "{name}");
    }
}

#[test]
fn the_files_of_inventories_have_no_unknown_member() {
    for name in names() {
        let path = inventories().join(format!("{name}.json"));
        let mut file: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        for note in ["_sources", "_invented"] {
            let found = file.as_object_mut().unwrap().remove(note);
            assert!(found.is_some(), "{name} has no {note}");
        }
        let all = serde_json::to_value(inventory(&name)).unwrap();
        assert_contains(&all, &file, &name);
    }
}

/// Checks that every member of `part` is in `whole`.
fn assert_contains(whole: &Value, part: &Value, at: &str) {
    match part {
        Value::Object(members) => {
            for (key, value) in members {
                assert_contains(&whole[key], value, &format!("{at}.{key}"));
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                assert_contains(&whole[index], value, &format!("{at}[{index}]"));
            }
        }
        value => assert_eq!(&whole, &value, "{at}"),
    }
}

// req: GPU-4
#[test]
fn each_model_is_published_and_an_unsupported_property_costs_only_itself() {
    for name in names().iter().filter(|name| *name != "h100-mig") {
        let host = inventory(name);
        let expected = (0..host.gpus.len()).map(|minor| format!("gpu-{minor}"));
        assert_eq!(devices(&host), (expected.collect(), 0), "{name}");
    }
    let gb10 = &published(&inventory("gb10")).devices[0];
    assert!(gb10.capacity.is_empty());
    assert_eq!(
        gb10.attributes["addressingMode"],
        Attribute::Text("ATS".into())
    );
    let newer = &published(&inventory("gb10-newer")).devices[0];
    assert!(newer.capacity.is_empty(), "the memory is the host's");
    let rubin = &published(&inventory("rubin")).devices[0];
    assert_eq!(
        rubin.attributes["architecture"],
        Attribute::Text("Rubin".into())
    );
    assert_eq!(rubin.attributes["brand"], Attribute::Text("Unknown".into()));
}

// req: GPU-5
#[test]
fn a_gpu_has_the_attributes_of_nvidias_driver() {
    let h100 = &published(&inventory("h100")).devices[0];
    let attributes: Vec<_> = h100
        .attributes
        .iter()
        .map(|(name, value)| match value {
            Attribute::Text(text) => format!("{name}: {text}"),
            Attribute::Version(version) => format!("{name}: version {version}"),
            Attribute::Int(number) => format!("{name}: {number}"),
        })
        .collect();
    assert_eq!(
        attributes,
        [
            "addressingMode: None",
            "architecture: Hopper",
            "brand: Nvidia",
            "cudaComputeCapability: version 9.0.0",
            "cudaDriverVersion: version 13.0.0",
            "driverVersion: version 580.82.7",
            "productName: NVIDIA H100 80GB HBM3",
            "resource.kubernetes.io/numaNode: 0",
            "resource.kubernetes.io/pciBusID: 0000:18:00.0",
            "resource.kubernetes.io/pcieRoot: pci0000:18",
            "type: gpu",
            "uuid: GPU-00000000-0000-4000-8000-000000000000",
        ]
    );
    assert_eq!(
        h100.capacity.clone().into_iter().collect::<Vec<_>>(),
        [("memory".to_owned(), 81559 << 20)]
    );
}

#[test]
fn a_gpu_with_mig_mode_is_published_as_its_mig_devices_only() {
    let host = inventory("h100-mig");
    let expected = [
        "gpu-0-mig-1g10gb-19-0",
        "gpu-0-mig-1g10gb-19-1",
        "gpu-0-mig-2g20gb-14-2",
        "gpu-0-mig-3g40gb-9-4",
        "gpu-2",
    ];
    let (names, skipped) = devices(&host);
    assert_eq!(names, expected);
    assert_eq!(
        skipped, 2,
        "a compute instance with a part of its GPU instance, and a GPU without MIG devices"
    );

    let third = &published(&host).devices[3];
    assert_eq!(
        third.attributes["profile"],
        Attribute::Text("3g.40gb".into())
    );
    assert_eq!(
        third.attributes["parentUUID"],
        Attribute::Text("GPU-00000000-0000-4000-8000-000000000000".into())
    );
    let slices = third
        .capacity
        .keys()
        .filter(|key| key.starts_with("memorySlice"));
    assert_eq!(
        slices.collect::<Vec<_>>(),
        [
            "memorySlice4",
            "memorySlice5",
            "memorySlice6",
            "memorySlice7"
        ]
    );
    assert_eq!(third.capacity["memory"], 40448 << 20);
    assert_eq!(third.capacity["multiprocessors"], 60);
}

#[test]
fn mig_devices_keep_their_indices_after_one_is_destroyed() {
    let mut host = inventory("h100-mig");
    let Fact::Known(mig) = &mut host.gpus[0].mig else {
        panic!("MIG is on");
    };
    mig.devices[1] = Fact::Absent;
    let read = Host::new(&host).read(GIVE_UP);
    assert_eq!(read, host);
    let published = published(&read);
    assert_eq!((published.devices.len(), published.skipped.len()), (4, 2));
}

// req: GPU-6
#[test]
fn a_mig_device_with_an_unknown_profile_costs_only_itself() {
    let mut host = inventory("h100-mig");
    let Fact::Known(mig) = &mut host.gpus[0].mig else {
        panic!("MIG is on");
    };
    let Fact::Known(first) = &mut mig.devices[0] else {
        panic!("it is readable");
    };
    first.gpu_instance.profile = 99;
    let read = Host::new(&host).read(GIVE_UP);
    assert_eq!(read, host);
    let published = published(&read);
    assert_eq!(published.devices.len(), 4);
    let reasons: Vec<_> = published.skipped.iter().map(ToString::to_string).collect();
    assert_eq!(
        reasons[0],
        "GPU 0000:18:00.0: MIG device MIG-00000000-0000-5000-8000-000000000001 has the unknown profile 99"
    );
}

// req: GPU-3
#[test]
fn a_gpu_that_nvml_does_not_enumerate_is_in_the_inventory() {
    let mut host = inventory("h100");
    let all = Host::new(&host);
    host.gpus[2].index = Fact::Absent;
    host.driver.gpu_count = Fact::Known(7);
    // The others have the indices of seven GPUs.
    for (index, gpu) in (2_u32..).zip(&mut host.gpus[3..]) {
        gpu.index = Fact::Known(index);
    }
    let seven = serde_json::to_string(&host).unwrap();
    all.write("usr/lib64/inventory.json", &seven);
    all.inject(&serde_json::json!({}));
    let read = all.read(GIVE_UP);
    assert_eq!(read.gpus.len(), 8);
    let lost = &read.gpus[2];
    assert_eq!((&lost.index, &lost.memory), (&Fact::Absent, &Fact::Absent));
    assert_eq!(lost.minor, Fact::Known(2));
    assert_eq!(lost.uuid, host.gpus[2].uuid);
    assert_eq!(lost.pci_driver, Fact::Known("nvidia".to_owned()));
    let skipped = published(&read).skipped;
    assert_eq!(
        skipped[0].to_string(),
        "GPU 0000:38:00.0: NVML does not enumerate it"
    );
}

#[test]
fn without_a_driver_the_gpus_of_sysfs_are_left() {
    let host = Host::new(&inventory("l4"));
    for path in ["usr", "proc/driver"] {
        host.remove(path);
    }
    let read = host.read(GIVE_UP);
    assert_eq!(read.driver.module, Fact::Absent);
    let reason = read.driver.gpu_count.failure().unwrap().to_string();
    assert!(
        reason.starts_with("NVML: libnvidia-ml.so.1 was not found in "),
        "{reason}"
    );
    assert_eq!(read.gpus.len(), 1);
    assert_eq!(read.gpus[0].device_id, Fact::Known(0x27b8));
    assert_eq!(read.gpus[0].minor, Fact::Absent);
    assert_eq!(devices(&read), (vec![], 1));
}
