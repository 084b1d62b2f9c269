use std::time::Duration;

use compute_domain_api::driver_managed::Place;
use nvml_clique::{
    ClusterUuid, Gpu, GpuFabricState, GpuRef, Health as GpuHealth, NoLibrary, NodeFabricState,
    NvmlFailure, Pending,
};
use serde_json::{Value, json};

use super::*;

const CLIQUE: &str = "07070707-0707-0707-0707-070707070707.3";
const TAINT: Placements = Placements {
    without_clique: Placement::Taint,
    degraded_fabric: Placement::Taint,
    channel_count: 1,
};
const PUBLISH: Placements = Placements {
    without_clique: Placement::Publish,
    degraded_fabric: Placement::Publish,
    channel_count: 1,
};

const ONE: DeviceForm = DeviceForm::Exclusive;
const NOTHING: UnsupportedFields = UnsupportedFields {
    taints: false,
    sharing: false,
};
const TAINTS: UnsupportedFields = UnsupportedFields {
    taints: true,
    sharing: false,
};

fn mk_hardware(state: NodeFabricState, fabric: Fabric) -> Hardware {
    Hardware {
        state,
        fabric,
        major: imex_cdi::channel_major("Character devices:\n235 nvidia-caps-imex-channels\n")
            .map_err(|_| unreachable!()),
        channel_count: None,
    }
}

/// Hardware with GPUs of this state and health.
fn mk_gpus(gpus: &[(GpuFabricState, u32)]) -> Hardware {
    let gpus: Vec<_> = (0..)
        .zip(gpus)
        .map(|(index, (fabric, mask))| Gpu {
            id: GpuRef { index, uuid: None },
            name: None,
            fabric: fabric.clone(),
            health: Some(GpuHealth {
                mask: *mask,
                summary: None,
            }),
        })
        .collect();
    let fabric = Fabric::from_gpus(&gpus);
    mk_hardware(NodeFabricState::default().next(fabric.event()), fabric)
}

fn completed() -> GpuFabricState {
    GpuFabricState::Completed {
        cluster: ClusterUuid([7; 16]),
        clique_id: 3,
    }
}

fn in_clique() -> Hardware {
    mk_gpus(&[(completed(), 0)])
}

fn degraded() -> Hardware {
    mk_gpus(&[(completed(), 1)])
}

fn without_clique() -> Hardware {
    mk_gpus(&[(GpuFabricState::NotSupported, 0)])
}

fn no_library() -> Fabric {
    let reason = "not a library".to_owned();
    Fabric::NoLibrary(NoLibrary::Unloadable {
        path: "/libnvidia-ml.so.1".into(),
        reason,
    })
}

/// The published device.
fn published(placements: Placements, hardware: &Hardware) -> Value {
    match placements.desired_slice(hardware, ONE, NOTHING) {
        DesiredPool::Devices(devices) => serde_json::to_value(devices).unwrap(),
        other => panic!("{other:?}"),
    }
}

// req: NODE-30
#[test]
fn without_a_known_clique_the_device_equals_that_of_the_go_driver() {
    let failing = Fabric::NvmlFailed(NvmlFailure::SymbolMissing { call: "nvmlInit" });
    for hardware in [
        mk_hardware(NodeFabricState::NvmlFailed, failing),
        without_clique(),
    ] {
        assert_eq!(
            published(PUBLISH, &hardware),
            json!([{"name": "channel-0", "attributes": {"id": {"int": 0}, "type": {"string": "channel"}}}])
        );
    }
}

#[test]
fn in_a_clique_the_device_also_has_the_cliques_attribute() {
    for hardware in [in_clique(), degraded()] {
        assert_eq!(
            published(PUBLISH, &hardware),
            json!([{"name": "channel-0", "attributes": {
                "clique": {"string": CLIQUE}, "id": {"int": 0}, "type": {"string": "channel"},
            }}])
        );
    }
}

// req: NODE-33
#[test]
fn a_node_with_a_fault_is_tainted_if_configured_for_that_fault() {
    let taint =
        |key: &str, value: &str| json!([{"key": key, "value": value, "effect": "NoSchedule"}]);
    let no_clique = taint(
        "compute-domain.nvidia.com/no-clique",
        "fabric-not-supported",
    );
    let degraded_fabric = taint(
        "compute-domain.nvidia.com/degraded-fabric",
        "clique-degraded",
    );
    let only = |without_clique, degraded_fabric| Placements {
        channel_count: 1,
        without_clique,
        degraded_fabric,
    };
    let (yes, no) = (Placement::Taint, Placement::Publish);
    for (placements, hardware, taints) in [
        (TAINT, without_clique(), no_clique.clone()),
        (TAINT, degraded(), degraded_fabric.clone()),
        (TAINT, in_clique(), Value::Null),
        (only(yes, no), without_clique(), no_clique),
        (only(yes, no), degraded(), Value::Null),
        (only(no, yes), without_clique(), Value::Null),
        (only(no, yes), degraded(), degraded_fabric),
    ] {
        let device = &published(placements, &hardware)[0];
        assert_eq!(device["taints"], taints, "{placements:?} {hardware:?}");
        assert_eq!(device["attributes"]["type"]["string"], "channel");
        assert_eq!(device["attributes"]["id"]["int"], 0);
    }
}

// req: NODE-33
#[test]
fn if_taints_are_dropped_only_a_device_with_a_fault_is_withdrawn() {
    for hardware in [without_clique(), degraded()] {
        assert_eq!(
            TAINT.desired_slice(&hardware, ONE, TAINTS),
            DesiredPool::Withdrawn
        );
        let text = TAINT.describe(&hardware, ONE, TAINTS);
        assert!(text.contains("; the device is withdrawn"), "{text}");
        assert!(matches!(
            PUBLISH.desired_slice(&hardware, ONE, TAINTS),
            DesiredPool::Devices(_)
        ));
    }
    assert_eq!(
        TAINT.desired_slice(&in_clique(), ONE, TAINTS),
        TAINT.desired_slice(&in_clique(), ONE, NOTHING)
    );
    assert_eq!(
        TAINT.describe(&in_clique(), ONE, TAINTS),
        describe(&in_clique())
    );
}

#[test]
fn before_the_first_read_the_slice_is_unchanged() {
    let hardware = mk_hardware(
        NodeFabricState::NotReadYet,
        Fabric::Pending(Pending::NotReadYet),
    );
    assert_eq!(
        TAINT.desired_slice(&hardware, ONE, TAINTS),
        DesiredPool::Undecided
    );
}

// req: NODE-31
#[test]
fn without_a_driver_no_device_is_published_unless_the_driver_was_lost() {
    let slice = |state| PUBLISH.desired_slice(&mk_hardware(state, no_library()), ONE, NOTHING);
    assert_eq!(slice(NodeFabricState::NoLibrary), DesiredPool::Withdrawn);
    assert!(matches!(
        slice(NodeFabricState::LibraryLost),
        DesiredPool::Devices(_)
    ));
}

#[test]
fn a_hung_nvml_is_one_state_however_long_it_lasts() {
    let after = |seconds| {
        let waited = Duration::from_secs(seconds);
        let fabric = Fabric::NoAnswer { waited, call: None };
        mk_hardware(NodeFabricState::NoAnswer, fabric)
    };
    assert_eq!(describe(&after(10)), describe(&after(20)));
}

#[test]
fn a_degraded_fabric_is_in_the_text_of_the_devices_health() {
    let health = channel_health("node-1", &degraded());
    assert_eq!(health.health, Health::Unhealthy);
    assert!(
        health.message.contains("gpu 0 is degraded"),
        "{}",
        health.message
    );
    assert_eq!(
        channel_health("node-1", &in_clique()).health,
        Health::Healthy
    );
}

// req: CHANNEL-4
#[test]
fn a_shared_device_has_slots_and_otherwise_equals_that_of_the_go_driver() {
    let device = |form| match PUBLISH.desired_slice(&in_clique(), form, NOTHING) {
        DesiredPool::Devices(devices) => serde_json::to_value(&devices[0]).unwrap(),
        other => panic!("{other:?}"),
    };
    let shared = DeviceForm::Shared { slots: 8 };
    let mut device_of_many = device(shared);
    let fields = device_of_many.as_object_mut().unwrap();
    assert_eq!(fields.remove("allowMultipleAllocations"), Some(json!(true)));
    // Without a request policy: a claim that requests no slot takes all of them.
    let slots = json!({ "slots": { "value": "8" } });
    assert_eq!(fields.remove("capacity"), Some(slots));
    assert_eq!(device_of_many, device(ONE));
    // The scheduler gives up on every pod of a class whose expression fails on one device.
    assert_eq!(
        device_of_many["attributes"]["type"],
        json!({ "string": "channel" })
    );
    assert_eq!(device_of_many["attributes"]["id"], json!({ "int": 0 }));

    let unsupported_fields = UnsupportedFields {
        sharing: true,
        ..NOTHING
    };
    assert_eq!(
        PUBLISH.desired_slice(&in_clique(), shared, unsupported_fields),
        PUBLISH.desired_slice(&in_clique(), shared, NOTHING),
        "published as before"
    );
    let text = PUBLISH.describe(&in_clique(), shared, unsupported_fields);
    assert!(
        text.contains("only one claim at a time can have the device")
            && text.contains("DRAConsumableCapacity"),
        "{text}"
    );
}

// req: CHANNEL-5
#[test]
fn a_draining_device_stays_shared_and_keeps_new_claims_away() {
    let draining = DeviceForm::Draining { slots: 8 };
    let slice = |placements: Placements, hardware: &Hardware, unsupported_fields| {
        placements.desired_slice(hardware, draining, unsupported_fields)
    };
    let DesiredPool::Devices(devices) = slice(PUBLISH, &in_clique(), NOTHING) else {
        panic!("withdrawn")
    };
    assert_eq!(devices[0].allow_multiple_allocations, Some(true));
    let keys = |device: &Device| {
        let taints = device.taints.iter().flatten();
        taints
            .map(|taint| (taint.key.clone(), taint.effect.clone()))
            .collect::<Vec<_>>()
    };
    let own = (
        "compute-domain.nvidia.com/sharing-ends".to_owned(),
        "NoSchedule".to_owned(),
    );
    assert_eq!(keys(&devices[0]), std::slice::from_ref(&own));
    let text = PUBLISH.describe(&in_clique(), draining, NOTHING);
    assert!(
        text.ends_with("the device has the taint compute-domain.nvidia.com/sharing-ends"),
        "{text}"
    );
    // In addition to the taint of a fault.
    let DesiredPool::Devices(devices) = slice(TAINT, &without_clique(), NOTHING) else {
        panic!("withdrawn")
    };
    assert_eq!(keys(&devices[0]).len(), 2);
    assert_eq!(keys(&devices[0])[1], own);
    // A dropped taint keeps no claims away.
    assert_eq!(slice(PUBLISH, &in_clique(), TAINTS), DesiredPool::Withdrawn);
    let undecided = PUBLISH.desired_slice(&in_clique(), DeviceForm::Undecided, NOTHING);
    assert_eq!(undecided, DesiredPool::Undecided);
}

#[test]
fn the_text_names_both_counts_if_the_driver_has_too_few_channels() {
    let placements = Placements {
        channel_count: 2048,
        ..PUBLISH
    };
    for (count, is_reported) in [
        (Some(16), true),
        (Some(2048), false),
        (Some(4096), false),
        (None, false),
    ] {
        let mut hardware = in_clique();
        hardware.channel_count = count;
        let text = placements.describe(&hardware, ONE, NOTHING);
        let has_counts =
            text.contains("has 16 IMEX channels") && text.contains("NVreg_ImexChannelCount=2048");
        assert_eq!(has_counts, is_reported, "{count:?}: {text}");
        assert_eq!(
            placements.missing_channels(&hardware),
            count.filter(|_| is_reported)
        );
    }
}

// req: MODE-19, DM-7
#[test]
fn the_device_has_the_attributes_of_a_drained_daemon_and_its_place_in_the_clique() {
    let hardware = mk_gpus(&[(completed(), 0)]);
    let place = Place {
        index: 3,
        length: 18,
    };
    for (clique, published) in [(CLIQUE, Some("3/18")), ("another.3", None)] {
        let daemon = PublishedDaemon {
            drained: Some("pod-7".to_owned()),
            place: Some((clique.to_owned(), place)),
        };
        let mut pool = PUBLISH.desired_slice(&hardware, ONE, NOTHING);
        add_daemon(&mut pool, &daemon, &hardware);
        let DesiredPool::Devices(devices) = pool else {
            panic!("the channel is published");
        };
        let attributes = devices[0].attributes.as_ref().unwrap();
        let value = |name: &str| attributes.get(name).and_then(|it| it.string.as_deref());
        assert_eq!(value("drained"), Some("pod-7"));
        assert_eq!(value("place"), published, "{clique}");

        let mut nothing = DesiredPool::Withdrawn;
        add_daemon(&mut nothing, &daemon, &hardware);
        assert_eq!(nothing, DesiredPool::Withdrawn);
    }
}
