//! Why a node's clique is not known, and because of which GPUs.

use std::fmt;
use std::iter;

use dra_common::Advice;

use crate::clique_id::CliqueId;
use crate::gpu::{Gpu, GpuFabricState, GpuRef};
use crate::gpu_groups::{group_by_value, write_groups};

/// Why a node's clique is not known.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, Advice)]
#[advice(vis = "pub(crate)")]
pub enum Pending {
    /// The first read has not returned.
    #[advice(code = "fabric-not-read-yet", hint = "")]
    NotReadYet,
    /// NVML works and enumerates no GPU, display adapters aside.
    #[advice(
        code = "no-gpus",
        hint = "check `nvidia-smi -L` on the host; GPUs bound to vfio-pci are not visible to NVML"
    )]
    NoGpus {
        /// How many display adapters it enumerates.
        display_adapters: usize,
    },
    /// The registration of at least one GPU is not completed.
    #[advice(from = worst)]
    IncompleteRegistration {
        /// The GPU that is furthest from being usable.
        worst: PendingGpu,
        /// The others that are not completed, from worse to better.
        others: Vec<PendingGpu>,
        /// How many GPUs this node has, including the completed ones.
        gpus: usize,
        /// The clique that all completed GPUs name that name one; `None` if none
        /// does, or if they disagree.
        clique: Option<CliqueId>,
    },
    /// GPUs belong to different cliques.
    #[advice(
        code = "gpus-disagree",
        hint = "put all GPUs of this node into one partition of the fabric (fabric manager or NMX controller)"
    )]
    Disagree {
        /// The clique of each GPU that has one.
        members: Vec<(GpuRef, CliqueId)>,
    },
}

/// A GPU whose registration is not completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingGpu {
    /// Which GPU.
    pub gpu: GpuRef,
    /// The state of its registration.
    pub state: GpuFabricState,
}

// === impl Pending ===

impl Pending {
    /// `None` if no GPU's registration is incomplete.
    pub(crate) fn incomplete_registration(gpus: &[&Gpu]) -> Option<Self> {
        let mut pending: Vec<_> = gpus
            .iter()
            .filter_map(|gpu| Some((severity(&gpu.fabric)?, *gpu)))
            .collect();
        pending.sort_by_key(|(severity, gpu)| (*severity, gpu.id.index));
        let mut pending = pending.into_iter().map(|(_, gpu)| PendingGpu {
            gpu: gpu.id.clone(),
            state: gpu.fabric.clone(),
        });
        let mut cliques = gpus.iter().filter_map(|gpu| gpu.clique());
        let first = cliques.next();
        Some(Self::IncompleteRegistration {
            worst: pending.next()?,
            others: pending.collect(),
            gpus: gpus.len(),
            clique: first.filter(|first| cliques.all(|other| other == *first)),
        })
    }
}

// === impl PendingGpu ===

impl PendingGpu {
    /// The code of the node, if the state of no other GPU is worse.
    fn code(&self) -> &'static str {
        match &self.state {
            GpuFabricState::InProgress => "fabric-in-progress",
            GpuFabricState::NotStarted => "fabric-not-started",
            GpuFabricState::Failed { .. } => "fabric-failed",
            GpuFabricState::Unreadable(_) => "gpu-unreadable",
            GpuFabricState::Vanished => "gpu-vanished",
            _ => "fabric-state-unknown",
        }
    }

    /// How to get this GPU registered.
    pub(crate) fn hint(&self) -> &'static str {
        match &self.state {
            GpuFabricState::Unreadable(failure) => failure.hint(),
            GpuFabricState::InProgress | GpuFabricState::NotStarted => {
                "wait for the fabric manager; if it lasts, check that it runs and that this GPU is in a partition"
            }
            GpuFabricState::Failed { .. } => {
                "look at the fabric manager's log for this GPU; resetting the GPU registers it again"
            }
            GpuFabricState::Vanished => {
                "look at dmesg for Xid lines and at `lspci` for this GPU; if it was given to a virtual machine, restart this program"
            }
            _ => "the driver is newer than this program; update this program",
        }
    }
}

/// Orders the states of an incomplete registration, the worst first; `None` for
/// the other states.
fn severity(state: &GpuFabricState) -> Option<u8> {
    match state {
        GpuFabricState::Failed { .. } => Some(0),
        GpuFabricState::Vanished => Some(1),
        GpuFabricState::Unreadable(_) => Some(2),
        GpuFabricState::Unrecognised(_) => Some(3),
        GpuFabricState::NotStarted => Some(4),
        GpuFabricState::InProgress => Some(5),
        GpuFabricState::DisplayAdapter
        | GpuFabricState::NotSupported
        | GpuFabricState::Completed { .. } => None,
    }
}

/// Writes GPUs in the same state together.
pub(crate) fn write_states<'a>(
    f: &mut fmt::Formatter<'_>,
    gpus: impl Iterator<Item = &'a PendingGpu>,
) -> fmt::Result {
    let groups = group_by_value(gpus.map(|it| (&it.gpu, &it.state)));
    write_groups(f, &groups, |f, group| {
        write!(f, "{}: {}", group.gpus(), group.value)
    })
}

impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReadYet => f.write_str("the fabric has not been read yet"),
            Self::NoGpus {
                display_adapters: 0,
            } => f.write_str("NVML sees no GPU on this node"),
            Self::NoGpus { display_adapters } => {
                let adapters = if *display_adapters == 1 {
                    "adapter"
                } else {
                    "adapters"
                };
                write!(
                    f,
                    "NVML sees no GPU on this node but {display_adapters} display {adapters}, skipped by name (DGX Display)"
                )
            }
            Self::IncompleteRegistration {
                worst,
                others,
                gpus,
                ..
            } => {
                write_states(f, iter::once(worst).chain(others))?;
                write!(
                    f,
                    " ({} of {gpus} GPUs without a final state)",
                    others.len() + 1
                )
            }
            Self::Disagree { members } => {
                f.write_str("GPUs disagree: ")?;
                let groups = group_by_value(members.iter().map(|(gpu, clique)| (gpu, clique)));
                write_groups(f, &groups, |f, group| {
                    let (gpus, are) = (group.gpus(), group.is_or_are());
                    write!(f, "{gpus} {are} in clique {}", group.value)
                })
            }
        }
    }
}
