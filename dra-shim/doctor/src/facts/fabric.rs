//! The node's place in the NVLink fabric, as NVML reports it.

use std::sync::mpsc;
use std::time::Duration;

use nvml_clique::{
    DriverRoot, Fabric, FabricWatch, Gpu, GpuFabricState, NvmlProbe, Reading, WatchConfig,
};

/// NVML takes seconds where no persistence daemon runs.
const HUNG_AFTER: Duration = Duration::from_secs(10);

/// The watch itself reports a read that hangs; this is for giving up on the
/// watch.
const GIVE_UP_AFTER: Duration = Duration::from_secs(15);

/// What NVML reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FabricFacts {
    /// There is no library to ask.
    NoLibrary,
    /// The host is examined through another root, whose library is not loaded
    /// into this process.
    OtherRoot,
    /// The probe could not be started, or never reported anything.
    NoAnswer,
    /// NVML was asked.
    Read {
        /// The fabric of the whole node, or why it is not known.
        fabric: Fabric,
        /// The number of GPUs without display adapters; `None` if NVML never
        /// enumerated them.
        gpus: Option<usize>,
    },
}

// === impl FabricFacts ===

impl FabricFacts {
    /// Asks NVML of the driver in `root`, for at most 15 seconds.
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
            },
        }
    }

    /// The fabric, if NVML was asked and reported anything.
    pub fn fabric(&self) -> Option<&Fabric> {
        match self {
            Self::Read { fabric, .. } => Some(fabric),
            Self::NoLibrary | Self::OtherRoot | Self::NoAnswer => None,
        }
    }
}

/// NVML may hang: the read runs on a thread of its own, which is given up after
/// [`GIVE_UP_AFTER`].
fn first_reading(root: DriverRoot) -> Option<Reading> {
    let (send, first) = mpsc::channel();
    let config = WatchConfig::default().hung_after(HUNG_AFTER);
    let watch = FabricWatch::spawn(NvmlProbe::new(root), config, move |reading: &Reading| {
        // Nobody listens any more once there was an answer.
        let _ = send.send(reading.clone());
    });
    let _watch = watch.ok()?;
    first.recv_timeout(GIVE_UP_AFTER).ok()
}

fn count(gpus: &[Gpu]) -> usize {
    let counts = |gpu: &&Gpu| gpu.fabric != GpuFabricState::DisplayAdapter;
    gpus.iter().filter(counts).count()
}

#[cfg(test)]
mod tests {
    use nvml_clique::GpuRef;

    use super::*;

    #[test]
    fn display_adapters_are_not_counted() {
        let gpus: Vec<Gpu> = (0..)
            .zip([GpuFabricState::DisplayAdapter, GpuFabricState::NotSupported])
            .map(|(index, fabric)| Gpu {
                id: GpuRef { index, uuid: None },
                name: None,
                fabric,
                health: None,
            })
            .collect();
        assert_eq!(count(&gpus), 1);
        assert_eq!(count(&[]), 0);
    }
}
