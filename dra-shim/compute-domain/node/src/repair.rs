//! Repair of the CDI specs of prepared claims while the plugin runs.

use std::sync::Arc;

use imex_cdi::{ClaimUid, Major};

use crate::lifecycle::Transaction;
use crate::node_claims::NodeClaims;
use crate::spec::{RepairReport, own_channel, rewrite_all};
use crate::start::StartError;

// === impl NodeClaims ===

impl NodeClaims {
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
            .filter(|(_, record)| own_channel(record).is_some())
            .peekable();
        if records.peek().is_none() {
            return Ok(false);
        }
        let found = self.specs.claims()?;
        let lacks = |uid: &str| ClaimUid::new(uid).is_ok_and(|uid| !found.contains(&uid));
        Ok(records.any(|(uid, _)| lacks(uid)))
    }

    /// Writes the specs of prepared claims that are missing or have a major other
    /// than `major`. Changes no record, and writes no file if all specs are correct.
    ///
    /// # Errors
    /// The checkpoint cannot be used: retry. The report has the errors of single specs.
    // req: NODE-27
    pub fn repair_specs(&self, major: Option<Major>) -> Result<RepairReport, StartError> {
        let specs = Arc::clone(&self.specs);
        self.commit(move |claims| Ok(rewrite_all(claims, &specs, Transaction::Repair, major)))
    }
}

#[cfg(test)]
#[path = "repair_tests.rs"]
mod tests;
