//! The facts from which the members of a clique are decided.

use std::collections::BTreeMap;

use compute_domain_api::driver_managed::Place;

use super::pods::DaemonPod;

/// The facts from which the members of one clique are decided.
pub(super) struct CliqueFacts {
    /// The state of each member.
    pub(super) states: Vec<(Box<str>, MemberState)>,
    /// The places with which `nvidia-imex` runs on nodes of the clique, from their slices.
    pub(super) places: BTreeMap<Box<str>, Place>,
    /// The nodes of the clique that have a slice and a daemon.
    pub(super) candidates: Vec<Candidate>,
    /// Whether no daemon of a member or of a node of the clique runs.
    pub(super) is_idle: bool,
}

/// The state of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MemberState {
    /// Still a member, with this pod.
    Member {
        pod: Option<DaemonPod>,
        /// The UID of the Node. It may be new if the daemon is the same.
        uid: Box<str>,
        /// Whether a slice or a pod shows that the Node may exist.
        is_known_to_live: bool,
    },
    /// Another Node or machine has the name now. It has no daemon yet, or is not reported to be in this clique.
    Replaced {
        /// Whether the former Node's daemon may run.
        former_may_run: bool,
    },
    /// Another machine has the name now, is in this clique, too, and gets its own index.
    OtherMachine,
    /// Its node is now in another clique or in none.
    Left {
        /// Whether the daemon that was a member may run.
        former_may_run: bool,
        /// Whether its daemon is known to have left this clique.
        has_settled: bool,
    },
    /// No slice reports its node's clique.
    Unknown { is_known_to_live: bool },
}

/// A node that can become a member.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) node: Box<str>,
    pub(super) uid: Box<str>,
    pub(super) pod: DaemonPod,
}
