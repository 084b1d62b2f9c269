use std::collections::BTreeMap;

use dra_kubelet::ClaimRef;
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

fn mk_state(devices: Vec<KnownDevice>) -> NodeState {
    NodeState {
        gpus: NodeGpus {
            is_read: true,
            devices,
            ..NodeGpus::default()
        },
        faults: Some(Arc::default()),
        ..NodeState::default()
    }
}

/// The devices gpu-0 to gpu-3 of the GPUs a to d.
fn mk_four(states: [DeviceState; 4]) -> NodeState {
    let devices = ["a", "b", "c", "d"].into_iter().zip(states).enumerate();
    let devices =
        devices.map(|(index, (uuid, state))| mk_gpu(&format!("gpu-{index}"), uuid, state));
    mk_state(devices.collect())
}

/// Name and taints of the published devices.
fn published(state: &NodeState) -> Vec<(String, Vec<DeviceTaint>)> {
    let pool = state.desired_pool();
    let DesiredPool::Devices(devices) = pool else {
        panic!("{pool:?}")
    };
    let devices = devices.into_iter();
    devices
        .map(|it| (it.name, it.taints.unwrap_or_default()))
        .collect()
}

/// Name, and whether it is healthy, with the message.
fn healths(state: &NodeState) -> Vec<(String, bool, String)> {
    let health = state.health("node-a").into_iter();
    health
        .map(|it| (it.device, it.health == Health::Healthy, it.message))
        .collect()
}

// req: GPU-39
#[test]
fn nothing_is_published_before_the_first_reading_and_nothing_without_a_driver_from_the_start() {
    let mut state = NodeState {
        faults: Some(Arc::default()),
        ..NodeState::default()
    };
    assert_eq!(state.desired_pool(), DesiredPool::Undecided);
    state.gpus.is_read = true;
    assert_eq!(state.desired_pool(), DesiredPool::Devices(Vec::new()));
    state.faults = None;
    assert_eq!(state.desired_pool(), DesiredPool::Undecided);
    state.faults = Some(Arc::default());
    state.gpus.no_driver = Some("not loaded".to_owned());
    assert_eq!(state.desired_pool(), DesiredPool::Withdrawn);
}

// req: GPU-39, GPU-41
#[test]
fn lost_unloaded_and_renamed_devices_have_taints_and_are_left_out_where_taints_are_dropped() {
    let mut state = mk_four([Present, Lost, NoDriver, Present]);
    state.changed.renamed = BTreeSet::from(["gpu-3".to_owned()]);
    let published_keys = |state: &NodeState| -> Vec<(String, Vec<String>)> {
        let devices = published(state).into_iter();
        devices
            .map(|(name, taints)| (name, taints.into_iter().map(|it| it.key).collect()))
            .collect()
    };
    let device = |name: &str, keys: &[&str]| {
        let keys = keys.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        (name.to_owned(), keys)
    };
    assert_eq!(
        published_keys(&state),
        [
            device("gpu-0", &[]),
            device("gpu-1", &["gpu.nvidia.com/gpu-lost"]),
            device("gpu-2", &["imex-dra/no-driver"]),
            device("gpu-3", &["imex-dra/renamed"]),
        ]
    );
    state.unsupported.taints = true;
    assert_eq!(published_keys(&state), [device("gpu-0", &[])]);
    let healthy: Vec<_> = healths(&state).into_iter().map(|it| it.1).collect();
    assert_eq!(healthy, [true, false, false, true]);
}

// req: GPU-55
#[test]
fn an_event_says_that_the_api_server_does_not_store_shares() {
    let mut state = mk_state(vec![mk_gpu("gpu-0", "a", Present)]);
    state.unsupported.sharing = true;
    assert_eq!(state.describe(), "devices: gpu-0");
    assert!(!state.has_problem());
    state.settings.shares = ConsumableShares::Memory;
    let text = state.describe();
    assert!(
        text.contains("feature gate DRAConsumableCapacity"),
        "{text}"
    );
    assert!(state.has_problem());
}

// req: GPU-44, GPU-45
#[test]
fn faults_are_taints_and_those_that_keep_claims_away_make_a_device_unhealthy() {
    let mut state = mk_four([Present, Present, Lost, Present]);
    let mut faults = crate::health::Health::default();
    for (gpu, code, action) in [("a", 79, 1), ("b", 31, 0), ("c", 79, 1)] {
        faults.xid(gpu, crate::health::Place::default(), code, 5);
        faults.action(gpu, &gpu_inventory::Fact::Known(action), 5);
    }
    state.faults = Some(Arc::new(faults.report(5)));
    let xid = |value: &str, effect: &str| DeviceTaint {
        key: "gpu.nvidia.com/xid".to_owned(),
        value: Some(value.to_owned()),
        effect: effect.to_owned(),
        time_added: None,
    };
    let devices = published(&state);
    assert_eq!(devices[0].1, [xid("79", "NoSchedule")]);
    assert_eq!(devices[1].1, [xid("31", "None")]);
    assert_eq!(devices[2].1.len(), 2, "each of its reasons");
    assert_eq!(devices[3].1, []);

    let healths: Vec<_> = healths(&state).into_iter().map(|it| (it.1, it.2)).collect();
    let expected = [
        (false, "XID 79; recovery action: Reset"),
        (true, ""),
        (false, "the driver does not answer for this GPU any more"),
        (true, ""),
    ];
    assert_eq!(healths, expected.map(|it| (it.0, it.1.to_owned())));
    let text = state.describe();
    let unhealthy = "unhealthy: gpu-0 (XID 79; recovery action: Reset)";
    assert!(text.contains(unhealthy), "{text}");

    // A taint that only informs is no reason to leave the device out.
    state.unsupported.taints = true;
    let names: Vec<_> = published(&state).into_iter().map(|it| it.0).collect();
    assert_eq!(names, ["gpu-1", "gpu-3"]);
}

// req: GPU-65
#[test]
fn a_device_that_is_gone_is_unhealthy_also_if_another_one_has_its_name() {
    let mut state = mk_state(vec![
        mk_gpu("mig-0", "new", Present),
        mk_gpu("gpu-1", "b", Present),
    ]);
    assert!(!state.has_problem());
    state.changed.gone = ["mig-0", "mig-1"]
        .map(|name| HeldDevice {
            claim: ClaimRef {
                namespace: "default".to_owned(),
                name: "claim".to_owned(),
                uid: "1".to_owned(),
            },
            uuid: format!("MIG-{name}"),
            gpu: "a".to_owned(),
            name: name.to_owned(),
        })
        .into();
    let gone = |name: &str| {
        let message = format!(
            "{name} (MIG-{name}) does not exist any more: it was removed, or the MIG mode of its GPU was changed"
        );
        (name.to_owned(), false, message)
    };
    let healthy = ("gpu-1".to_owned(), true, String::new());
    assert_eq!(healths(&state), [healthy, gone("mig-0"), gone("mig-1")]);
    assert!(state.has_problem());
    let text = state.describe();
    let expected =
        "; a claim holds a device that is gone: mig-0 (default/claim), mig-1 (default/claim)";
    assert!(text.ends_with(expected), "{text}");
}

// req: GPU-66
#[test]
fn beside_a_device_plugin_gpus_are_published_or_not_as_the_setting_says() {
    let mut state = mk_state(vec![mk_gpu("gpu-0", "a", Present)]);
    state.settings.beside_device_plugin = BesideDevicePlugin::Withdraw;
    assert_eq!(published(&state).len(), 1, "no device plugin");
    assert!(!state.has_problem());

    state.device_plugin.insert("nvidia-gpu.sock".to_owned());
    assert_eq!(state.desired_pool(), DesiredPool::Withdrawn);
    assert!(!state.has_problem(), "the administrator has chosen it");
    let text = state.describe();
    assert_eq!(
        text,
        "devices: gpu-0; NVIDIA's device plugin runs on this node (nvidia-gpu.sock), so no GPU is published"
    );
    assert_eq!(healths(&state).len(), 1, "for the claims that are prepared");

    state.settings.beside_device_plugin = BesideDevicePlugin::Report;
    assert_eq!(published(&state).len(), 1);
    assert!(state.has_problem());
    let text = state.describe();
    let fix = "so a GPU may be given to two pods; remove it from this node";
    assert!(text.ends_with(fix), "{text}");
}
