//! One GPU and where its registration with the NVLink fabric stands.

use std::fmt;

use crate::clique::{CliqueId, ClusterUuid};
use crate::health::Health;
use crate::nvml::{NvmlCode, NvmlFailure};

/// A GPU as one read saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// NVML's index and, if it could be read, the UUID.
    pub id: GpuRef,
    /// The product name; `None` if it could not be read.
    pub name: Option<String>,
    /// Where its registration stands.
    pub fabric: FabricState,
    /// Health of its part of the fabric; `None` before info v2 of NVML and
    /// where the registration is not completed.
    pub health: Option<Health>,
}

/// Which GPU a reason is about: `gpu 2 (GPU-…)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GpuRef {
    /// NVML's index, from 0.
    pub index: u32,
    /// NVML's UUID (`GPU-…`), if it could be read.
    pub uuid: Option<String>,
}

/// A GPU's registration with the fabric (`nvmlGpuFabricState_t` and the fields
/// that are meaningful in it).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FabricState {
    /// The GPU is a display adapter of a DGX station by its name. It was asked
    /// nothing more, as Go's driver asks it nothing, and counts for nothing.
    DisplayAdapter,
    /// The GPU cannot be part of a fabric.
    NotSupported,
    /// Registration has not begun.
    NotStarted,
    /// Registration is under way.
    InProgress,
    /// Registered.
    Completed {
        /// The fabric; all zero on NVLink systems that are not multi-node.
        cluster: ClusterUuid,
        /// The partition of the fabric; 0 is valid.
        clique_id: u32,
    },
    /// Registration ended with an error.
    Failed {
        /// What it ended with.
        status: NvmlCode,
    },
    /// A state newer than this crate.
    Unrecognised(u8),
    /// NVML would not say.
    Unreadable(NvmlFailure),
}

// === impl Gpu ===

impl Gpu {
    /// The clique that this GPU puts the node into, if any: only a completed
    /// registration with a real fabric names one.
    pub fn clique(&self) -> Option<CliqueId> {
        match self.fabric {
            FabricState::Completed { cluster, clique_id } if !cluster.is_zero() => Some(CliqueId {
                cluster,
                id: clique_id,
            }),
            _ => None,
        }
    }
}

// === impl GpuRef ===

impl fmt::Display for GpuRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gpu {}", self.index)?;
        match &self.uuid {
            Some(uuid) => write!(f, " ({uuid})"),
            None => Ok(()),
        }
    }
}

// === impl FabricState ===

impl fmt::Display for FabricState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DisplayAdapter => f.write_str("a display adapter, skipped by its name"),
            Self::NotSupported => f.write_str("fabric not supported"),
            Self::NotStarted => f.write_str("fabric registration not started"),
            Self::InProgress => f.write_str("fabric registration in progress"),
            Self::Completed { cluster, .. } if cluster.is_zero() => {
                f.write_str("fabric registration completed, cluster UUID all zero")
            }
            Self::Completed { cluster, clique_id } => {
                write!(
                    f,
                    "fabric registration completed, clique {cluster}.{clique_id}"
                )
            }
            Self::Failed { status } => write!(f, "fabric registration failed with {status}"),
            Self::Unrecognised(state) => write!(f, "unknown fabric state {state}"),
            Self::Unreadable(failure) => write!(f, "unreadable: {failure}"),
        }
    }
}
