//! What is to be done of a clique.

use std::time::Instant;

use compute_domain_api::clique::ComputeDomainClique;

/// What a clique needs next.
#[derive(Clone, Debug, PartialEq)]
pub enum MemberStep {
    /// To know the UID of this Node, or that there is none. Answered by [`CliqueMembers::node_is`](crate::CliqueMembers::node_is).
    FindNode {
        /// Its name.
        node: Box<str>,
    },
    /// This object, which does not exist.
    Create(Box<ComputeDomainClique>),
    /// This object in place of the one of its name, if that has still this version.
    Replace(Box<ComputeDomainClique>),
    /// That the object goes, if it has still this version.
    Delete {
        /// Its UID.
        uid: Box<str>,
        /// Its version.
        resource_version: Box<str>,
    },
    /// To know which claims are allocated to this node, by a list that began after `since`. Answered by
    /// [`CliqueMembers::claims_are`](crate::CliqueMembers::claims_are), or by [`CliqueMembers::look_again`](crate::CliqueMembers::look_again).
    ReadClaims {
        /// Its name.
        node: Box<str>,
        /// The UID of its daemon's pod.
        pod: Box<str>,
        /// When the node had told that no claim is prepared.
        since: Instant,
    },
    /// That the pod of a daemon goes, so that a new one takes its place. Answered by
    /// [`CliqueMembers::pod_deleted`](crate::CliqueMembers::pod_deleted).
    DeletePod {
        /// Its name.
        name: Box<str>,
        /// Its UID: another one of its name stays.
        uid: Box<str>,
        /// Its version, if it stays where it has another one: then it may run again.
        resource_version: Option<Box<str>>,
        /// Its node; `None`: no node had room for it.
        node: Option<Box<str>>,
        /// Why it may go.
        how: Replacement,
    },
}

/// Why a daemon may be replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// Its node has no claim, and gets none.
    Drained,
    /// It does not run.
    NotRunning,
    /// Its node is a member of no clique, so that it runs no `nvidia-imex`.
    NoMember,
    /// The operator has said that it is not to wait any longer, for these claims.
    Forced(Vec<String>),
}
