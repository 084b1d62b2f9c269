use nvml_clique::{GpuFabricState, NvmlCode, PendingGpu};

use super::*;
use crate::Class;
use crate::policy::Slice;
use crate::test_objects::{mk_completed, mk_gpu};

fn mk_hardware(before: NodeFabricState, fabric: Fabric, devices: &str) -> Hardware {
    let major = imex_cdi::channel_major(devices).map_err(|source| ReadMajorError::Content {
        path: imex_cdi::PROC_DEVICES.into(),
        source,
    });
    Hardware {
        state: before.next(fabric.event()),
        fabric,
        major,
        channel_count: None,
    }
}

fn no_library() -> Fabric {
    let dir = tempfile::tempdir().unwrap();
    let probe = nvml_clique::NvmlProbe::new(nvml_clique::DriverRoot::new(dir.path()));
    nvml_clique::FabricProbe::read(&probe).unwrap_err().into()
}

const DEVICES: &str = "Character devices:\n235 nvidia-caps-imex-channels\n";

/// The clique of one GPU while another is in this state.
fn incomplete(state: GpuFabricState) -> Fabric {
    let Fabric::Clique(mut clique) = Fabric::from_gpus(&[mk_gpu(0, mk_completed(1))]) else {
        panic!("a clique")
    };
    clique.missing = vec![PendingGpu {
        gpu: mk_gpu(1, state.clone()).id,
        state,
    }];
    Fabric::Clique(clique)
}

/// Prepare's result: ok, or the class of its error.
fn prepare(hardware: &Hardware) -> Result<(), Class> {
    let major = hardware.require_major();
    major.map(drop).map_err(|error| error.class())
}

// req: NODE-9, NODE-11
#[test]
fn every_row_of_the_table_has_slice_readiness_and_prepare_answer() {
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
        (
            of(&[mk_completed(1), failed.clone()]),
            yes,
            yes,
            no,
            retried,
        ),
        (incomplete(failed), yes, yes, yes, prepared),
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
        let before = if library_seen {
            NodeFabricState::Clique
        } else {
            NodeFabricState::NotReadYet
        };
        let hardware = mk_hardware(before, fabric, DEVICES);
        let policy = hardware.policy();
        assert_eq!(policy.slice == Slice::Channel, publishes, "publish: {row}");
        assert_eq!(policy.ready, ready, "ready: {row}");
        assert_eq!(hardware.check_fabric().is_ok(), ready, "ready: {row}");
        assert_eq!(prepare(&hardware), outcome, "prepare: {row}");
    }
}

// req: NODE-31
#[test]
fn without_channel_major_nothing_is_published_and_claims_are_retried() {
    let fabric = Fabric::from_gpus(&[mk_gpu(0, mk_completed(1))]);
    let hardware = mk_hardware(
        NodeFabricState::Clique,
        fabric,
        "Character devices:\n195 nvidia\n",
    );
    assert_ne!(hardware.policy().slice, Slice::Channel);
    assert_eq!(prepare(&hardware), Err(Class::Retry));
    assert!(
        hardware
            .check_major()
            .unwrap_err()
            .contains("nvidia-caps-imex-channels")
    );
}

// req: NODE-10
#[test]
fn clique_id_0_is_a_clique() {
    let fabric = Fabric::from_gpus(&[mk_gpu(0, mk_completed(1))]);
    assert_eq!(fabric.clique().unwrap().id, 0);
    let hardware = mk_hardware(NodeFabricState::NotReadYet, fabric, DEVICES);
    assert_eq!(prepare(&hardware), Ok(()));
}

// req: NODE-12
#[test]
fn a_claim_prepared_without_one_gpu_of_the_clique_gets_a_warning_that_names_it() {
    let lost = GpuFabricState::Vanished;
    let hardware = mk_hardware(NodeFabricState::Clique, incomplete(lost), DEVICES);
    assert_eq!(prepare(&hardware), Ok(()));
    let warning = hardware.warning().unwrap();
    assert!(warning.contains("without gpu 1"), "{warning}");
}
