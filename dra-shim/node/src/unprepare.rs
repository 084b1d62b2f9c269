//! Unprepare: the claim's CDI spec is removed, then its record.

use std::sync::Arc;

use dra_checkpoint::Claims;
use imex_cdi::{ClaimSpecs, ClaimUid};
use jiff::Timestamp;

use crate::device_group::DeviceGroup;
use crate::error::UnprepareError;
use crate::lifecycle::{Step, Transaction};
use crate::node_claims::{NodeClaims, steps};

impl NodeClaims {
    /// Removes a claim's spec and record: when kubelet calls, and for a claim
    /// that [`AbsenceTracker`](crate::AbsenceTracker) reports as gone. Needs local state
    /// only; the claim object may be gone. No record is success.
    ///
    /// The caller ensures that no attempt to prepare the claim runs in this
    /// process. An attempt in another process finds its record gone at its end.
    ///
    /// # Errors
    /// [`UnprepareError`]: repeat the call.
    pub fn unprepare(&self, uid: &str, now: Timestamp) -> Result<(), UnprepareError> {
        let uid = uid.to_owned();
        let specs = Arc::clone(&self.specs);
        self.commit(move |claims| remove(claims, &specs, &uid, now))
    }

    /// Removes aborted records whose fence has expired at `now`. Call it once in
    /// a while; late is harmless.
    ///
    /// # Errors
    /// [`UnprepareError`]: a later call removes them.
    pub fn expire(&self, now: Timestamp) -> Result<(), UnprepareError> {
        self.commit(move |claims| {
            claims.expire(now);
            Ok(())
        })
    }
}

fn remove(
    claims: &mut Claims<DeviceGroup>,
    specs: &ClaimSpecs,
    uid: &str,
    now: Timestamp,
) -> Result<(), UnprepareError> {
    for step in steps(claims, uid, Transaction::Unprepare) {
        match step {
            Step::RemoveSpec => remove_spec(specs, uid)?,
            Step::RecordAborted => claims.abort(uid, now)?,
            Step::RemoveRecord => drop(claims.remove(uid)?),
            _ => {} // no other step is one of Unprepare
        }
    }
    Ok(())
}

/// A malformed UID has no spec; it may still have a record.
fn remove_spec(specs: &ClaimSpecs, uid: &str) -> Result<(), UnprepareError> {
    match ClaimUid::new(uid) {
        Ok(uid) => specs
            .remove(&uid)
            .map_err(|source| UnprepareError::Cdi { source }),
        Err(_) => Ok(()),
    }
}
