use super::*;
use crate::clique::ClusterUuid;
use crate::nvml::NvmlCode;

const RACK: ClusterUuid = ClusterUuid([7; 16]);
const ZERO: ClusterUuid = ClusterUuid([0; 16]);

fn mk_gpu(index: u32, fabric: FabricState) -> Gpu {
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

fn completed(cluster: ClusterUuid, clique_id: u32) -> FabricState {
    FabricState::Completed { cluster, clique_id }
}

fn fabric(states: impl IntoIterator<Item = FabricState>) -> Fabric {
    let gpus: Vec<_> = (0..).zip(states).map(|(i, s)| mk_gpu(i, s)).collect();
    Fabric::of(&gpus)
}

#[test]
fn gpus_of_one_clique_make_it_the_nodes_and_id_zero_counts() {
    let fabric = fabric([completed(RACK, 0), completed(RACK, 0)]);
    let id = CliqueId {
        cluster: RACK,
        id: 0,
    };
    assert_eq!(fabric.clique(), Some(id));
    assert!(fabric.is_settled());
    assert_eq!(fabric.code(), "clique");
    assert_eq!(fabric.hint(), "");
}

#[test]
fn gpus_that_contribute_nothing_disagree_with_nobody() {
    let fabric = fabric([
        FabricState::NotSupported,
        completed(RACK, 3),
        completed(ZERO, 9),
    ]);
    assert_eq!(fabric.clique().map(|clique| clique.id), Some(3));
}

#[test]
fn no_support_anywhere_is_definitely_no_clique() {
    let fabric = fabric([FabricState::NotSupported, FabricState::NotSupported]);
    assert_eq!(fabric, Fabric::NoClique(NoClique::NotSupported { gpus: 2 }));
    assert!(fabric.is_settled());
    assert_eq!(
        fabric.to_string(),
        "this node is in no clique: none of its 2 GPUs supports an NVLink fabric"
    );
}

#[test]
fn an_all_zero_cluster_uuid_is_definitely_no_clique() {
    let fabric = fabric([completed(ZERO, 0), FabricState::NotSupported]);
    assert_eq!(
        fabric,
        Fabric::NoClique(NoClique::ZeroClusterUuid { gpus: 1 })
    );
    assert!(fabric.is_settled());
}

#[test]
fn one_unfinished_gpu_unsettles_the_node_whatever_the_others_say() {
    let failed = FabricState::Failed {
        status: NvmlCode(999),
    };
    let cases = [
        (FabricState::NotStarted, "fabric-not-started"),
        (FabricState::InProgress, "fabric-in-progress"),
        (failed, "fabric-failed"),
        (FabricState::Unrecognised(9), "fabric-state-unknown"),
        (
            FabricState::Unreadable(NvmlFailure::SymbolMissing { call: "f" }),
            "gpu-unreadable",
        ),
    ];
    for (state, code) in cases {
        let fabric = fabric([completed(RACK, 1), state, FabricState::NotSupported]);
        assert_eq!(fabric.code(), code);
        assert!(!fabric.is_settled(), "{code}");
        assert_eq!(fabric.clique(), None, "{code}");
        assert!(!fabric.hint().is_empty(), "{code}");
        let reason = fabric.to_string();
        assert!(reason.starts_with("gpu 1 (GPU-1): "), "{reason}");
        assert!(reason.ends_with("(1 of 3 GPUs not settled)"), "{reason}");
    }
}

#[test]
fn the_worst_gpu_is_the_one_that_is_named() {
    let fabric = fabric([
        FabricState::InProgress,
        FabricState::NotStarted,
        FabricState::Failed {
            status: NvmlCode(999),
        },
        FabricState::InProgress,
    ]);
    assert_eq!(
        fabric.to_string(),
        "gpu 2 (GPU-2): fabric registration failed with NVML_ERROR_UNKNOWN (999) (4 of 4 GPUs not settled)"
    );
}

#[test]
fn gpus_in_different_cliques_or_fabrics_disagree_by_name() {
    let other = ClusterUuid([8; 16]);
    let by_id = fabric([completed(RACK, 1), completed(RACK, 1), completed(RACK, 2)]);
    assert_eq!(by_id.code(), "gpus-disagree");
    assert_eq!(
        by_id.to_string(),
        "GPUs disagree: gpu 0 (GPU-0) is in clique 07070707-0707-0707-0707-070707070707.1, \
         gpu 2 (GPU-2) in clique 07070707-0707-0707-0707-070707070707.2"
    );
    assert!(!by_id.is_settled());
    let by_fabric = fabric([completed(RACK, 1), completed(other, 1)]);
    assert_eq!(by_fabric.code(), "gpus-disagree");
}

#[test]
fn a_node_without_a_gpu_may_still_get_one() {
    let fabric = fabric([]);
    assert_eq!(fabric, Fabric::Unsettled(Unsettled::NoGpus));
    assert!(!fabric.is_settled());
}

#[test]
fn a_degraded_member_keeps_the_clique_and_is_named() {
    let sick = Health {
        mask: 0b01,
        summary: None,
    };
    let member = Gpu {
        health: Some(sick),
        ..mk_gpu(1, completed(RACK, 1))
    };
    let fabric = Fabric::of(&[mk_gpu(0, completed(RACK, 1)), member]);
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
    let fabric = Fabric::of(&[mk_gpu(0, completed(RACK, 1)), outsider]);
    assert_eq!(fabric.code(), "clique");
}

#[test]
fn a_wait_is_told_in_seconds_and_a_short_one_in_milliseconds() {
    let said = |millis| {
        let waited = Duration::from_millis(millis);
        Fabric::NoAnswer { waited }.to_string()
    };
    assert_eq!(said(20), "no answer from NVML for 20 ms");
    assert_eq!(said(999), "no answer from NVML for 999 ms");
    assert_eq!(said(1000), "no answer from NVML for 1 s");
    assert_eq!(said(10_040), "no answer from NVML for 10 s");
}
