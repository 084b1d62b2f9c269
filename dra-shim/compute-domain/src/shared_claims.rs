//! A shared handle to the node's claims, empty until the checkpoint is open.

use std::sync::Arc;
use std::time::Duration;

use compute_domain_node::NodeClaims;
use dra_kubelet::ClaimError;
use tokio::sync::watch;
use tokio::time::timeout;

/// The node's claims, once the checkpoint is open. Until then calls get an error that
/// `dra-kubelet` retries within kubelet's deadline. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct SharedClaims(Arc<watch::Sender<Availability>>);

#[derive(Debug)]
enum Availability {
    /// The first attempt to open the checkpoint is running.
    Opening,
    Unavailable {
        reason: String,
    },
    Available(Arc<NodeClaims>),
}

impl SharedClaims {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Availability::Opening)))
    }

    /// The claims of the node, or why they are not available yet.
    pub(crate) fn get(&self) -> Result<Arc<NodeClaims>, ClaimError> {
        let availability = self.0.borrow();
        let reason = match &*availability {
            Availability::Available(claims) => return Ok(Arc::clone(claims)),
            Availability::Opening => "the checkpoint is being opened",
            Availability::Unavailable { reason } => reason,
        };
        Err(ClaimError::retry(reason).with_code("checkpoint"))
    }

    /// Like [`get`](Self::get), after the first attempt to open the checkpoint, or after `limit`.
    pub(crate) async fn get_within(&self, limit: Duration) -> Result<Arc<NodeClaims>, ClaimError> {
        let mut availability = self.0.subscribe();
        let tried = availability.wait_for(|now| !matches!(now, Availability::Opening));
        // After a timeout, `get` returns the reason.
        let _ = timeout(limit, tried).await;
        self.get()
    }

    /// Waits until the checkpoint is open, and returns the claims of the node.
    pub(crate) async fn opened(&self) -> Arc<NodeClaims> {
        let mut availability = self.0.subscribe();
        loop {
            if let Availability::Available(claims) = &*availability.borrow_and_update() {
                return Arc::clone(claims);
            }
            // Cannot fail: `self` has the sender.
            let _ = availability.changed().await;
        }
    }

    pub(crate) fn set_available(&self, claims: Arc<NodeClaims>) {
        self.set(Availability::Available(claims));
    }

    pub(crate) fn set_unavailable(&self, reason: &str) {
        self.set(Availability::Unavailable {
            reason: reason.to_owned(),
        });
    }

    #[cfg(test)]
    pub(crate) fn set_opening(&self) {
        self.set(Availability::Opening);
    }

    /// Whether a task waits for the checkpoint.
    #[cfg(test)]
    pub(crate) fn is_awaited(&self) -> bool {
        self.0.receiver_count() > 0
    }

    fn set(&self, availability: Availability) {
        self.0.send_replace(availability);
    }
}
