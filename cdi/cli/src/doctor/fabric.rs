//! Each GPU's place in the NVLink fabric, as NVML tells it.

use std::sync::mpsc;
use std::time::Duration;

use nvml_clique::{DriverRoot, Fabric, FabricWatch, Gpu, NvmlProbe, Reading, WatchConfig};

use super::driver::Driver;
use super::files::Files;
use super::finding::{Checked, Finding, Severity};

/// NVML takes seconds where no persistence daemon runs.
const HUNG_AFTER: Duration = Duration::from_secs(10);

/// The watch itself says when a read hangs; this is for giving up on the watch.
const NO_WORD_AFTER: Duration = Duration::from_secs(15);

/// What the node's fabric is, if NVML was asked, and what that means.
pub(super) fn check(files: &Files, driver: &Driver) -> (Option<Fabric>, Checked) {
    let Some(root) = &driver.root else {
        return (None, Checked::skipped("not asked: no NVML library"));
    };
    if !files.is_this_host() {
        let skipped = Finding::info(
            "fabric-not-read",
            "NVML",
            "the driver's library is not loaded from another root",
            "run this on the host, or in a container of the driver, with --root /",
        );
        let checked = Checked::new("not asked: another root", vec![skipped]);
        return (None, checked);
    }
    match read(root.clone()) {
        Some(reading) => {
            let checked = judge(&reading);
            (Some(reading.fabric), checked)
        }
        None => (None, Checked::new("no answer", vec![no_thread()])),
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

fn judge(reading: &Reading) -> Checked {
    let Reading { fabric, gpus, .. } = reading;
    let summary = match gpus {
        Some(gpus) => format!("{} GPUs: {fabric}", gpus.len()),
        None => fabric.to_string(),
    };
    let gpus = gpus.as_deref().unwrap_or_default();
    let Some(severity) = severity(fabric) else {
        return Checked::new(summary, vec![]);
    };
    let each: Vec<String> = gpus.iter().map(of_gpu).collect();
    let evidence = match each.as_slice() {
        [] => fabric.to_string(),
        _ => format!("{fabric}; {}", each.join("; ")),
    };
    let finding = Finding::new(
        severity,
        fabric.code(),
        "NVLink fabric",
        evidence,
        fabric.hint(),
    );
    Checked::new(summary, vec![finding])
}

fn severity(fabric: &Fabric) -> Option<Severity> {
    match fabric {
        Fabric::Clique(clique) if clique.degraded.is_empty() => None,
        Fabric::Clique(_) => Some(Severity::Warning),
        Fabric::NoClique(_) => Some(Severity::Info),
        Fabric::Unsettled(_)
        | Fabric::NoLibrary(_)
        | Fabric::NvmlFailed(_)
        | Fabric::NoAnswer { .. } => Some(Severity::Error),
    }
}

fn of_gpu(gpu: &Gpu) -> String {
    let health = gpu
        .health
        .as_ref()
        .map(|health| health.problems().join(", "));
    match health.filter(|problems| !problems.is_empty()) {
        Some(problems) => format!("{}: {}, {problems}", gpu.id, gpu.fabric),
        None => format!("{}: {}", gpu.id, gpu.fabric),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nvml_clique::{ClusterUuid, FabricState, GpuRef};

    use super::*;

    fn judged(states: &[FabricState]) -> Checked {
        let gpus: Vec<Gpu> = (0..)
            .zip(states)
            .map(|(index, fabric)| Gpu {
                id: GpuRef { index, uuid: None },
                name: None,
                fabric: fabric.clone(),
                health: None,
            })
            .collect();
        judge(&Reading {
            fabric: Fabric::of(&gpus),
            gpus: Some(Arc::from(gpus)),
            age: None,
        })
    }

    #[test]
    fn a_fabric_is_bad_news_only_while_nothing_can_be_prepared() {
        let complete = FabricState::Completed {
            cluster: ClusterUuid([1; 16]),
            clique_id: 0,
        };
        assert_eq!(judged(std::slice::from_ref(&complete)).worst(), None);
        let none = judged(&[FabricState::NotSupported]);
        assert_eq!(none.worst(), Some(Severity::Info));
        let coming = judged(&[complete, FabricState::InProgress]);
        assert_eq!(coming.worst(), Some(Severity::Error));
        let evidence = &coming.findings[0].evidence;
        assert!(
            evidence.contains("gpu 1: fabric registration in progress"),
            "{evidence}"
        );
        assert_eq!(judged(&[]).worst(), Some(Severity::Error));
    }
}
