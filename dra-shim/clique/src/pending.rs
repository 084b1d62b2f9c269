//! The reasons why a node's clique is not known, with the GPUs that cause them.

use std::fmt;
use std::iter;

use dra_common::Advice;

use crate::clique_id::CliqueId;
use crate::gpu::{Gpu, GpuFabricState, GpuRef};
use crate::gpu_groups::{group_by_value, write_groups};

/// The reason why a node's clique is not known.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, Advice)]
#[advice(vis = "pub(crate)")]
pub enum Pending {
    /// The first read has not returned.
    #[advice(code = "fabric-not-read-yet", hint = "")]
    NotReadYet,
    /// NVML works but enumerates no GPU other than display adapters.
    #[advice(
        code = "no-gpus",
        hint = "check `nvidia-smi -L` on the host; GPUs bound to vfio-pci are not visible to NVML"
    )]
    NoGpus {
        /// The number of display adapters.
        display_adapters: usize,
    },
    /// The registration of at least one GPU is not completed.
    #[advice(from = worst)]
    IncompleteRegistration {
        /// The GPU in the worst state.
        worst: PendingGpu,
        /// The other GPUs with an incomplete registration, from worse to better.
        others: Vec<PendingGpu>,
        /// The number of GPUs on this node, including registered ones.
        gpus: usize,
        /// The clique of the registered GPUs; `None` if no GPU has a clique or they disagree.
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
    /// The GPU.
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
    /// The code of the node, if this GPU is the worst.
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

    pub(crate) fn hint(&self) -> &'static str {
        match &self.state {
            GpuFabricState::Unreadable(failure) => failure.hint(),
            GpuFabricState::InProgress | GpuFabricState::NotStarted => {
                "wait for the fabric manager; if this persists, check that the fabric manager is running and that this GPU is in a partition"
            }
            GpuFabricState::Failed { .. } => {
                "check the fabric manager's log for this GPU; a GPU reset registers it again"
            }
            GpuFabricState::Vanished => {
                "check dmesg for Xid lines, and check with `lspci` that this GPU is present; if a virtual machine uses the GPU now, restart this program"
            }
            _ => "the driver is newer than this program; update this program",
        }
    }
}

/// Orders the states of an incomplete registration, worst first; `None` for other states.
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

/// Writes the GPUs, grouped by state.
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
                    "NVML sees only {display_adapters} display {adapters} (DGX Display) and no other GPU on this node"
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
