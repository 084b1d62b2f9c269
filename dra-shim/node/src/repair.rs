//! Repair of the CDI specs of prepared claims while the plugin runs.

use std::sync::Arc;

use imex_cdi::ClaimUid;

use crate::devices::Devices;
use crate::lifecycle::Transaction;
use crate::node_claims::NodeClaims;
use crate::spec::{RepairReport, rewrite_all};
use crate::start::StartError;

// === impl NodeClaims ===

impl<D: Devices> NodeClaims<D> {
    /// Whether a prepared claim lacks a CDI spec that
    /// [`repair_specs`](Self::repair_specs) can write. Lists the directory without the
    /// lock and uses cached records: cheap enough for every few seconds, but only a
    /// hint.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn lacks_specs(&self) -> Result<bool, StartError> {
        let view = self.store.view();
        let mut records = view
            .records_unchecked()
            .filter(|(_, record)| D::has_own_spec(record))
            .peekable();
        if records.peek().is_none() {
            return Ok(false);
        }
        let found = self.specs.claims()?;
        let lacks = |uid: &str| ClaimUid::new(uid).is_ok_and(|uid| !found.contains(&uid));
        Ok(records.any(|(uid, _)| lacks(uid)))
    }

    /// Writes the specs of prepared claims that are missing or do not match `facts`. Changes no record, and writes no file if all specs are correct.
    ///
    /// # Errors
    /// The checkpoint cannot be used: retry. The report has the errors of single specs.
    // req: NODE-27
    pub fn repair_specs(&self, facts: &D::Facts) -> Result<RepairReport, StartError> {
        self.rewrite_all(Transaction::Repair, facts)
    }

    pub(crate) fn rewrite_all(
        &self,
        transaction: Transaction,
        facts: &D::Facts,
    ) -> Result<RepairReport, StartError> {
        let (devices, specs) = (Arc::clone(&self.devices), Arc::clone(&self.specs));
        let facts = facts.clone();
        self.commit(move |claims| Ok(rewrite_all(claims, &*devices, &specs, transaction, &facts)))
    }
}
