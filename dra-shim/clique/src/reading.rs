//! The latest reading of a watch.

use std::sync::Arc;
use std::time::Instant;

use nvml_session::OpenError as ProbeError;

use crate::clique_in_force::CliqueInForce;
use crate::fabric::Fabric;
use crate::gpu::Gpu;
use crate::node_state::{FabricEvent, NodeFabricState};
use crate::pending::Pending;
use crate::watch_config::{Pause, WatchConfig};

/// A snapshot of a [`FabricWatch`](crate::FabricWatch)'s observations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The node's state, which also records whether the watch has ever found a driver.
    pub state: NodeFabricState,
    /// The details: the last result, or [`Fabric::NoAnswer`] while a read is
    /// overdue.
    pub fabric: Fabric,
    /// The GPUs of NVML's last enumeration, which may be older than `fabric`, followed by those
    /// that [vanished](crate::GpuFabricState::Vanished) from the clique in force. `None` if
    /// NVML has not enumerated GPUs since the watch began.
    pub gpus: Option<Arc<[Gpu]>>,
}

/// The last result, and the current read.
#[derive(Debug)]
pub(crate) struct Latest {
    state: NodeFabricState,
    /// The last result. Hidden while `state` is [`NodeFabricState::NoAnswer`].
    fabric: Fabric,
    gpus: Option<Arc<[Gpu]>>,
    clique: CliqueInForce,
    /// The time of the last result that differed from the previous one.
    changed: Instant,
    /// The start of the last read, even if it has not returned.
    read_began: Instant,
}

// === impl Latest ===

impl Latest {
    /// Creates the state before the first read.
    pub(crate) fn new() -> Self {
        Self {
            state: NodeFabricState::default(),
            fabric: Fabric::Pending(Pending::NotReadYet),
            gpus: None,
            clique: CliqueInForce::default(),
            changed: Instant::now(),
            read_began: Instant::now(),
        }
    }

    pub(crate) fn read_begins(&mut self) {
        self.read_began = Instant::now();
    }

    pub(crate) fn read_is_overdue(&mut self) {
        self.state = self.state.next(FabricEvent::Overdue);
    }

    /// Stores the result of a read that returned at `now`. Returns whether the reading changed.
    pub(crate) fn read_returned(
        &mut self,
        result: Result<Vec<Gpu>, ProbeError>,
        now: Instant,
        config: &WatchConfig,
    ) -> bool {
        let (fabric, gpus) = match result {
            Ok(mut gpus) => {
                let fabric = self.clique.read(&mut gpus, now, config);
                (fabric, Some(Arc::from(gpus)))
            }
            Err(error) => {
                self.clique.forget();
                (Fabric::from(error), self.gpus.clone())
            }
        };
        let state = self.state.next(fabric.event());
        let changed = state != self.state || fabric != self.fabric || gpus != self.gpus;
        self.state = state;
        self.fabric = fabric;
        self.gpus = gpus;
        if changed {
            self.changed = now;
        }
        changed
    }

    pub(crate) fn pause(&self, now: Instant, config: &WatchConfig) -> Pause {
        config.pause(self.state, now.duration_since(self.changed))
    }

    /// The current reading, without the call in [`Fabric::NoAnswer`].
    pub(crate) fn reading(&self) -> Reading {
        let fabric = match self.state {
            NodeFabricState::NoAnswer => Fabric::NoAnswer {
                waited: self.read_began.elapsed(),
                call: None,
            },
            _ => self.fabric.clone(),
        };
        Reading {
            state: self.state,
            fabric,
            gpus: self.gpus.clone(),
        }
    }
}
