//! The fabric of a whole node: the result of the last read, with a reason, a code and a hint.

use std::fmt;
use std::time::Duration;

use dra_common::Advice;
use nvml_session::{NoLibrary, NvmlFailure, OpenError as ProbeError};

use crate::clique_id::CliqueId;
use crate::gpu::{Gpu, GpuFabricState, GpuRef};
use crate::gpu_groups::{group_by_value, write_groups};
use crate::health::Health;
use crate::node_state::{FabricEvent, NodeFabricState};
use crate::pending::{Pending, PendingGpu, write_states};

/// The result of reading a node's fabric.
///
/// `Display` is a one-line reason of bounded length, with any number of GPUs: GPUs in the same
/// state are grouped (`gpus 0-7: ...`).
///
/// Exhaustive on purpose: a driver must decide for each variant what it publishes and answers,
/// so a new variant is a breaking change.
#[derive(Debug, Clone, PartialEq, Eq, Advice)]
pub enum Fabric {
    /// The node belongs to one clique.
    #[advice(from)]
    Clique(Clique),
    /// The node permanently belongs to no clique.
    #[advice(from)]
    NoClique(NoClique),
    /// The clique is not known yet, or GPUs disagree. May change without intervention.
    #[advice(from)]
    Pending(Pending),
    /// There is no usable `libnvidia-ml.so.1`.
    #[advice(from)]
    NoLibrary(NoLibrary),
    /// NVML was loaded but fails as a whole.
    #[advice(from)]
    NvmlFailed(NvmlFailure),
    /// The current read is overdue. Only a [`FabricWatch`](crate::FabricWatch) reports this.
    #[advice(
        code = "nvml-no-answer",
        hint = "check dmesg for Xid and NVRM lines; a driver call that hangs usually needs a reboot"
    )]
    NoAnswer {
        /// The time since the read began.
        waited: Duration,
        /// The current call; see
        /// [`FabricProbe::current_call`](crate::FabricProbe::current_call).
        call: Option<&'static str>,
    },
}

/// The clique of a node, with the GPUs that have a problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clique {
    /// The clique.
    pub id: CliqueId,
    /// The GPUs of this clique that report a problem; usually empty.
    pub degraded: Vec<DegradedGpu>,
    /// The GPUs whose registration has failed or is incomplete while the others keep their
    /// clique, from worse to better; usually empty. Always empty without a
    /// [`FabricWatch`](crate::FabricWatch), which measures how long the GPUs have been missing.
    pub missing: Vec<PendingGpu>,
}

/// A GPU that belongs to its clique and reports a problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DegradedGpu {
    /// The GPU.
    pub gpu: GpuRef,
    /// The problem.
    pub health: Health,
}

/// The reason why a node permanently belongs to no clique.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, Advice)]
#[advice(
    hint = "use a node whose GPUs belong to a multi-node NVLink fabric (GB200 NVL72 and the like)",
    vis = "pub(crate)"
)]
pub enum NoClique {
    /// None of the node's GPUs supports a fabric.
    #[advice(code = "fabric-not-supported")]
    NotSupported {
        /// The number of GPUs.
        gpus: usize,
    },
    /// The cluster UUID of every registered GPU is all zero: an NVLink system that is not
    /// multi-node.
    #[advice(code = "fabric-zero-cluster-uuid")]
    ZeroClusterUuid {
        /// The number of GPUs.
        gpus: usize,
    },
}

// === impl Fabric ===

impl Fabric {
    /// Combines the GPUs of one read.
    ///
    /// A GPU without fabric support or with an all-zero cluster UUID has no clique, so it cannot
    /// disagree with the others. Display adapters are ignored.
    // req: NODE-10
    pub fn from_gpus(gpus: &[Gpu]) -> Self {
        let (display_adapters, gpus): (Vec<_>, Vec<_>) = gpus
            .iter()
            .partition(|gpu| gpu.fabric == GpuFabricState::DisplayAdapter);
        if gpus.is_empty() {
            return Self::Pending(Pending::NoGpus {
                display_adapters: display_adapters.len(),
            });
        }
        if let Some(pending) = Pending::incomplete_registration(&gpus) {
            return Self::Pending(pending);
        }
        let members: Vec<_> = gpus
            .iter()
            .filter_map(|gpu| Some((gpu.id.clone(), gpu.clique()?)))
            .collect();
        match members.as_slice() {
            [] => Self::NoClique(NoClique::from_gpus(&gpus)),
            [(_, id), others @ ..] if others.iter().all(|(_, other)| other == id) => {
                Self::Clique(Clique::new(*id, &gpus, Vec::new()))
            }
            _ => Self::Pending(Pending::Disagree { members }),
        }
    }

    /// The clique, if the node belongs to one.
    pub fn clique(&self) -> Option<CliqueId> {
        match self {
            Self::Clique(clique) => Some(clique.id),
            _ => None,
        }
    }

    /// Whether only a change of the host can change this value: a clique, or permanently none.
    pub fn is_final(&self) -> bool {
        NodeFabricState::default().next(self.event()).is_final()
    }

    /// The event for [`NodeFabricState::next`]. A program without a
    /// [`FabricWatch`](crate::FabricWatch) can track the node's state with it.
    pub fn event(&self) -> FabricEvent {
        match self {
            Self::Clique(clique) if !clique.missing.is_empty() => FabricEvent::ReadCliqueIncomplete,
            Self::Clique(clique) if clique.degraded.is_empty() => FabricEvent::ReadClique,
            Self::Clique(_) => FabricEvent::ReadCliqueDegraded,
            Self::NoClique(_) => FabricEvent::ReadNoClique,
            Self::Pending(_) => FabricEvent::ReadPending,
            Self::NoLibrary(_) => FabricEvent::ReadNoLibrary,
            Self::NvmlFailed(_) => FabricEvent::ReadNvmlFailed,
            Self::NoAnswer { .. } => FabricEvent::Overdue,
        }
    }
}

impl fmt::Display for Fabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clique(clique) => clique.fmt(f),
            Self::NoClique(none) => none.fmt(f),
            Self::Pending(pending) => pending.fmt(f),
            Self::NoLibrary(missing) => missing.fmt(f),
            Self::NvmlFailed(failure) => failure.fmt(f),
            Self::NoAnswer { waited, call } => {
                f.write_str("NVML has not responded for ")?;
                match waited.as_secs() {
                    0 => write!(f, "{} ms", waited.as_millis())?,
                    seconds => write!(f, "{seconds} s")?,
                }
                call.map_or(Ok(()), |call| write!(f, " (in {call})"))
            }
        }
    }
}

impl From<ProbeError> for Fabric {
    fn from(error: ProbeError) -> Self {
        match error {
            ProbeError::NoLibrary(missing) => Self::NoLibrary(missing),
            ProbeError::Nvml(failure) => Self::NvmlFailed(failure),
        }
    }
}

// === impl Clique ===

impl Clique {
    pub(crate) fn new(id: CliqueId, gpus: &[&Gpu], missing: Vec<PendingGpu>) -> Self {
        let degraded = gpus
            .iter()
            .filter(|gpu| gpu.clique() == Some(id))
            .filter_map(|gpu| {
                let health = gpu.health.filter(Health::is_degraded)?;
                Some(DegradedGpu {
                    gpu: gpu.id.clone(),
                    health,
                })
            })
            .collect();
        Self {
            id,
            degraded,
            missing,
        }
    }

    fn code(&self) -> &'static str {
        match (self.missing.is_empty(), self.degraded.is_empty()) {
            (false, _) => "clique-incomplete",
            (true, true) => "clique",
            (true, false) => "clique-degraded",
        }
    }

    fn hint(&self) -> &'static str {
        match self.missing.first() {
            Some(worst) => worst.hint(),
            None if self.degraded.is_empty() => "",
            None => {
                "check `nvidia-smi -q` (Fabric, Health) and the fabric manager's log for this GPU"
            }
        }
    }
}

impl fmt::Display for Clique {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "clique {}", self.id)?;
        if !self.missing.is_empty() {
            f.write_str(" without ")?;
            write_states(f, self.missing.iter())?;
        }
        if self.degraded.is_empty() {
            return Ok(());
        }
        f.write_str("; ")?;
        let degraded = self.degraded.iter();
        let groups = group_by_value(degraded.map(|it| (&it.gpu, it.health)));
        write_groups(f, &groups, |f, group| {
            let (gpus, are) = (group.gpus(), group.is_or_are());
            write!(f, "{gpus} {are} degraded: {}", group.value)
        })
    }
}

// === impl NoClique ===

impl NoClique {
    fn from_gpus(gpus: &[&Gpu]) -> Self {
        let registered = gpus
            .iter()
            .filter(|gpu| matches!(gpu.fabric, GpuFabricState::Completed { .. }))
            .count();
        if registered == 0 {
            Self::NotSupported { gpus: gpus.len() }
        } else {
            Self::ZeroClusterUuid { gpus: registered }
        }
    }
}

impl fmt::Display for NoClique {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSupported { gpus } => write!(
                f,
                "this node is in no clique: none of its {gpus} GPUs supports an NVLink fabric"
            ),
            Self::ZeroClusterUuid { gpus } => write!(
                f,
                "this node is in no clique: the cluster UUID of its {gpus} registered GPUs is all zero (not a multi-node NVLink system)"
            ),
        }
    }
}

#[cfg(test)]
#[path = "fabric_tests.rs"]
mod tests;
