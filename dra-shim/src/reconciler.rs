//! Removes what kubelet does not: unprepares claims that are gone, and drops
//! aborted records whose fence has expired.

use std::sync::Arc;

use compute_domain_node::{AbsenceTracker, NodeClaims};
use imex_runtime::error_chain;
use jiff::Timestamp;
use tokio::task::spawn_blocking;
use tracing::{info, warn};

use crate::claim_lookup::ClaimLookup;

/// Compares the node's records with the API server's claims.
pub(crate) struct Reconciler {
    claims: Arc<NodeClaims>,
    lookup: ClaimLookup,
    absences: AbsenceTracker,
}

impl Reconciler {
    pub(crate) fn new(claims: Arc<NodeClaims>, lookup: ClaimLookup) -> Self {
        Self {
            claims,
            lookup,
            absences: AbsenceTracker::default(),
        }
    }

    /// One comparison. A claim is unprepared once every comparison has missed it
    /// for [`ABSENT_FOR`](compute_domain_node::ABSENT_FOR).
    pub(crate) async fn reconcile(&mut self) {
        self.expire().await;
        let presence = self.lookup.presence(&self.claims.recorded_claims()).await;
        for uid in self.absences.observe(&presence, Timestamp::now()) {
            self.unprepare(uid).await;
        }
    }

    async fn expire(&self) {
        let claims = Arc::clone(&self.claims);
        let expired = spawn_blocking(move || claims.expire(Timestamp::now())).await;
        if let Ok(Err(error)) = expired {
            let error = error_chain(&error);
            warn!(error, "expired records cannot be removed yet");
        }
    }

    async fn unprepare(&self, uid: String) {
        let (claims, claim) = (Arc::clone(&self.claims), uid.clone());
        let unprepare = move || claims.unprepare(&claim, Timestamp::now());
        let failure = match spawn_blocking(unprepare).await {
            Ok(Ok(())) => {
                info!(
                    claim.uid = uid,
                    "unprepared: the claim is gone and kubelet did not ask"
                );
                return;
            }
            Ok(Err(error)) => error_chain(&error),
            Err(join_error) => join_error.to_string(),
        };
        warn!(
            claim.uid = uid,
            error = failure,
            "a claim that is gone cannot be unprepared yet"
        );
    }
}
