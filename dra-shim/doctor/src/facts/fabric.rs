//! The node's place in the NVLink fabric, as NVML reports it.

use std::sync::mpsc;
use std::time::Duration;

use nvml_clique::{
    DriverRoot, Fabric, FabricWatch, Gpu, GpuFabricState, NvmlProbe, Reading, WatchConfig,
};

/// When a read counts as hung. Without a persistence daemon, NVML takes seconds.
const HUNG_AFTER: Duration = Duration::from_secs(10);

/// The deadline of the watch, which normally reports a hung read itself.
const GIVE_UP_AFTER: Duration = Duration::from_secs(15);

/// NVML's report about the fabric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FabricFacts {
    /// There is no NVML library.
    NoLibrary,
    /// The host is examined through another root, whose library this process does not load.
    OtherRoot,
    /// The probe could not be started, or never reported a result.
    NoAnswer,
    /// NVML was queried.
    Read {
        /// The fabric of the whole node, or why it is unknown.
        fabric: Fabric,
        /// The number of GPUs without display adapters; `None` if NVML did not enumerate
        /// them.
        gpus: Option<usize>,
        /// The number of GPUs in a clique whose health NVML does not report.
        health_unknown: usize,
    },
}

// === impl FabricFacts ===

impl FabricFacts {
    /// Queries NVML of the driver in `root`, for at most 15 seconds.
    pub(crate) fn read(is_this_host: bool, root: Option<DriverRoot>) -> Self {
        let Some(root) = root else {
            return Self::NoLibrary;
        };
        if !is_this_host {
            return Self::OtherRoot;
        }
        match first_reading(root) {
            None => Self::NoAnswer,
            Some(Reading { fabric, gpus, .. }) => Self::Read {
                fabric,
                gpus: gpus.as_deref().map(count),
                health_unknown: gpus.as_deref().map_or(0, count_unreported),
            },
        }
    }

    /// The fabric, if NVML was queried and reported a result.
    pub fn fabric(&self) -> Option<&Fabric> {
        match self {
            Self::Read { fabric, .. } => Some(fabric),
            Self::NoLibrary | Self::OtherRoot | Self::NoAnswer => None,
        }
    }
}

/// Reads the fabric on a thread of its own, because NVML may hang. The thread is abandoned after
/// [`GIVE_UP_AFTER`].
fn first_reading(root: DriverRoot) -> Option<Reading> {
    let (send, first) = mpsc::channel();
    let config = WatchConfig::default().hung_after(HUNG_AFTER);
    let watch = FabricWatch::spawn(NvmlProbe::new(root), config, move |reading: &Reading| {
        // After the first reading, the receiver is gone.
        let _ = send.send(reading.clone());
    });
    let _watch = watch.ok()?;
    first.recv_timeout(GIVE_UP_AFTER).ok()
}

fn count(gpus: &[Gpu]) -> usize {
    let counts = |gpu: &&Gpu| gpu.fabric != GpuFabricState::DisplayAdapter;
    gpus.iter().filter(counts).count()
}

/// Counts GPUs in a clique without known health: the driver does not report health, or reports 0.
fn count_unreported(gpus: &[Gpu]) -> usize {
    let in_clique = gpus.iter().filter(|gpu| gpu.clique().is_some());
    let unreported = in_clique.filter(|gpu| !gpu.health.is_some_and(|it| it.is_reported()));
    unreported.count()
}

#[cfg(test)]
mod tests {
    use nvml_clique::{ClusterUuid, GpuRef, Health, HealthSummary};

    use super::*;

    fn gpu(fabric: GpuFabricState, health: Option<Health>) -> Gpu {
        Gpu {
            id: GpuRef {
                index: 0,
                uuid: None,
            },
            name: None,
            fabric,
            health,
        }
    }

    #[test]
    fn display_adapters_are_not_counted() {
        let states = [GpuFabricState::DisplayAdapter, GpuFabricState::NotSupported];
        assert_eq!(count(&states.map(|state| gpu(state, None))), 1);
        assert_eq!(count(&[]), 0);
    }

    #[test]
    fn health_is_known_only_of_gpus_that_report_it() {
        let in_clique = GpuFabricState::Completed {
            cluster: ClusterUuid([1; 16]),
            clique_id: 0,
        };
        let health = |mask, summary| Some(Health { mask, summary });
        for (health, unknown) in [
            (health(0x1aa, None), 0),
            (health(0, Some(HealthSummary::Healthy)), 0),
            (health(0, None), 1),
            (health(0, Some(HealthSummary::NotSupported)), 1),
            (None, 1),
        ] {
            assert_eq!(count_unreported(&[gpu(in_clique.clone(), health)]), unknown);
        }
        let outside = gpu(GpuFabricState::NotSupported, None);
        assert_eq!(count_unreported(&[outside]), 0);
    }
}
