//! Each GPU's place in the NVLink fabric, as NVML tells it.

use std::sync::mpsc;
use std::time::Duration;

use nvml_clique::{
    DriverRoot, Fabric, FabricWatch, Gpu, GpuFabricState, NvmlProbe, Reading, WatchConfig,
};

use super::driver::Driver;
use crate::area::AreaReport;
use crate::files::HostFiles;
use crate::finding::{Finding, Severity};
use crate::text::counted;

/// NVML takes seconds where no persistence daemon runs.
const HUNG_AFTER: Duration = Duration::from_secs(10);

/// The watch itself says when a read hangs; this is for giving up on the watch.
const NO_WORD_AFTER: Duration = Duration::from_secs(15);

/// What the node's fabric is, if NVML was asked, and what that means.
pub(super) fn check(files: &HostFiles, driver: &Driver) -> (Option<Fabric>, AreaReport) {
    let Some(root) = &driver.root else {
        return (None, AreaReport::skipped("not asked: no NVML library"));
    };
    if !files.is_this_host() {
        let skipped = Finding::info(
            "fabric-not-read",
            "NVML",
            "the driver's library is not loaded from another root",
            "run this on the host, or in a container of the driver, with --root /",
        );
        let checked = AreaReport::new("not asked: another root", vec![skipped]);
        return (None, checked);
    }
    match read(root.clone()) {
        Some(reading) => {
            let checked = judge(&reading);
            (Some(reading.fabric), checked)
        }
        None => (None, AreaReport::new("no answer", vec![no_thread()])),
    }
}

/// The first answer, or that there is none.
fn read(root: DriverRoot) -> Option<Reading> {
    let (send, first) = mpsc::channel();
    let config = WatchConfig::default().hung_after(HUNG_AFTER);
    let watch = FabricWatch::spawn(NvmlProbe::new(root), config, move |reading: &Reading| {
        // Nobody listens any more once there was an answer.
        let _ = send.send(reading.clone());
    });
    let _watch = watch.ok()?;
    first.recv_timeout(NO_WORD_AFTER).ok()
}

fn no_thread() -> Finding {
    Finding::error(
        "fabric-probe-failed",
        "NVML",
        "the probe could not be started, or said nothing",
        "look at the host's limits on threads and memory (ulimit -u)",
    )
}

fn judge(reading: &Reading) -> AreaReport {
    let Reading { fabric, gpus, .. } = reading;
    let finding = severity(fabric).map(|severity| {
        let (id, fix) = (fabric.code(), fabric.hint());
        Finding::new(severity, id, "NVLink fabric", fabric.to_string(), fix)
    });
    let summary = match gpus {
        Some(gpus) => format!("{}: {}", counted(count(gpus), "GPU"), in_short(fabric)),
        None => in_short(fabric),
    };
    AreaReport::new(summary, finding.into_iter().collect())
}

fn count(gpus: &[Gpu]) -> usize {
    let counts = |gpu: &&Gpu| gpu.fabric != GpuFabricState::DisplayAdapter;
    gpus.iter().filter(counts).count()
}

/// What stands beside the finding, which has the rest.
fn in_short(fabric: &Fabric) -> String {
    match fabric {
        Fabric::Clique(clique) if clique.degraded.is_empty() => format!("clique {}", clique.id),
        Fabric::Clique(clique) => {
            format!("clique {}, {} degraded", clique.id, clique.degraded.len())
        }
        Fabric::NoClique(_) => "in no clique".to_owned(),
        Fabric::Pending(_) => "clique not known".to_owned(),
        Fabric::NoLibrary(_) => "no library to ask".to_owned(),
        Fabric::NvmlFailed(_) => "NVML fails".to_owned(),
        Fabric::NoAnswer { .. } => "no answer".to_owned(),
    }
}

fn severity(fabric: &Fabric) -> Option<Severity> {
    match fabric {
        Fabric::Clique(clique) if clique.degraded.is_empty() => None,
        Fabric::Clique(_) => Some(Severity::Warning),
        Fabric::NoClique(_) => Some(Severity::Info),
        Fabric::Pending(_)
        | Fabric::NoLibrary(_)
        | Fabric::NvmlFailed(_)
        | Fabric::NoAnswer { .. } => Some(Severity::Error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nvml_clique::{ClusterUuid, GpuRef, Health, NodeFabricState};

    use super::*;

    const COMPLETE: GpuFabricState = GpuFabricState::Completed {
        cluster: ClusterUuid([1; 16]),
        clique_id: 0,
    };

    fn judged(states: &[GpuFabricState]) -> AreaReport {
        let gpus: Vec<Gpu> = (0..)
            .zip(states)
            .map(|(index, fabric)| Gpu {
                id: GpuRef { index, uuid: None },
                name: None,
                fabric: fabric.clone(),
                health: Some(Health {
                    mask: u32::from(index % 2 == 1),
                    summary: None,
                }),
            })
            .collect();
        judge(&Reading {
            fabric: Fabric::from_gpus(&gpus),
            gpus: Some(Arc::from(gpus)),
            state: NodeFabricState::default(),
        })
    }

    #[test]
    fn a_fabric_is_bad_news_only_while_nothing_can_be_prepared() {
        assert_eq!(judged(&[COMPLETE]).worst(), None);
        let none = judged(&[GpuFabricState::NotSupported]);
        assert_eq!(none.worst(), Some(Severity::Info));
        let coming = judged(&[COMPLETE, GpuFabricState::InProgress]);
        assert_eq!(coming.worst(), Some(Severity::Error));
        let evidence = &coming.findings[0].evidence;
        assert!(
            evidence.contains("gpu 1: fabric registration in progress"),
            "{evidence}"
        );
        assert_eq!(judged(&[]).worst(), Some(Severity::Error));
    }

    #[test]
    fn each_thing_is_said_once_however_many_gpus_there_are() {
        for gpus in [8, 16, 72] {
            let coming = judged(&vec![GpuFabricState::InProgress; gpus]);
            assert_eq!(coming.summary, format!("{gpus} GPUs: clique not known"));
            let evidence = &coming.findings[0].evidence;
            assert_eq!(evidence.matches("in progress").count(), 1, "{evidence}");
            assert!(evidence.len() < 100, "{evidence}");

            let degraded = judged(&vec![COMPLETE; gpus]);
            assert!(
                degraded
                    .summary
                    .ends_with(&format!(".0, {} degraded", gpus / 2)),
                "{}",
                degraded.summary
            );
            let evidence = &degraded.findings[0].evidence;
            assert_eq!(evidence.matches("bandwidth").count(), 1, "{evidence}");
            assert!(evidence.len() < 200, "{evidence}");
        }
    }

    #[test]
    fn display_adapters_are_no_gpus_and_a_host_with_nothing_else_hears_why() {
        let skipped = judged(&[GpuFabricState::DisplayAdapter]);
        assert_eq!(skipped.summary, "0 GPUs: clique not known");
        let evidence = &skipped.findings[0].evidence;
        assert!(
            evidence.contains("1 display adapter, skipped"),
            "{evidence}"
        );
        let beside = judged(&[COMPLETE, GpuFabricState::DisplayAdapter]);
        assert!(
            beside.summary.starts_with("1 GPU: clique "),
            "{}",
            beside.summary
        );
        assert_eq!(beside.worst(), None);
    }
}
