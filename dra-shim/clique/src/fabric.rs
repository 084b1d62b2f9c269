//! The fabric of a whole node as one value, with its reason, code and hint.

use std::fmt;
use std::time::Duration;

use crate::clique::CliqueId;
use crate::gpu::{FabricState, Gpu, GpuRef};
use crate::health::Health;
use crate::nvml::NvmlFailure;
use crate::probe::{NoLibrary, ProbeError};

/// What a node can say about its clique. `Display` is a one-line reason.
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
    /// A call into NVML has not returned for this long.
    NoAnswer {
        /// How long ago the read began.
        waited: Duration,
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

/// Why a node's clique is not known.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsettled {
    /// The first read has not come back.
    NotReadYet,
    /// NVML works and sees no GPU: none is attached (yet).
    NoGpus,
    /// A GPU's registration is not completed.
    Gpu {
        /// The GPU that is furthest from being usable.
        gpu: GpuRef,
        /// Where its registration stands.
        state: FabricState,
        /// How many GPUs of this node are not settled, this one included.
        unsettled: usize,
        /// How many GPUs this node has.
        gpus: usize,
    },
    /// Two GPUs are in different cliques.
    Disagree {
        /// The first GPU with a clique.
        one: (GpuRef, CliqueId),
        /// The first GPU with another.
        other: (GpuRef, CliqueId),
    },
}

// === impl Fabric ===

impl Fabric {
    /// Folds the GPUs of one read. A GPU that cannot be in a fabric, or
    /// registered without one, contributes nothing and disagrees with nobody.
    pub fn of(gpus: &[Gpu]) -> Self {
        if gpus.is_empty() {
            return Self::Unsettled(Unsettled::NoGpus);
        }
        if let Some(unsettled) = Unsettled::worst(gpus) {
            return Self::Unsettled(unsettled);
        }
        let mut members = gpus.iter().filter_map(|gpu| Some((gpu, gpu.clique()?)));
        let Some((first, id)) = members.next() else {
            return Self::NoClique(NoClique::of(gpus));
        };
        match members.find(|(_, other)| *other != id) {
            Some((gpu, other)) => Self::Unsettled(Unsettled::Disagree {
                one: (first.id.clone(), id),
                other: (gpu.id.clone(), other),
            }),
            None => Self::Clique(Clique::of(id, gpus)),
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
            Self::NoAnswer { waited } if waited.as_secs() == 0 => {
                write!(f, "no answer from NVML for {} ms", waited.as_millis())
            }
            Self::NoAnswer { waited } => {
                write!(f, "no answer from NVML for {} s", waited.as_secs())
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
    fn of(id: CliqueId, gpus: &[Gpu]) -> Self {
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
        for DegradedGpu { gpu, health } in &self.degraded {
            write!(f, "; {gpu} is degraded: {health}")?;
        }
        Ok(())
    }
}

// === impl NoClique ===

impl NoClique {
    fn of(gpus: &[Gpu]) -> Self {
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

// === impl Unsettled ===

impl Unsettled {
    /// The GPU furthest from being usable; of equals, the first.
    fn worst(gpus: &[Gpu]) -> Option<Self> {
        let blocked = || {
            gpus.iter()
                .filter_map(|gpu| Some((distance(&gpu.fabric)?, gpu)))
        };
        let (_, gpu) = blocked().min_by_key(|(distance, gpu)| (*distance, gpu.id.index))?;
        Some(Self::Gpu {
            gpu: gpu.id.clone(),
            state: gpu.fabric.clone(),
            unsettled: blocked().count(),
            gpus: gpus.len(),
        })
    }

    fn code(&self) -> &'static str {
        match self {
            Self::NotReadYet => "fabric-not-read-yet",
            Self::NoGpus => "no-gpus",
            Self::Disagree { .. } => "gpus-disagree",
            Self::Gpu { state, .. } => match state {
                FabricState::InProgress => "fabric-in-progress",
                FabricState::NotStarted => "fabric-not-started",
                FabricState::Failed { .. } => "fabric-failed",
                FabricState::Unreadable(_) => "gpu-unreadable",
                _ => "fabric-state-unknown",
            },
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            Self::NotReadYet => "",
            Self::NoGpus => {
                "check `nvidia-smi -L` on the host; GPUs bound to vfio-pci are not visible to NVML"
            }
            Self::Disagree { .. } => {
                "put all GPUs of this node into one partition of the fabric (fabric manager or NMX controller)"
            }
            Self::Gpu { state, .. } => match state {
                FabricState::Unreadable(failure) => failure.hint(),
                FabricState::InProgress | FabricState::NotStarted => {
                    "wait for the fabric manager; if it lasts, check that it runs and that this GPU is in a partition"
                }
                FabricState::Failed { .. } => {
                    "look at the fabric manager's log for this GPU; resetting the GPU registers it again"
                }
                _ => "the driver is newer than this program knows; update this program",
            },
        }
    }
}

/// How much is wrong with a GPU that is not settled: 0 is worst.
fn distance(state: &FabricState) -> Option<u8> {
    match state {
        FabricState::Failed { .. } => Some(0),
        FabricState::Unreadable(_) => Some(1),
        FabricState::Unrecognised(_) => Some(2),
        FabricState::NotStarted => Some(3),
        FabricState::InProgress => Some(4),
        FabricState::NotSupported | FabricState::Completed { .. } => None,
    }
}

impl fmt::Display for Unsettled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReadYet => f.write_str("the fabric has not been read yet"),
            Self::NoGpus => f.write_str("NVML sees no GPU on this node"),
            Self::Gpu {
                gpu,
                state,
                unsettled,
                gpus,
            } => write!(f, "{gpu}: {state} ({unsettled} of {gpus} GPUs not settled)"),
            Self::Disagree { one, other } => write!(
                f,
                "GPUs disagree: {} is in clique {}, {} in clique {}",
                one.0, one.1, other.0, other.1
            ),
        }
    }
}

#[cfg(test)]
#[path = "fabric_tests.rs"]
mod tests;
