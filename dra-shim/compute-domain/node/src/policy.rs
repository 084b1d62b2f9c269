//! The kubelet plugin's reaction to each state of its node's hardware, as a
//! table: [`NodeFabricState`] × whether the channel major is known → [`Policy`].
//!
//! Only [`Policy::new`] decides; [`Hardware`](crate::Hardware) calls it. The table
//! does not cover answers of Prepare that do not depend on the hardware.

use nvml_clique::NodeFabricState;

/// What the plugin does in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// What the node's `ResourceSlice` holds.
    pub slice: Slice,
    /// The fault that keeps new claims away from the published channel if its option is set.
    /// Claims that hold the channel keep it.
    pub fault: Option<Fault>,
    /// Whether the plugin is ready. It serves kubelet's calls regardless.
    pub ready: bool,
    /// What Prepare answers to a claim that is not prepared yet.
    pub prepare: PrepareAnswer,
}

/// What the node's `ResourceSlice` holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slice {
    /// The slice of the previous process: the hardware is not known yet.
    Unchanged,
    /// The channel. Also on a node without a clique, so that a pod there gets an
    /// error with the reason; and while the fabric is lost, since claims may use
    /// the device.
    Channel,
    /// Nothing: the scheduler places no claim on this node.
    Empty,
}

/// A known fault of the node's fabric. The administrator chooses whether the scheduler may place
/// new claims on such a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The node definitely belongs to no clique: `imex.withoutClique`.
    NoClique,
    /// The clique has lost a GPU, or a GPU reports a problem: `imex.degradedFabric`.
    DegradedFabric,
}

/// The answer of Prepare, as far as it depends on the hardware.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrepareAnswer {
    /// The claim is prepared.
    Prepared,
    /// The claim is prepared, and an event warns about the fabric.
    PreparedWithWarning,
    /// Permanent error: the node belongs to no clique. In the driver-managed mode, the claim is
    /// prepared without a device.
    NoClique,
    /// Retried within kubelet's call: the fabric may become ready.
    FabricNotReady,
    /// Retried within kubelet's call: the NVIDIA driver may be loaded.
    NoMajor,
}

// === impl Policy ===

impl Policy {
    /// The policy for the fabric's state. `has_major`: whether the kernel has a major for IMEX
    /// channels. Without it, no device node can be created.
    pub const fn new(fabric: NodeFabricState, has_major: bool) -> Self {
        let slice = Slice::new(fabric, has_major);
        Self {
            slice,
            fault: match slice {
                Slice::Channel => Fault::new(fabric),
                Slice::Unchanged | Slice::Empty => None,
            },
            ready: fabric.is_final() && has_major,
            prepare: PrepareAnswer::new(fabric, has_major),
        }
    }
}

// === impl Slice ===

impl Slice {
    /// A few words for tables and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Channel => "channel",
            Self::Empty => "none",
        }
    }

    // req: NODE-32
    const fn new(fabric: NodeFabricState, has_major: bool) -> Self {
        match fabric {
            NodeFabricState::NotReadYet => Self::Unchanged,
            NodeFabricState::NoLibrary => Self::Empty,
            // A lost fabric keeps the slice: claims may use the device.
            NodeFabricState::Clique
            | NodeFabricState::CliqueDegraded
            | NodeFabricState::CliqueIncomplete
            | NodeFabricState::NoClique
            | NodeFabricState::Pending
            | NodeFabricState::LibraryLost
            | NodeFabricState::NvmlFailed
            | NodeFabricState::NoAnswer => {
                if has_major {
                    Self::Channel
                } else {
                    Self::Empty
                }
            }
        }
    }
}

// === impl Fault ===

impl Fault {
    /// The option for this fault, for tables and messages.
    pub const fn option(self) -> &'static str {
        match self {
            Self::NoClique => "withoutClique",
            Self::DegradedFabric => "degradedFabric",
        }
    }

    const fn new(fabric: NodeFabricState) -> Option<Self> {
        match fabric {
            NodeFabricState::NoClique => Some(Self::NoClique),
            NodeFabricState::CliqueDegraded | NodeFabricState::CliqueIncomplete => {
                Some(Self::DegradedFabric)
            }
            // Transitions may end well: do not write a slice for each of them.
            NodeFabricState::NotReadYet
            | NodeFabricState::Clique
            | NodeFabricState::Pending
            | NodeFabricState::NoLibrary
            | NodeFabricState::LibraryLost
            | NodeFabricState::NvmlFailed
            | NodeFabricState::NoAnswer => None,
        }
    }
}

// === impl PrepareAnswer ===

impl PrepareAnswer {
    /// A few words for tables and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prepared => "prepared",
            Self::PreparedWithWarning => "prepared, warning event",
            Self::NoClique => {
                "permanent error: no clique (in driver-managed mode: prepared without a device)"
            }
            Self::FabricNotReady => "retried: fabric not ready",
            Self::NoMajor => "retried: no channel major",
        }
    }

    // req: NODE-11
    const fn new(fabric: NodeFabricState, has_major: bool) -> Self {
        match fabric {
            NodeFabricState::NoClique => Self::NoClique,
            NodeFabricState::Clique if has_major => Self::Prepared,
            NodeFabricState::CliqueDegraded | NodeFabricState::CliqueIncomplete if has_major => {
                Self::PreparedWithWarning
            }
            NodeFabricState::Clique
            | NodeFabricState::CliqueDegraded
            | NodeFabricState::CliqueIncomplete => Self::NoMajor,
            NodeFabricState::NotReadYet
            | NodeFabricState::Pending
            | NodeFabricState::NoLibrary
            | NodeFabricState::LibraryLost
            | NodeFabricState::NvmlFailed
            | NodeFabricState::NoAnswer => Self::FabricNotReady,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every state with its policy.
    fn policies() -> impl Iterator<Item = (NodeFabricState, bool, Policy)> {
        NodeFabricState::ALL.into_iter().flat_map(|fabric| {
            [true, false].map(|has_major| (fabric, has_major, Policy::new(fabric, has_major)))
        })
    }

    #[test]
    fn without_a_channel_major_nothing_is_published_ready_or_prepared() {
        for (fabric, has_major, policy) in policies().filter(|(_, has_major, _)| !has_major) {
            let cause = (fabric.name(), has_major);
            assert_ne!(policy.slice, Slice::Channel, "{cause:?}");
            assert!(!policy.ready, "{cause:?}");
            assert!(!is_prepared(policy), "{cause:?}");
        }
    }

    #[test]
    fn what_is_prepared_is_published_and_the_plugin_is_ready() {
        for (fabric, _, policy) in policies().filter(|(_, _, policy)| is_prepared(*policy)) {
            assert_eq!(policy.slice, Slice::Channel, "{}", fabric.name());
            assert!(policy.ready, "{}", fabric.name());
        }
    }

    // req: NODE-12
    #[test]
    fn a_clique_is_prepared_with_or_without_problems_and_a_problem_is_reported() {
        for (fabric, has_major, policy) in policies().filter(|(_, has_major, _)| *has_major) {
            assert_eq!(
                is_prepared(policy),
                fabric.has_clique(),
                "{}",
                fabric.name()
            );
            let warns = policy.prepare == PrepareAnswer::PreparedWithWarning;
            let is_perfect = fabric == NodeFabricState::Clique;
            assert_eq!(warns, has_major && fabric.has_clique() && !is_perfect);
        }
    }

    #[test]
    fn new_claims_are_kept_away_only_from_a_published_channel_whose_fault_is_certain() {
        for (fabric, _, policy) in policies() {
            let certain = fabric.is_final() && fabric != NodeFabricState::Clique;
            let is_published = policy.slice == Slice::Channel;
            assert_eq!(
                policy.fault.is_some(),
                certain && is_published,
                "{}",
                fabric.name()
            );
            let is_refused = policy.prepare == PrepareAnswer::NoClique;
            assert_eq!(
                policy.fault == Some(Fault::NoClique),
                is_refused && is_published
            );
        }
    }

    #[test]
    fn a_plugin_that_is_not_ready_refuses_for_good_only_where_there_is_no_clique() {
        for (fabric, _, policy) in policies() {
            let is_permanent = policy.prepare == PrepareAnswer::NoClique;
            assert_eq!(is_permanent, fabric == NodeFabricState::NoClique);
        }
    }

    // req: NODE-32
    #[test]
    fn once_a_driver_was_there_the_loss_of_the_fabric_leaves_the_slice() {
        for (fabric, has_major, policy) in policies() {
            let never = [NodeFabricState::NotReadYet, NodeFabricState::NoLibrary];
            let is_published = policy.slice == Slice::Channel;
            assert_eq!(is_published, has_major && !never.contains(&fabric));
        }
    }

    fn is_prepared(policy: Policy) -> bool {
        let prepared = [PrepareAnswer::Prepared, PrepareAnswer::PreparedWithWarning];
        prepared.contains(&policy.prepare)
    }
}
