//! Why a node's clique is not known, and for which GPUs.

use std::fmt;
use std::iter;

use crate::clique::CliqueId;
use crate::gpu::{FabricState, Gpu, GpuRef};
use crate::groups::{grouped, write_groups};

/// Why a node's clique is not known.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsettled {
    /// The first read has not come back.
    NotReadYet,
    /// NVML works and sees no GPU that counts: none is attached (yet).
    NoGpus {
        /// How many display adapters it sees, which do not count.
        displays: usize,
    },
    /// The registration of some GPUs is not completed.
    Gpus {
        /// The GPU that is furthest from being usable.
        worst: UnsettledGpu,
        /// The other ones that are not settled, from worse to better.
        others: Vec<UnsettledGpu>,
        /// How many GPUs this node has, settled ones included.
        gpus: usize,
    },
    /// GPUs are in different cliques.
    Disagree {
        /// The clique of each GPU that has one.
        members: Vec<(GpuRef, CliqueId)>,
    },
}

/// A GPU whose registration is not completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsettledGpu {
    /// Which GPU.
    pub gpu: GpuRef,
    /// Where its registration stands.
    pub state: FabricState,
}

// === impl Unsettled ===

impl Unsettled {
    /// `None` if every GPU's registration has come to its end.
    pub(crate) fn registration(gpus: &[&Gpu]) -> Option<Self> {
        let mut unsettled: Vec<_> = gpus
            .iter()
            .filter_map(|gpu| Some((rank(&gpu.fabric)?, *gpu)))
            .collect();
        unsettled.sort_by_key(|(rank, gpu)| (*rank, gpu.id.index));
        let mut unsettled = unsettled.into_iter().map(|(_, gpu)| UnsettledGpu {
            gpu: gpu.id.clone(),
            state: gpu.fabric.clone(),
        });
        Some(Self::Gpus {
            worst: unsettled.next()?,
            others: unsettled.collect(),
            gpus: gpus.len(),
        })
    }

    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::NotReadYet => "fabric-not-read-yet",
            Self::NoGpus { .. } => "no-gpus",
            Self::Disagree { .. } => "gpus-disagree",
            Self::Gpus { worst, .. } => match &worst.state {
                FabricState::InProgress => "fabric-in-progress",
                FabricState::NotStarted => "fabric-not-started",
                FabricState::Failed { .. } => "fabric-failed",
                FabricState::Unreadable(_) => "gpu-unreadable",
                _ => "fabric-state-unknown",
            },
        }
    }

    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::NotReadYet => "",
            Self::NoGpus { .. } => {
                "check `nvidia-smi -L` on the host; GPUs bound to vfio-pci are not visible to NVML"
            }
            Self::Disagree { .. } => {
                "put all GPUs of this node into one partition of the fabric (fabric manager or NMX controller)"
            }
            Self::Gpus { worst, .. } => match &worst.state {
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

/// The place of a GPU that is not settled, the worst ones first; `None` for one
/// that is.
fn rank(state: &FabricState) -> Option<u8> {
    match state {
        FabricState::Failed { .. } => Some(0),
        FabricState::Unreadable(_) => Some(1),
        FabricState::Unrecognised(_) => Some(2),
        FabricState::NotStarted => Some(3),
        FabricState::InProgress => Some(4),
        FabricState::DisplayAdapter | FabricState::NotSupported | FabricState::Completed { .. } => {
            None
        }
    }
}

impl fmt::Display for Unsettled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReadYet => f.write_str("the fabric has not been read yet"),
            Self::NoGpus { displays: 0 } => f.write_str("NVML sees no GPU on this node"),
            Self::NoGpus { displays } => {
                let adapters = if *displays == 1 {
                    "adapter"
                } else {
                    "adapters"
                };
                write!(
                    f,
                    "NVML sees no GPU on this node but {displays} display {adapters}, skipped by name (DGX Display)"
                )
            }
            Self::Gpus {
                worst,
                others,
                gpus,
            } => {
                let unsettled = iter::once(worst).chain(others);
                let groups = grouped(unsettled.map(|it| (&it.gpu, &it.state)));
                write_groups(f, &groups, |f, group| {
                    write!(f, "{}: {}", group.gpus(), group.value)
                })?;
                write!(f, " ({} of {gpus} GPUs not settled)", others.len() + 1)
            }
            Self::Disagree { members } => {
                f.write_str("GPUs disagree: ")?;
                let groups = grouped(members.iter().map(|(gpu, clique)| (gpu, clique)));
                write_groups(f, &groups, |f, group| {
                    let (gpus, are) = (group.gpus(), group.are());
                    write!(f, "{gpus} {are} in clique {}", group.value)
                })
            }
        }
    }
}
