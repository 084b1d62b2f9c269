//! A shared handle to the node's claims, empty until the checkpoint is open.

use std::sync::Arc;

use compute_domain_node::NodeClaims;
use dra_kubelet::ClaimError;
use tokio::sync::watch;

/// The node's claims as soon as the checkpoint is open. Until then calls get an
/// error that `dra-kubelet` retries within kubelet's deadline. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct SharedClaims(Arc<watch::Sender<Availability>>);

#[derive(Debug)]
enum Availability {
    Unavailable { reason: String },
    Available(Arc<NodeClaims>),
}

impl SharedClaims {
    pub(crate) fn new() -> Self {
        let reason = "the checkpoint is being opened".to_owned();
        let availability = Availability::Unavailable { reason };
        Self(Arc::new(watch::Sender::new(availability)))
    }

    /// The claims of the node, or why they are not available yet.
    pub(crate) fn get(&self) -> Result<Arc<NodeClaims>, ClaimError> {
        match &*self.0.borrow() {
            Availability::Available(claims) => Ok(Arc::clone(claims)),
            Availability::Unavailable { reason } => {
                Err(ClaimError::retry(reason).with_code("checkpoint"))
            }
        }
    }

    /// The claims of the node, as soon as the checkpoint is open.
    pub(crate) async fn opened(&self) -> Arc<NodeClaims> {
        let mut availability = self.0.subscribe();
        loop {
            if let Availability::Available(claims) = &*availability.borrow_and_update() {
                return Arc::clone(claims);
            }
            // It fails when the sender is gone, which `self` has.
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

    fn set(&self, availability: Availability) {
        self.0.send_replace(availability);
    }
}
