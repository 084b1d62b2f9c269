//! Where the node's claims are once the checkpoint is open.

use std::sync::{Arc, PoisonError, RwLock};

use compute_domain_node::Node;
use dra_kubelet::ClaimError;

/// Filled by the keeper; calls that come before wait inside kubelet's deadline.
#[derive(Debug, Clone)]
pub(crate) struct NodeSlot(Arc<RwLock<Slot>>);

#[derive(Debug)]
enum Slot {
    Closed { reason: String },
    Open(Arc<Node>),
}

impl NodeSlot {
    pub(crate) fn new() -> Self {
        let reason = "the checkpoint is being opened".to_owned();
        Self(Arc::new(RwLock::new(Slot::Closed { reason })))
    }

    /// The claims of the node, or why they are not at hand yet.
    pub(crate) fn get(&self) -> Result<Arc<Node>, ClaimError> {
        match &*self.0.read().unwrap_or_else(PoisonError::into_inner) {
            Slot::Open(node) => Ok(Arc::clone(node)),
            Slot::Closed { reason } => Err(ClaimError::retry(reason).with_code("checkpoint")),
        }
    }

    pub(crate) fn open(&self, node: Arc<Node>) {
        self.set(Slot::Open(node));
    }

    pub(crate) fn closed_because(&self, reason: &str) {
        self.set(Slot::Closed {
            reason: reason.to_owned(),
        });
    }

    fn set(&self, slot: Slot) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = slot;
    }
}
