//! Pods with claims.

use tokio::sync::watch;

use dra_claim::ClaimRef;

/// A pod on the node, as far as claims are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its UID.
    pub uid: String,
    /// Its claims. The fake assumes that they are allocated and reserved for the pod.
    pub claims: Vec<PodClaim>,
}

/// A claim of a pod, and the drivers in its allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodClaim {
    /// The claim.
    pub claim: ClaimRef,
    /// The drivers in the claim's allocation. Each is called with all of the pod's claims that
    /// it has a part in.
    pub drivers: Vec<String>,
}

/// The phase of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its claims are not prepared yet.
    Pending,
    /// Its claims are prepared and its sandbox exists.
    Running,
    /// Its claims are unprepared, or other pods still need them.
    Gone,
}

/// The deletion of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deletion {
    No,
    /// It remains on the API server until it has ended.
    Graceful,
    /// It is removed from the API server at once.
    Forced,
}

/// A pod with its phase and deletion. Clones share the state.
#[derive(Clone)]
pub(super) struct PodRecord {
    pub(super) pod: Pod,
    pub(super) phase: watch::Sender<Phase>,
    pub(super) deletion: watch::Sender<Deletion>,
}

// === impl PodRecord ===

impl PodRecord {
    pub(super) fn new(pod: Pod) -> Self {
        Self {
            pod,
            phase: watch::Sender::new(Phase::Pending),
            deletion: watch::Sender::new(Deletion::No),
        }
    }

    /// Returns once the pod is deleted.
    pub(super) async fn deleted(&self) -> Deletion {
        let mut deletion = self.deletion.subscribe();
        let deleted = deletion.wait_for(|now| *now != Deletion::No).await;
        // The sender is in `self`.
        deleted.map_or(Deletion::Forced, |now| *now)
    }

    pub(super) fn is_active(&self) -> bool {
        *self.deletion.borrow() != Deletion::Forced && *self.phase.borrow() != Phase::Gone
    }
}
