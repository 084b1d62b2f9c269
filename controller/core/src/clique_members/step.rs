//! The steps for a clique.

use std::time::Instant;

use compute_domain_api::clique::ComputeDomainClique;

/// The next step for a clique.
#[derive(Clone, Debug, PartialEq)]
pub enum MemberStep {
    /// Read the UID of this Node, if it exists. Answered by [`CliqueMembers::set_node_uid`](crate::CliqueMembers::set_node_uid).
    FindNode {
        /// Its name.
        node: Box<str>,
    },
    /// Create this object.
    Create(Box<ComputeDomainClique>),
    /// Replace the object of this name, if it still has this version.
    Replace(Box<ComputeDomainClique>),
    /// Delete the object, if it still has this version.
    Delete {
        /// Its UID.
        uid: Box<str>,
        /// Its version.
        resource_version: Box<str>,
    },
    /// List the claims that are allocated to this node, in a list that begins after `since`. Answered by
    /// [`CliqueMembers::set_listed_claims`](crate::CliqueMembers::set_listed_claims), or by [`CliqueMembers::schedule_look_up`](crate::CliqueMembers::schedule_look_up).
    ReadClaims {
        /// Its name.
        node: Box<str>,
        /// The UID of its daemon's pod.
        pod: Box<str>,
        /// When the node had reported that no claim is prepared.
        since: Instant,
    },
    /// Delete the pod of a daemon, so that a new one replaces it. Answered by
    /// [`CliqueMembers::pod_deleted`](crate::CliqueMembers::pod_deleted).
    DeletePod {
        /// Its name.
        name: Box<str>,
        /// Its UID: another pod of the name must stay.
        uid: Box<str>,
        /// Its version, if the pod must stay when it has another one: it may run again by then.
        resource_version: Option<Box<str>>,
        /// Its node; `None`: it is not scheduled.
        node: Option<Box<str>>,
        /// Why it may be deleted.
        how: Replacement,
    },
}

/// Why a daemon may be replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// Its node is drained: it has no claim and gets none.
    Drained,
    /// It does not run.
    NotRunning,
    /// Its node is not a member of a clique, so it runs no `nvidia-imex`.
    NoMember,
    /// The administrator has set a time limit for the wait, although these claims exist.
    Forced(Vec<String>),
}
