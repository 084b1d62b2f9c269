//! Unprepare: the claim's CDI spec is removed, then its record.

use std::sync::Arc;

use dra_checkpoint::{Claims, State};
use imex_cdi::{ClaimSpecs, ClaimUid};
use jiff::Timestamp;

use crate::device_group::DeviceGroup;
use crate::error::UnprepareError;
use crate::node_claims::NodeClaims;

impl NodeClaims {
    /// Removes a claim's spec and record: when kubelet calls, and for a claim
    /// that [`Absences`](crate::Absences) reports as gone. Needs local state
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
    // A malformed UID has no spec; there may still be a record.
    if let Ok(uid) = ClaimUid::new(uid) {
        specs
            .remove(&uid)
            .map_err(|source| UnprepareError::Cdi { source })?;
    }
    let removed = match claims.get(uid).map(|record| &record.state) {
        Some(State::Completed(_)) => claims.remove(uid).map(drop),
        Some(State::Started) => claims.abort(uid, now),
        Some(State::Aborted { .. }) | None => Ok(()),
    };
    Ok(removed?)
}
