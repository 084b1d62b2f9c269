use std::collections::BTreeMap;

use dra_kubelet::Health;
use gpu_inventory::published::{Attribute, Device};

use super::*;
use crate::node_gpus::DeviceState::{Lost, NoDriver, Present};

fn mk_gpu(name: &str, uuid: &str, state: DeviceState) -> KnownDevice {
    let text = |text: &str| Attribute::Text(text.to_owned());
    KnownDevice {
        device: Device {
            name: name.to_owned(),
            attributes: BTreeMap::from([("uuid", text(uuid)), ("type", text("gpu"))]),
            capacity: BTreeMap::from([("memory".to_owned(), 80 << 30)]),
        },
        state,
        instance: None,
    }
}

fn mk_gpus(devices: Vec<KnownDevice>) -> NodeGpus {
    NodeGpus {
        is_read: true,
        devices,
        ..NodeGpus::default()
    }
}

fn no_faults() -> HealthReport {
    HealthReport::default()
}

/// The devices gpu-0 to gpu-3 of the GPUs a to d.
fn mk_four(states: [DeviceState; 4]) -> NodeGpus {
    let devices = ["a", "b", "c", "d"].into_iter().zip(states).enumerate();
    let devices =
        devices.map(|(index, (uuid, state))| mk_gpu(&format!("gpu-{index}"), uuid, state));
    mk_gpus(devices.collect())
}

/// Name and taints of the published devices.
fn published(pool: &DesiredPool) -> Vec<(String, Vec<String>)> {
    let DesiredPool::Devices(devices) = pool else {
        panic!("{pool:?}")
    };
    let taints = |taints: &[DeviceTaint]| taints.iter().map(|it| it.key.clone()).collect();
    devices
        .iter()
        .map(|it| {
            (
                it.name.clone(),
                taints(it.taints.as_deref().unwrap_or_default()),
            )
        })
        .collect()
}

// req: GPU-39
#[test]
fn nothing_is_published_before_the_first_reading_and_nothing_without_a_driver_from_the_start() {
    let none = BTreeSet::new();
    assert_eq!(
        desired_pool(
            &NodeGpus::default(),
            &no_faults(),
            &none,
            false,
            ConsumableShares::Disabled
        ),
        DesiredPool::Undecided
    );
    let mut gpus = mk_gpus(Vec::new());
    assert_eq!(
        desired_pool(
            &gpus,
            &no_faults(),
            &none,
            false,
            ConsumableShares::Disabled
        ),
        DesiredPool::Devices(Vec::new())
    );
    gpus.no_driver = Some("not loaded".to_owned());
    assert_eq!(
        desired_pool(
            &gpus,
            &no_faults(),
            &none,
            false,
            ConsumableShares::Disabled
        ),
        DesiredPool::Withdrawn
    );
}

// req: GPU-39, GPU-41
#[test]
fn lost_unloaded_and_renamed_devices_have_taints_and_are_left_out_where_taints_are_dropped() {
    let gpus = mk_four([Present, Lost, NoDriver, Present]);
    let renamed = BTreeSet::from(["gpu-3".to_owned()]);
    let pool = desired_pool(
        &gpus,
        &no_faults(),
        &renamed,
        false,
        ConsumableShares::Disabled,
    );
    let taints = |keys: &[&str]| keys.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        published(&pool),
        [
            ("gpu-0".to_owned(), taints(&[])),
            ("gpu-1".to_owned(), taints(&["gpu.nvidia.com/gpu-lost"])),
            ("gpu-2".to_owned(), taints(&["imex-dra/no-driver"])),
            ("gpu-3".to_owned(), taints(&["imex-dra/renamed"])),
        ]
    );
    let pool = desired_pool(
        &gpus,
        &no_faults(),
        &renamed,
        true,
        ConsumableShares::Disabled,
    );
    assert_eq!(published(&pool), [("gpu-0".to_owned(), taints(&[]))]);
    let healthy: Vec<_> = health("node-a", &gpus, &no_faults())
        .into_iter()
        .map(|it| it.health == Health::Healthy)
        .collect();
    assert_eq!(healthy, [true, false, false, true]);
}

// req: GPU-55
#[test]
fn an_event_says_that_the_api_server_does_not_store_shares() {
    let gpus = mk_gpus(vec![mk_gpu("gpu-0", "a", DeviceState::Present)]);
    let text = describe(&gpus, &no_faults(), &BTreeSet::new(), true);
    assert!(
        text.contains("feature gate DRAConsumableCapacity"),
        "{text}"
    );
    assert_eq!(
        describe(&gpus, &no_faults(), &BTreeSet::new(), false),
        "devices: gpu-0"
    );
}

// req: GPU-44, GPU-45
#[test]
fn faults_are_taints_and_those_that_keep_claims_away_make_a_device_unhealthy() {
    let gpus = mk_four([Present, Present, Lost, Present]);
    let mut state = crate::health::Health::default();
    for (gpu, code, action) in [("a", 79, 1), ("b", 31, 0), ("c", 79, 1)] {
        state.xid(gpu, crate::health::Place::default(), code, 5);
        state.action(gpu, &gpu_inventory::Fact::Known(action), 5);
    }
    let faults = state.report(5);
    let none = BTreeSet::new();
    let xid = |value: &str, effect: &str| DeviceTaint {
        key: "gpu.nvidia.com/xid".to_owned(),
        value: Some(value.to_owned()),
        effect: effect.to_owned(),
        time_added: None,
    };
    let DesiredPool::Devices(devices) =
        desired_pool(&gpus, &faults, &none, false, ConsumableShares::Disabled)
    else {
        panic!("devices are known");
    };
    let taints = |index: usize| devices[index].taints.clone().unwrap_or_default();
    assert_eq!(taints(0), [xid("79", "NoSchedule")]);
    assert_eq!(taints(1), [xid("31", "None")]);
    assert_eq!(taints(2).len(), 2, "each of its reasons");
    assert_eq!(taints(3), []);
    // A taint that only informs is no reason to leave the device out.
    let pool = desired_pool(&gpus, &faults, &none, true, ConsumableShares::Disabled);
    let names: Vec<_> = published(&pool).into_iter().map(|it| it.0).collect();
    assert_eq!(names, ["gpu-1", "gpu-3"]);

    let messages: Vec<_> = health("node-a", &gpus, &faults)
        .into_iter()
        .map(|it| (it.health == Health::Healthy, it.message))
        .collect();
    let expected = [
        (false, "XID 79; recovery action: Reset"),
        (true, ""),
        (false, "the driver does not answer for this GPU any more"),
        (true, ""),
    ];
    assert_eq!(messages, expected.map(|it| (it.0, it.1.to_owned())));
    let text = describe(&gpus, &faults, &none, false);
    let unhealthy = "unhealthy: gpu-0 (XID 79; recovery action: Reset)";
    assert!(text.contains(unhealthy), "{text}");
}
