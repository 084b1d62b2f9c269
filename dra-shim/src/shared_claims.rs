//! A shared handle to the node's claims, empty until the checkpoint is open.

use std::sync::{Arc, PoisonError, RwLock};

use compute_domain_node::NodeClaims;
use dra_kubelet::ClaimError;

/// The node's claims as soon as the checkpoint is open. Until then calls get an
/// error that `dra-kubelet` retries within kubelet's deadline. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct SharedClaims(Arc<RwLock<Availability>>);

#[derive(Debug)]
enum Availability {
    Unavailable { reason: String },
    Available(Arc<NodeClaims>),
}

impl SharedClaims {
    pub(crate) fn new() -> Self {
        let reason = "the checkpoint is being opened".to_owned();
        Self(Arc::new(RwLock::new(Availability::Unavailable { reason })))
    }

    /// The claims of the node, or why they are not available yet.
    pub(crate) fn get(&self) -> Result<Arc<NodeClaims>, ClaimError> {
        match &*self.0.read().unwrap_or_else(PoisonError::into_inner) {
            Availability::Available(claims) => Ok(Arc::clone(claims)),
            Availability::Unavailable { reason } => {
                Err(ClaimError::retry(reason).with_code("checkpoint"))
            }
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
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = availability;
    }
}
