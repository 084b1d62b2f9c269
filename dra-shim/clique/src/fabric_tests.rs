use nvml_session::NvmlCode;

use super::*;
use crate::clique_id::ClusterUuid;

const RACK: ClusterUuid = ClusterUuid([7; 16]);
const ZERO: ClusterUuid = ClusterUuid([0; 16]);

fn mk_gpu(index: u32, fabric: GpuFabricState) -> Gpu {
    Gpu {
        id: GpuRef {
            index,
            uuid: Some(format!("GPU-{index}")),
        },
        name: Some("NVIDIA GB200".to_owned()),
        fabric,
        health: None,
    }
}

fn completed(cluster: ClusterUuid, clique_id: u32) -> GpuFabricState {
    GpuFabricState::Completed { cluster, clique_id }
}

fn fabric(states: impl IntoIterator<Item = GpuFabricState>) -> Fabric {
    let gpus: Vec<_> = (0..).zip(states).map(|(i, s)| mk_gpu(i, s)).collect();
    Fabric::from_gpus(&gpus)
}

#[test]
fn gpus_of_one_clique_put_the_node_into_it_also_with_id_zero() {
    let fabric = fabric([completed(RACK, 0), completed(RACK, 0)]);
    let id = CliqueId {
        cluster: RACK,
        id: 0,
    };
    assert_eq!(fabric.clique(), Some(id));
    assert!(fabric.is_final());
    assert_eq!(fabric.code(), "clique");
    assert_eq!(fabric.hint(), "");
}

#[test]
fn gpus_without_a_clique_do_not_disagree() {
    let fabric = fabric([
        GpuFabricState::NotSupported,
        completed(RACK, 3),
        completed(ZERO, 9),
    ]);
    assert_eq!(fabric.clique().map(|clique| clique.id), Some(3));
}

// req: NODE-10
#[test]
fn no_gpu_with_support_is_no_clique() {
    let fabric = fabric([GpuFabricState::NotSupported, GpuFabricState::NotSupported]);
    assert_eq!(fabric, Fabric::NoClique(NoClique::NotSupported { gpus: 2 }));
    assert!(fabric.is_final());
    assert_eq!(
        fabric.to_string(),
        "this node is in no clique: none of its 2 GPUs supports an NVLink fabric"
    );
}

// req: NODE-10
#[test]
fn an_all_zero_cluster_uuid_is_no_clique() {
    let fabric = fabric([completed(ZERO, 0), GpuFabricState::NotSupported]);
    assert_eq!(
        fabric,
        Fabric::NoClique(NoClique::ZeroClusterUuid { gpus: 1 })
    );
    assert!(fabric.is_final());
}

#[test]
fn one_unregistered_gpu_makes_the_node_pending() {
    let failed = GpuFabricState::Failed {
        status: NvmlCode(999),
    };
    let cases = [
        (GpuFabricState::NotStarted, "fabric-not-started"),
        (GpuFabricState::InProgress, "fabric-in-progress"),
        (failed, "fabric-failed"),
        (GpuFabricState::Unrecognised(9), "fabric-state-unknown"),
        (
            GpuFabricState::Unreadable(NvmlFailure::SymbolMissing { call: "f" }),
            "gpu-unreadable",
        ),
    ];
    for (state, code) in cases {
        let fabric = fabric([completed(RACK, 1), state, GpuFabricState::NotSupported]);
        assert_eq!(fabric.code(), code);
        assert!(!fabric.is_final(), "{code}");
        assert_eq!(fabric.clique(), None, "{code}");
        assert!(!fabric.hint().is_empty(), "{code}");
        let reason = fabric.to_string();
        assert!(reason.starts_with("gpu 1 (GPU-1): "), "{reason}");
        assert!(
            reason.ends_with("(1 of 3 GPUs without a final state)"),
            "{reason}"
        );
    }
}

#[test]
fn the_worst_gpus_come_first_and_equal_states_are_grouped() {
    let fabric = fabric([
        GpuFabricState::InProgress,
        GpuFabricState::NotStarted,
        GpuFabricState::Failed {
            status: NvmlCode(999),
        },
        GpuFabricState::InProgress,
    ]);
    assert_eq!(
        fabric.to_string(),
        "gpu 2 (GPU-2): fabric registration failed with NVML_ERROR_UNKNOWN (999); \
         gpu 1 (GPU-1): fabric registration not started; \
         gpus 0, 3: fabric registration in progress (4 of 4 GPUs without a final state)"
    );
}

#[test]
fn gpus_in_different_cliques_or_fabrics_disagree_by_name() {
    let other = ClusterUuid([8; 16]);
    let by_id = fabric([completed(RACK, 1), completed(RACK, 1), completed(RACK, 2)]);
    assert_eq!(by_id.code(), "gpus-disagree");
    assert_eq!(
        by_id.to_string(),
        "GPUs disagree: gpus 0-1 are in clique 07070707-0707-0707-0707-070707070707.1; \
         gpu 2 (GPU-2) is in clique 07070707-0707-0707-0707-070707070707.2"
    );
    assert!(!by_id.is_final());
    let by_fabric = fabric([completed(RACK, 1), completed(other, 1)]);
    assert_eq!(by_fabric.code(), "gpus-disagree");
}

#[test]
fn a_node_without_a_gpu_may_still_get_one() {
    let fabric = fabric([]);
    assert_eq!(
        fabric,
        Fabric::Pending(Pending::NoGpus {
            display_adapters: 0
        })
    );
    assert!(!fabric.is_final());
}

#[test]
fn display_adapters_are_ignored_and_reported_if_there_is_no_gpu() {
    let displays = fabric([
        GpuFabricState::DisplayAdapter,
        GpuFabricState::DisplayAdapter,
    ]);
    assert_eq!(displays.code(), "no-gpus");
    assert_eq!(
        displays.to_string(),
        "NVML sees only 2 display adapters (DGX Display) and no other GPU on this node"
    );
    let beside = |state| fabric([GpuFabricState::DisplayAdapter, state]);
    assert_eq!(beside(completed(RACK, 1)).code(), "clique");
    let none = beside(GpuFabricState::NotSupported).to_string();
    assert!(none.contains("none of its 1 GPUs"), "{none}");
    let coming = beside(GpuFabricState::InProgress).to_string();
    assert!(
        coming.ends_with("(1 of 1 GPUs without a final state)"),
        "{coming}"
    );
}

#[test]
fn the_message_is_bounded_for_any_number_of_gpus_and_states() {
    let state_of: [fn(u32) -> GpuFabricState; 4] = [
        |_| GpuFabricState::InProgress,
        |index| GpuFabricState::Unrecognised(u8::try_from(index % 200).unwrap()),
        |index| completed(RACK, index),
        |index| completed(RACK, index % 2),
    ];
    for gpus in [8, 16, 72, 1024] {
        for state in state_of {
            let text = fabric((0..gpus).map(state)).to_string();
            assert!(text.len() < 500, "{gpus}: {text}");
        }
        let text = fabric((0..gpus).map(state_of[0])).to_string();
        assert_eq!(
            text,
            format!(
                "gpus 0-{}: fabric registration in progress ({gpus} of {gpus} GPUs without a final state)",
                gpus - 1
            )
        );
    }
    let text = fabric((0..72).map(state_of[2])).to_string();
    assert!(text.ends_with("; and 68 more GPUs"), "{text}");
}

#[test]
fn gpus_with_the_same_problem_are_grouped() {
    let gpus: Vec<_> = (0..72)
        .map(|index| Gpu {
            health: Some(Health {
                mask: if index < 70 { 0b01 } else { 0b0100 },
                summary: None,
            }),
            ..mk_gpu(index, completed(RACK, 1))
        })
        .collect();
    assert_eq!(
        Fabric::from_gpus(&gpus).to_string(),
        "clique 07070707-0707-0707-0707-070707070707.1; \
         gpus 0-69 are degraded: degraded bandwidth (mask 0x1); \
         gpus 70-71 are degraded: route recovery in progress (mask 0x4)"
    );
}

#[test]
fn a_degraded_member_keeps_the_clique_and_is_reported() {
    let sick = Health {
        mask: 0b01,
        summary: None,
    };
    let member = Gpu {
        health: Some(sick),
        ..mk_gpu(1, completed(RACK, 1))
    };
    let fabric = Fabric::from_gpus(&[mk_gpu(0, completed(RACK, 1)), member]);
    assert_eq!(fabric.clique().map(|clique| clique.id), Some(1));
    assert_eq!(fabric.code(), "clique-degraded");
    assert_eq!(
        fabric.to_string(),
        "clique 07070707-0707-0707-0707-070707070707.1; gpu 1 (GPU-1) is degraded: degraded bandwidth (mask 0x1)"
    );
}

#[test]
fn health_of_a_gpu_outside_the_clique_does_not_degrade_it() {
    let outsider = Gpu {
        health: Some(Health {
            mask: 0b01,
            summary: None,
        }),
        ..mk_gpu(1, completed(ZERO, 0))
    };
    let fabric = Fabric::from_gpus(&[mk_gpu(0, completed(RACK, 1)), outsider]);
    assert_eq!(fabric.code(), "clique");
}

#[test]
fn a_wait_is_written_in_seconds_and_a_short_one_in_milliseconds() {
    let text = |millis| {
        let waited = Duration::from_millis(millis);
        Fabric::NoAnswer { waited, call: None }.to_string()
    };
    assert_eq!(text(20), "NVML has not responded for 20 ms");
    assert_eq!(text(999), "NVML has not responded for 999 ms");
    assert_eq!(text(1000), "NVML has not responded for 1 s");
    assert_eq!(text(10_040), "NVML has not responded for 10 s");
    let hung = Fabric::NoAnswer {
        waited: Duration::from_secs(10),
        call: Some("nvmlInit_v2"),
    };
    assert_eq!(
        hung.to_string(),
        "NVML has not responded for 10 s (in nvmlInit_v2)"
    );
}
