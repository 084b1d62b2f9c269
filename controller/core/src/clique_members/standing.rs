//! What a member of a clique can be at the moment.

use super::pods::DaemonPod;

/// Of a daemon's pod what its entry has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodFacts {
    pub(super) uid: Box<str>,
    pub(super) address: Box<str>,
    /// The address of its machine.
    pub(super) host: Box<str>,
    pub(super) ready: bool,
}

/// What a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// A member, with this pod.
    Member {
        pod: Option<PodFacts>,
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
    /// Nobody has said in which clique its node is.
    Unknown { is_known_to_live: bool },
}

// === impl PodFacts ===

impl PodFacts {
    pub(super) fn new(pod: &DaemonPod) -> Self {
        Self {
            uid: pod.uid.clone(),
            address: pod.address.clone(),
            host: pod.host.clone(),
            ready: pod.ready,
        }
    }
}
