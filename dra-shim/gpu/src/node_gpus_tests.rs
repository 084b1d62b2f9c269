use gpu_inventory::{Fact, Inventory, PciAddress};

use super::*;

fn mk_inventory(name: &str) -> Inventory {
    let path = format!(
        "{}/inventory/tests/inventories/{name}.json",
        env!("CARGO_MANIFEST_DIR")
    );
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn next(before: &NodeGpus, inventory: &Inventory) -> NodeGpus {
    let host = HostGpus::new(
        inventory,
        Err("no files in this test".to_owned()),
        &gpu_node::HostPaths {
            proc: std::path::Path::new("/nonexistent"),
            runtime: nvidia_driver_files::RuntimePaths {
                driver_root: "/",
                hook: "/hook",
            },
            params: imex_cdi::DriverParams::default(),
        },
    );
    before.next(inventory, host, Vec::new())
}

fn in_state(gpus: &NodeGpus, state: DeviceState) -> Vec<&str> {
    let devices = gpus.devices.iter().filter(|it| it.state == state);
    devices.map(|it| it.device.name.as_str()).collect()
}

fn failed<T>() -> Fact<T> {
    Fact::Failed(nvml_session::Failure::new("nvmlInit", "Driver Not Loaded"))
}

// req: GPU-39
#[test]
fn a_gpu_that_does_not_answer_any_more_is_lost_and_one_never_seen_is_not_published() {
    let whole = mk_inventory("h100");
    let mut broken = whole.clone();
    // NVML does not enumerate it; the driver's files still have it.
    broken.gpus[3].index = Fact::Absent;
    let after = next(&next(&NodeGpus::default(), &whole), &broken);
    assert_eq!(in_state(&after, DeviceState::Lost), ["gpu-3"]);
    assert_eq!(in_state(&after, DeviceState::Present).len(), 7);
    assert_eq!(after.devices[3].device.name, "gpu-3", "it keeps its place");
    assert!(after.has_problem() && after.describe().contains("lost: gpu-3"));
    let back = next(&after, &whole);
    assert_eq!(back, next(&NodeGpus::default(), &whole));

    let first = next(&NodeGpus::default(), &broken);
    assert_eq!(in_state(&first, DeviceState::Lost), [""; 0]);
    assert!(
        first.skipped[0].contains("0000:48:00.0"),
        "{:?}",
        first.skipped
    );
    broken.gpus.remove(3);
    let pulled = next(&next(&NodeGpus::default(), &whole), &broken);
    assert_eq!(in_state(&pulled, DeviceState::Lost), ["gpu-3"]);
}

// req: GPU-39
#[test]
fn without_the_driver_all_devices_stay_and_none_can_be_given() {
    let whole = mk_inventory("h100");
    let mut unloaded = Inventory::default();
    unloaded.driver.gpu_count = failed();
    let before = next(&NodeGpus::default(), &whole);
    let after = next(&before, &unloaded);
    assert_eq!(in_state(&after, DeviceState::NoDriver).len(), 8);
    assert_eq!(after.host, None);
    assert!(
        after.describe().contains("kernel module is not loaded"),
        "{}",
        after.describe()
    );
    assert_eq!(next(&after, &whole), before);
    assert_eq!(next(&NodeGpus::default(), &unloaded).devices, []);
}

#[test]
fn a_gpu_that_is_given_to_a_virtual_machine_or_to_mig_is_not_lost() {
    let whole = mk_inventory("h100");
    let before = next(&NodeGpus::default(), &whole);
    let mut changed = whole.clone();
    changed.gpus[1].index = Fact::Absent;
    changed.gpus[1].minor = Fact::Absent;
    changed.gpus[1].pci_driver = Fact::Known("vfio-pci".to_owned());
    if let Fact::Known(mig) = &mut changed.gpus[2].mig {
        mig.enabled = true;
    }
    let after = next(&before, &changed);
    assert_eq!(
        in_state(&after, DeviceState::Lost),
        [""; 0],
        "{}",
        after.describe()
    );
    assert_eq!(in_state(&after, DeviceState::Present).len(), 6);
}

#[test]
fn a_name_is_never_published_twice() {
    let whole = mk_inventory("h100");
    let before = next(&NodeGpus::default(), &whole);
    // The driver was loaded without one GPU, and the minors after it have changed.
    let mut fewer = whole.clone();
    fewer.gpus.remove(3);
    for (minor, gpu) in fewer.gpus.iter_mut().enumerate() {
        gpu.minor = Fact::Known(u32::try_from(minor).unwrap());
    }
    let after = next(&before, &fewer);
    let mut names: Vec<_> = after.devices.iter().map(|it| &it.device.name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), after.devices.len());
    assert!("0000:48:00.0".parse::<PciAddress>().is_ok());
}

// req: GPU-65
#[test]
fn a_device_is_gone_only_if_everything_that_may_be_it_was_read() {
    let layout = mk_inventory("h100-mig");
    let gpu = layout.gpus[0].uuid.known().unwrap();
    let mig = |number: u32| format!("MIG-00000000-0000-5000-8000-{number:012}");
    let may_have = |change: fn(&mut Inventory)| {
        let mut inventory = layout.clone();
        change(&mut inventory);
        let gpus = next(&NodeGpus::default(), &inventory);
        gpus.may_have(&mig(9), gpu)
    };
    let gpus = next(&NodeGpus::default(), &layout);
    assert!(gpus.may_have(&mig(1), gpu));
    assert!(!may_have(|_| {}));
    assert!(may_have(|it| it.gpus[0].mig = failed()));
    assert!(!may_have(|it| it.gpus[1].mig = failed()), "another GPU");
    assert!(may_have(|it| {
        if let Fact::Known(mig) = &mut it.gpus[0].mig {
            mig.devices.push(failed());
        }
    }));
    assert!(may_have(|it| it.gpus[1].uuid = failed()));
    assert!(!may_have(|it| {
        it.gpus[1].uuid = Fact::Absent;
        it.gpus[1].pci_driver = Fact::Known("vfio-pci".to_owned());
    }));
}
