use std::time::Duration;

use nvml_session::{NvmlCode, NvmlFailure};

use super::*;
use crate::clique_id::ClusterUuid;

const RACK: ClusterUuid = ClusterUuid([7; 16]);
const SECOND: Duration = Duration::from_secs(1);

/// A watch's clique in force, and its clock.
struct Fixture {
    memory: CliqueInForce,
    start: Instant,
    config: WatchConfig,
}

impl Fixture {
    fn new() -> Self {
        Self {
            memory: CliqueInForce::default(),
            start: Instant::now(),
            config: WatchConfig::default(),
        }
    }

    /// Reads these GPUs, `after` the start.
    fn read(&mut self, after: Duration, gpus: &[Gpu]) -> Fabric {
        self.memory
            .read(&mut gpus.to_vec(), self.start + after, &self.config)
    }
}

/// GPUs in these states, all with a UUID.
fn mk_gpus(states: &[GpuFabricState]) -> Vec<Gpu> {
    let gpu = |(index, fabric): (u32, &GpuFabricState)| Gpu {
        id: GpuRef {
            index,
            uuid: Some(format!("GPU-{index}")),
        },
        name: None,
        fabric: fabric.clone(),
        health: None,
    };
    (0..).zip(states).map(gpu).collect()
}

fn clique(id: u32) -> GpuFabricState {
    GpuFabricState::Completed {
        cluster: RACK,
        clique_id: id,
    }
}

fn failed() -> GpuFabricState {
    GpuFabricState::Failed {
        status: NvmlCode(999),
    }
}

fn lost() -> GpuFabricState {
    GpuFabricState::Unreadable(NvmlFailure::Returned {
        call: "nvmlDeviceGetHandleByIndex_v2",
        code: NvmlCode(15),
    })
}

/// Every state of an unregistered GPU.
fn unregistered() -> [GpuFabricState; 5] {
    [
        failed(),
        lost(),
        GpuFabricState::NotStarted,
        GpuFabricState::InProgress,
        GpuFabricState::Unrecognised(9),
    ]
}

// req: NODE-43
#[test]
fn a_clique_remains_in_force_in_any_state_of_one_gpu() {
    for state in unregistered() {
        let mut fixture = Fixture::new();
        assert_eq!(
            fixture
                .read(Duration::ZERO, &mk_gpus(&[clique(1), clique(1)]))
                .code(),
            "clique"
        );
        let fabric = fixture.read(SECOND, &mk_gpus(&[clique(1), state.clone()]));
        assert_eq!(fabric.code(), "clique-incomplete", "{state}");
        assert_eq!(fabric.clique().map(|it| it.id), Some(1), "{state}");
        let text = fabric.to_string();
        let without = format!(" without gpu 1 (GPU-1): {state}");
        assert!(text.ends_with(&without), "{text}");
        assert!(!fabric.hint().is_empty(), "{state}");
        let healed = fixture.read(SECOND * 2, &mk_gpus(&[clique(1), clique(1)]));
        assert_eq!(healed.code(), "clique", "{state}");
    }
}

#[test]
fn a_lost_gpu_keeps_its_uuid_although_nvml_no_longer_reports_it() {
    let mut fixture = Fixture::new();
    fixture.read(Duration::ZERO, &mk_gpus(&[clique(1), clique(1)]));
    let mut gpus = mk_gpus(&[clique(1), lost()]);
    gpus[1].id.uuid = None;
    let fabric = fixture.read(SECOND, &gpus);
    assert!(fabric.to_string().contains("gpu 1 (GPU-1): unreadable"));
}

#[test]
fn a_vanished_gpu_is_reported_until_it_returns() {
    let mut fixture = Fixture::new();
    fixture.read(Duration::ZERO, &mk_gpus(&[clique(1), clique(1), clique(1)]));
    let mut rest = mk_gpus(&[clique(1), clique(1), clique(1)]);
    rest.remove(0);
    for (index, gpu) in (0..).zip(&mut rest) {
        gpu.id.index = index; // NVML renumbers the GPUs
    }
    for second in 1..4 {
        let fabric = fixture.read(SECOND * second, &rest);
        assert_eq!(fabric.code(), "clique-incomplete");
        let text = fabric.to_string();
        assert!(
            text.ends_with("without gpu 0 (GPU-0): no longer enumerated by NVML"),
            "{text}"
        );
    }
    let back = fixture.read(SECOND * 4, &mk_gpus(&[clique(1), clique(1), clique(1)]));
    assert_eq!(back.code(), "clique");
}

#[test]
fn at_boot_unregistered_gpus_are_not_missing_gpus() {
    let mut fixture = Fixture::new();
    let limit = fixture.config.registering_for;
    let boot = |registered: usize| {
        let mut states = vec![GpuFabricState::InProgress; 8];
        states[..registered].fill(clique(1));
        mk_gpus(&states)
    };
    // Each registration takes nearly as long as the limit.
    let nearly = limit.saturating_sub(SECOND);
    let mut now = Duration::ZERO;
    for registered in 0..8 {
        assert_eq!(
            fixture.read(now, &boot(registered)).code(),
            "fabric-in-progress",
            "{registered} registered"
        );
        now += nearly;
    }
    assert_eq!(fixture.read(now, &boot(8)).code(), "clique");
}

// req: NODE-43
#[test]
fn a_gpu_that_never_registers_delays_the_others_for_the_configured_time() {
    let config = WatchConfig::default();
    for state in unregistered() {
        let limit = if state.is_registering() {
            config.registering_for
        } else {
            config.failed_for
        };
        let gpus = mk_gpus(&[clique(1), state.clone()]);
        let mut fixture = Fixture::new();
        for early in [Duration::ZERO, limit / 2, limit.saturating_sub(SECOND)] {
            assert_eq!(fixture.read(early, &gpus).clique(), None, "{state}");
        }
        let fabric = fixture.read(limit, &gpus);
        assert_eq!(fabric.code(), "clique-incomplete", "{state}");
    }
}

#[test]
fn a_flapping_gpu_does_not_extend_the_delay() {
    let mut fixture = Fixture::new();
    let limit = fixture.config.registering_for;
    let mut now = Duration::ZERO;
    while now < limit {
        for state in [GpuFabricState::InProgress, failed()] {
            let fabric = fixture.read(now, &mk_gpus(&[clique(1), state.clone()]));
            let is_over = !state.is_registering() && now >= fixture.config.failed_for;
            assert_eq!(fabric.clique().is_some(), is_over, "{state} at {now:?}");
            if is_over {
                return;
            }
            now += SECOND;
        }
    }
    panic!("never in force");
}

#[test]
fn gpus_that_disagree_are_never_a_clique() {
    let mut fixture = Fixture::new();
    fixture.read(Duration::ZERO, &mk_gpus(&[clique(1), clique(1), clique(1)]));
    for hour in 1..3 {
        let disagree = mk_gpus(&[clique(1), clique(2), clique(2)]);
        let fabric = fixture.read(3600 * hour * SECOND, &disagree);
        assert_eq!(fabric.code(), "gpus-disagree");
        let one_failed = mk_gpus(&[clique(1), clique(2), failed()]);
        let fabric = fixture.read((3600 * hour + 1) * SECOND, &one_failed);
        assert_eq!(fabric.clique(), None);
    }
}

#[test]
fn another_clique_of_the_rest_waits_like_a_new_one() {
    let mut fixture = Fixture::new();
    fixture.read(Duration::ZERO, &mk_gpus(&[clique(1), clique(1)]));
    let moved = mk_gpus(&[clique(2), failed()]);
    assert_eq!(fixture.read(SECOND, &moved).clique(), None);
    let later = SECOND + fixture.config.failed_for;
    let fabric = fixture.read(later, &moved);
    assert_eq!(fabric.clique().map(|it| it.id), Some(2));
}

#[test]
fn a_clique_without_gpus_is_no_longer_in_force() {
    let none_left = [
        Vec::new(),
        mk_gpus(&[failed(), failed()]),
        mk_gpus(&[GpuFabricState::InProgress, GpuFabricState::InProgress]),
        mk_gpus(&[GpuFabricState::NotSupported, GpuFabricState::NotSupported]),
    ];
    for gpus in none_left {
        let mut fixture = Fixture::new();
        fixture.read(Duration::ZERO, &mk_gpus(&[clique(1), clique(1)]));
        assert_eq!(fixture.read(SECOND, &gpus).clique(), None, "{gpus:?}");
        // Registered again, one after another.
        let begins = mk_gpus(&[clique(1), GpuFabricState::InProgress]);
        assert_eq!(fixture.read(SECOND * 2, &begins).clique(), None, "{gpus:?}");
    }
}

#[test]
fn a_failure_of_the_driver_resets_the_clique() {
    let mut fixture = Fixture::new();
    fixture.read(Duration::ZERO, &mk_gpus(&[clique(1), clique(1)]));
    fixture.memory.forget();
    let begins = mk_gpus(&[clique(1), GpuFabricState::InProgress]);
    assert_eq!(fixture.read(SECOND, &begins).clique(), None);
}

#[test]
fn gpus_that_were_never_in_the_clique_are_not_missing() {
    let mut fixture = Fixture::new();
    let gpus = mk_gpus(&[clique(1), GpuFabricState::NotSupported]);
    fixture.read(Duration::ZERO, &gpus);
    assert_eq!(fixture.read(SECOND, &gpus[..1]).code(), "clique");
}
