//! One GPU, with the state of its registration with the NVLink fabric.

use std::fmt;

use dra_common::Advice;
use nvml_session::{NvmlCode, NvmlFailure};

use crate::clique_id::{CliqueId, ClusterUuid};
use crate::health::Health;

/// A GPU, from one read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// NVML's index and, if it could be read, the UUID.
    pub id: GpuRef,
    /// The product name; `None` if it could not be read.
    pub name: Option<String>,
    /// The state of its registration with the fabric.
    pub fabric: GpuFabricState,
    /// The fabric health; `None` unless the registration is completed and NVML has fabric
    /// info v2.
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
/// [`NodeFabricState`](crate::NodeFabricState) is the state of a whole node.
#[derive(Debug, Clone, PartialEq, Eq, Advice)]
pub enum GpuFabricState {
    /// A display adapter of a DGX station, recognised by its name. It is ignored and not
    /// queried further, as in the Go driver.
    #[advice(code = "display-adapter")]
    DisplayAdapter,
    /// The GPU cannot be part of a fabric.
    #[advice(code = "not-supported")]
    NotSupported,
    /// Registration has not begun.
    #[advice(code = "not-started")]
    NotStarted,
    /// Registration is in progress.
    #[advice(code = "in-progress")]
    InProgress,
    /// Registered.
    #[advice(code = "completed")]
    Completed {
        /// The fabric; all zero on NVLink systems that are not multi-node.
        cluster: ClusterUuid,
        /// The partition of the fabric; 0 is valid.
        clique_id: u32,
    },
    /// Registration failed: NVML's state is "completed", but its status is an error.
    #[advice(code = "failed")]
    Failed {
        /// The error.
        status: NvmlCode,
    },
    /// A state unknown to this crate.
    #[advice(code = "unrecognised")]
    Unrecognised(u8),
    /// A call about this GPU failed.
    #[advice(code = "unreadable")]
    Unreadable(NvmlFailure),
    /// The GPU was in the clique in force, and NVML no longer enumerates it. Only a
    /// [`FabricWatch`](crate::FabricWatch) reports this state.
    #[advice(code = "vanished")]
    Vanished,
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

impl GpuFabricState {
    /// Every [`code`](Self::code).
    pub const CODES: [&'static str; 9] = [
        "display-adapter",
        "not-supported",
        "not-started",
        "in-progress",
        "completed",
        "failed",
        "unrecognised",
        "unreadable",
        "vanished",
    ];

    /// Whether the registration may still complete without intervention. This includes unknown
    /// states.
    pub const fn is_registering(&self) -> bool {
        matches!(
            self,
            Self::NotStarted | Self::InProgress | Self::Unrecognised(_)
        )
    }
}

impl fmt::Display for GpuFabricState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DisplayAdapter => f.write_str("display adapter, ignored because of its name"),
            Self::NotSupported => f.write_str("fabric not supported"),
            Self::NotStarted => f.write_str("fabric registration not started"),
            Self::InProgress => f.write_str("fabric registration in progress"),
            Self::Completed { cluster, .. } if cluster.is_zero() => {
                f.write_str("fabric registration completed, but the cluster UUID is all zero")
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
            Self::Vanished => f.write_str("no longer enumerated by NVML"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_listed_code() {
        let call = "f";
        let states = [
            GpuFabricState::DisplayAdapter,
            GpuFabricState::NotSupported,
            GpuFabricState::NotStarted,
            GpuFabricState::InProgress,
            GpuFabricState::Completed {
                cluster: ClusterUuid([0; 16]),
                clique_id: 0,
            },
            GpuFabricState::Failed {
                status: NvmlCode(1),
            },
            GpuFabricState::Unrecognised(9),
            GpuFabricState::Unreadable(NvmlFailure::SymbolMissing { call }),
            GpuFabricState::Vanished,
        ];
        assert_eq!(states.map(|state| state.code()), GpuFabricState::CODES);
    }
}
