//! One GPU and the state of its registration with the NVLink fabric.

use std::fmt;

use crate::clique_id::{CliqueId, ClusterUuid};
use crate::health::Health;
use crate::nvml_failure::{NvmlCode, NvmlFailure};

/// A GPU as found by one read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// NVML's index and, if it could be read, the UUID.
    pub id: GpuRef,
    /// The product name; `None` if it could not be read.
    pub name: Option<String>,
    /// The state of its registration with the fabric.
    pub fabric: GpuFabricState,
    /// The health of its part of the fabric; `None` unless the registration is
    /// completed and NVML has fabric info v2.
    pub health: Option<Health>,
}

/// Identifies a GPU in messages. Displays as `gpu 2 (GPU-…)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GpuRef {
    /// NVML's index, from 0.
    pub index: u32,
    /// NVML's UUID (`GPU-…`), if it could be read.
    pub uuid: Option<String>,
}

/// The state of one GPU's registration with the fabric: `nvmlGpuFabricState_t`
/// and the fields that are meaningful in it.
///
/// [`NodeFabricState`](crate::NodeFabricState) is that of a whole node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GpuFabricState {
    /// By its name, the GPU is a display adapter of a DGX station. It is ignored
    /// and not queried further, as in the Go driver.
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
    /// Registration ended with an error: NVML's state is "completed", and its
    /// status not success.
    Failed {
        /// The error.
        status: NvmlCode,
    },
    /// A state that this crate does not know.
    Unrecognised(u8),
    /// A call about this GPU failed.
    Unreadable(NvmlFailure),
}

// === impl Gpu ===

impl Gpu {
    /// The clique that this GPU belongs to. `None` unless its registration is
    /// completed with a cluster UUID other than zero.
    pub fn clique(&self) -> Option<CliqueId> {
        match self.fabric {
            GpuFabricState::Completed { cluster, clique_id } if !cluster.is_zero() => {
                Some(CliqueId {
                    cluster,
                    id: clique_id,
                })
            }
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

// === impl GpuFabricState ===

impl fmt::Display for GpuFabricState {
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
