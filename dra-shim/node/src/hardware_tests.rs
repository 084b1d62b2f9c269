use nvml_clique::{CliqueId, ClusterUuid, GpuFabricState, NvmlCode};

use super::*;
use crate::Class;
use crate::test_objects::{mk_completed, mk_gpu};

fn mk_hardware(fabric: Fabric, library_seen: bool, devices: &str) -> Hardware {
    let major = imex_cdi::channel_major(devices).map_err(|source| ReadMajorError::Content {
        path: imex_cdi::PROC_DEVICES.into(),
        source,
    });
    let before = if library_seen {
        NodeFabricState::LibraryLost
    } else {
        NodeFabricState::default()
    };
    Hardware {
        state: before.next(fabric.event()),
        fabric,
        major,
    }
}

fn no_library() -> Fabric {
    let dir = tempfile::tempdir().unwrap();
    let probe = nvml_clique::NvmlProbe::new(nvml_clique::DriverRoot::new(dir.path()));
    nvml_clique::FabricProbe::read(&probe).unwrap_err().into()
}

const DEVICES: &str = "Character devices:\n235 nvidia-caps-imex-channels\n";

/// What Prepare does: "ok", or the class of its error.
fn prepare(hardware: &Hardware) -> Result<(), Class> {
    hardware.clique().map_err(|error| error.class())?;
    hardware
        .channel_major()
        .map(drop)
        .map_err(|error| error.class())
}

#[test]
fn every_row_of_the_table_says_what_is_published_whether_ready_and_what_prepare_does() {
    let (yes, no) = (true, false);
    let prepared = Ok(());
    let refused = Err(Class::Permanent);
    let retried = Err(Class::Retry);
    let of = |states: &[GpuFabricState]| {
        Fabric::from_gpus(
            &states
                .iter()
                .cloned()
                .zip(0..)
                .map(|(s, i)| mk_gpu(i, s))
                .collect::<Vec<_>>(),
        )
    };
    let failed = GpuFabricState::Failed {
        status: NvmlCode(999),
    };

    let rows = [
        // seen                                                 library seen   publish  ready  Prepare
        (of(&[mk_completed(1)]), yes, yes, yes, prepared),
        (
            of(&[mk_completed(1), GpuFabricState::NotSupported]),
            yes,
            yes,
            yes,
            prepared,
        ),
        (of(&[GpuFabricState::NotSupported]), yes, yes, yes, refused),
        (of(&[mk_completed(0)]), yes, yes, yes, refused),
        (of(&[GpuFabricState::NotStarted]), yes, yes, no, retried),
        (of(&[GpuFabricState::InProgress]), yes, yes, no, retried),
        (of(&[mk_completed(1), failed]), yes, yes, no, retried),
        (
            of(&[mk_completed(1), mk_completed(2)]),
            yes,
            yes,
            no,
            retried,
        ),
        (
            Fabric::NoAnswer {
                waited: std::time::Duration::from_secs(9),
                call: None,
            },
            yes,
            yes,
            no,
            retried,
        ),
        (no_library(), yes, yes, no, retried),
        (no_library(), no, no, no, retried),
    ];
    for (fabric, library_seen, publishes, ready, outcome) in rows {
        let row = fabric.to_string();
        let hardware = mk_hardware(fabric, library_seen, DEVICES);
        assert_eq!(hardware.publishes(), publishes, "publish: {row}");
        assert_eq!(hardware.fabric_ready().is_ok(), ready, "ready: {row}");
        assert_eq!(prepare(&hardware), outcome, "prepare: {row}");
    }
}

#[test]
fn without_channel_major_nothing_is_published_and_claims_are_retried() {
    let fabric = Fabric::from_gpus(&[mk_gpu(0, mk_completed(1))]);
    let hardware = mk_hardware(fabric, true, "Character devices:\n195 nvidia\n");
    assert!(!hardware.publishes());
    assert_eq!(prepare(&hardware), Err(Class::Retry));
    assert!(
        hardware
            .major_ready()
            .unwrap_err()
            .contains("nvidia-caps-imex-channels")
    );
}

#[test]
fn clique_id_0_is_a_clique() {
    let hardware = mk_hardware(
        Fabric::from_gpus(&[mk_gpu(0, mk_completed(1))]),
        true,
        DEVICES,
    );
    let cluster = ClusterUuid([1; 16]);
    assert_eq!(hardware.clique().unwrap().id, CliqueId { cluster, id: 0 });
}
