//! What decides about the members of a clique.

use std::collections::BTreeMap;

use compute_domain_api::driver_managed::Place;

use super::pods::DaemonPod;

/// What decides about the members of one clique.
pub(super) struct CliqueFacts {
    /// The state of each member.
    pub(super) states: Vec<(Box<str>, MemberState)>,
    /// The places with which `nvidia-imex` runs on nodes of the clique, as their slices say.
    pub(super) places: BTreeMap<Box<str>, Place>,
    /// The nodes of the clique that have a slice and a daemon.
    pub(super) candidates: Vec<Candidate>,
    /// Whether no daemon runs, neither of a member nor of a node of the clique.
    pub(super) is_idle: bool,
}

/// The state of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MemberState {
    /// A member, with this pod.
    Member {
        pod: Option<DaemonPod>,
        /// The UID of the Node, which may be new if the daemon is the same.
        uid: Box<str>,
        /// Whether a slice or a pod shows that the Node may live.
        is_known_to_live: bool,
    },
    /// Another Node or machine has the name now, and no daemon yet, or nothing says that it is in this clique.
    Replaced {
        /// Whether the former Node's daemon may run.
        former_may_run: bool,
    },
    /// Another machine has the name now. It is in this clique, too, and gets an index of its own.
    OtherMachine,
    /// Its node is in another clique now, or in none.
    Left {
        /// Whether the daemon that was a member may run.
        former_may_run: bool,
        /// Whether it is known not to be a member here any more.
        has_settled: bool,
    },
    /// No slice says in which clique its node is.
    Unknown { is_known_to_live: bool },
}

/// A node that can become a member.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) node: Box<str>,
    pub(super) uid: Box<str>,
    pub(super) pod: DaemonPod,
}
