//! A shared handle to the node's claims, empty until the checkpoint is open.

use std::sync::Arc;
use std::time::Duration;

use dra_kubelet::ClaimError;
use node_claims::{Devices, NodeClaims};
use tokio::sync::watch;
use tokio::time::timeout;

/// The node's claims, once the checkpoint is open. Until then calls get an error that
/// `dra-kubelet` retries within kubelet's deadline. Cheap to clone.
#[derive(Debug)]
pub struct SharedClaims<D: Devices>(Arc<watch::Sender<Availability<D>>>);

#[derive(Debug)]
enum Availability<D: Devices> {
    /// The first attempt to open the checkpoint is running.
    Opening,
    Unavailable {
        reason: String,
    },
    Available(Arc<NodeClaims<D>>),
}

// === impl SharedClaims ===

impl<D: Devices> Clone for SharedClaims<D> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<D: Devices> Default for SharedClaims<D> {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Availability::Opening)))
    }
}

impl<D: Devices> SharedClaims<D> {
    /// The claims of the node.
    ///
    /// # Errors
    /// The checkpoint is not open yet: why, for kubelet. A retry may succeed.
    pub fn get(&self) -> Result<Arc<NodeClaims<D>>, ClaimError> {
        let availability = self.0.borrow();
        let reason = match &*availability {
            Availability::Available(claims) => return Ok(Arc::clone(claims)),
            Availability::Opening => "the checkpoint is being opened",
            Availability::Unavailable { reason } => reason,
        };
        Err(ClaimError::retry(reason).with_code("checkpoint"))
    }

    /// Like [`get`](Self::get), after the first attempt to open the checkpoint, or after `limit`.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn get_within(&self, limit: Duration) -> Result<Arc<NodeClaims<D>>, ClaimError> {
        let mut availability = self.0.subscribe();
        let tried = availability.wait_for(|now| !matches!(now, Availability::Opening));
        // After a timeout, `get` returns the reason.
        let _ = timeout(limit, tried).await;
        self.get()
    }

    /// Waits until the checkpoint is open, and returns the claims of the node.
    pub async fn opened(&self) -> Arc<NodeClaims<D>> {
        let mut availability = self.0.subscribe();
        loop {
            if let Availability::Available(claims) = &*availability.borrow_and_update() {
                return Arc::clone(claims);
            }
            // Cannot fail: `self` has the sender.
            let _ = availability.changed().await;
        }
    }

    /// Makes the opened claims available.
    pub fn set_available(&self, claims: Arc<NodeClaims<D>>) {
        self.set(Availability::Available(claims));
    }

    /// Sets why the checkpoint cannot be opened.
    pub fn set_unavailable(&self, reason: &str) {
        self.set(Availability::Unavailable {
            reason: reason.to_owned(),
        });
    }

    /// As at the start.
    #[cfg(feature = "testing")]
    pub fn set_opening(&self) {
        self.set(Availability::Opening);
    }

    /// Whether a task waits for the checkpoint.
    #[cfg(feature = "testing")]
    pub fn is_awaited(&self) -> bool {
        self.0.receiver_count() > 0
    }

    fn set(&self, availability: Availability<D>) {
        self.0.send_replace(availability);
    }
}
