//! The fabric of a whole node as one value, with its reason, code and hint.

use std::fmt;
use std::time::Duration;

use crate::clique::CliqueId;
use crate::gpu::{FabricState, Gpu, GpuRef};
use crate::groups::{grouped, write_groups};
use crate::health::Health;
use crate::nvml::NvmlFailure;
use crate::probe::{NoLibrary, ProbeError};
use crate::unsettled::Unsettled;

/// What a node can say about its clique. `Display` is a one-line reason, of
/// bounded length however many GPUs there are: those of which the same is to be
/// said are told together (`gpus 0-7: ...`).
///
/// Exhaustive on purpose: each variant is a row of what a driver publishes and
/// answers, and a new row is every caller's decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fabric {
    /// The node is in one clique.
    Clique(Clique),
    /// The node is in none, and waiting will not change that.
    NoClique(NoClique),
    /// Not known yet, or not to be trusted; may change without anybody's help.
    Unsettled(Unsettled),
    /// There is no usable `libnvidia-ml.so.1`.
    NoLibrary(NoLibrary),
    /// NVML is there and fails as a whole.
    NvmlFailed(NvmlFailure),
    /// The read under way has not come back for this long.
    NoAnswer {
        /// How long ago it began.
        waited: Duration,
        /// The call that it is in now, by its name in `nvml.h`, or `dlopen`;
        /// `None` between two of them and where the probe does not say.
        call: Option<&'static str>,
    },
}

/// The clique of a node and the state of its GPUs' links to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clique {
    /// Which clique.
    pub id: CliqueId,
    /// GPUs of this clique whose health is less than good; usually empty.
    pub degraded: Vec<DegradedGpu>,
}

/// A GPU that is in its clique, but not in good health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DegradedGpu {
    /// Which GPU.
    pub gpu: GpuRef,
    /// What is wrong with it.
    pub health: Health,
}

/// Why a node is definitely in no clique.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoClique {
    /// No GPU can be part of a fabric.
    NotSupported {
        /// How many GPUs said so.
        gpus: usize,
    },
    /// Every GPU that registered did so without a fabric: the cluster UUID is
    /// all zero, as on NVLink systems that are not multi-node.
    ZeroClusterUuid {
        /// How many GPUs said so.
        gpus: usize,
    },
}

// === impl Fabric ===

impl Fabric {
    /// Folds the GPUs of one read. A GPU that cannot be in a fabric, or
    /// registered without one, contributes nothing and disagrees with nobody;
    /// a display adapter is not even counted.
    pub fn of(gpus: &[Gpu]) -> Self {
        let (displays, gpus): (Vec<_>, Vec<_>) = gpus
            .iter()
            .partition(|gpu| gpu.fabric == FabricState::DisplayAdapter);
        if gpus.is_empty() {
            let displays = displays.len();
            return Self::Unsettled(Unsettled::NoGpus { displays });
        }
        if let Some(unsettled) = Unsettled::registration(&gpus) {
            return Self::Unsettled(unsettled);
        }
        let members: Vec<_> = gpus
            .iter()
            .filter_map(|gpu| Some((gpu.id.clone(), gpu.clique()?)))
            .collect();
        match members.as_slice() {
            [] => Self::NoClique(NoClique::of(&gpus)),
            [(_, id), others @ ..] if others.iter().all(|(_, other)| other == id) => {
                Self::Clique(Clique::of(*id, &gpus))
            }
            _ => Self::Unsettled(Unsettled::Disagree { members }),
        }
    }

    /// The clique, if the node is in one.
    pub fn clique(&self) -> Option<CliqueId> {
        match self {
            Self::Clique(clique) => Some(clique.id),
            _ => None,
        }
    }

    /// True if only a change of the host changes this value: a clique, or
    /// definitely none.
    pub fn is_settled(&self) -> bool {
        matches!(self, Self::Clique(_) | Self::NoClique(_))
    }

    /// A stable word for logs, metrics, conditions and findings.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Clique(clique) if clique.degraded.is_empty() => "clique",
            Self::Clique(_) => "clique-degraded",
            Self::NoClique(NoClique::NotSupported { .. }) => "fabric-not-supported",
            Self::NoClique(NoClique::ZeroClusterUuid { .. }) => "fabric-zero-cluster-uuid",
            Self::Unsettled(unsettled) => unsettled.code(),
            Self::NoLibrary(missing) => missing.code(),
            Self::NvmlFailed(failure) => failure.code(),
            Self::NoAnswer { .. } => "nvml-no-answer",
        }
    }

    /// What to do about it; empty where nothing needs doing.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Clique(clique) if clique.degraded.is_empty() => "",
            Self::Clique(_) => {
                "look at `nvidia-smi -q` (Fabric, Health) and at the fabric manager's log for this GPU"
            }
            Self::NoClique(_) => {
                "use a node whose GPUs belong to a multi-node NVLink fabric (GB200 NVL72 and the like)"
            }
            Self::Unsettled(unsettled) => unsettled.hint(),
            Self::NoLibrary(missing) => missing.hint(),
            Self::NvmlFailed(failure) => failure.hint(),
            Self::NoAnswer { .. } => {
                "look at dmesg for Xid and NVRM lines; a driver call that never returns usually needs a reboot"
            }
        }
    }
}

impl fmt::Display for Fabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clique(clique) => clique.fmt(f),
            Self::NoClique(none) => none.fmt(f),
            Self::Unsettled(unsettled) => unsettled.fmt(f),
            Self::NoLibrary(missing) => missing.fmt(f),
            Self::NvmlFailed(failure) => failure.fmt(f),
            Self::NoAnswer { waited, call } => {
                f.write_str("no answer from NVML for ")?;
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
    fn of(id: CliqueId, gpus: &[&Gpu]) -> Self {
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
        Self { id, degraded }
    }
}

impl fmt::Display for Clique {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "clique {}", self.id)?;
        if self.degraded.is_empty() {
            return Ok(());
        }
        f.write_str("; ")?;
        let degraded = self.degraded.iter();
        let groups = grouped(degraded.map(|it| (&it.gpu, it.health)));
        write_groups(f, &groups, |f, group| {
            let (gpus, are) = (group.gpus(), group.are());
            write!(f, "{gpus} {are} degraded: {}", group.value)
        })
    }
}

// === impl NoClique ===

impl NoClique {
    fn of(gpus: &[&Gpu]) -> Self {
        let registered = gpus
            .iter()
            .filter(|gpu| matches!(gpu.fabric, FabricState::Completed { .. }))
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
