//! Unprepare: removes the claim's CDI spec, then its record.

use std::sync::Arc;

use dra_checkpoint::lifecycle::{Event, Phase};
use dra_checkpoint::{Claims, Payload};
use imex_cdi::{ClaimSpecs, ClaimUid};

use crate::devices::Devices;
use crate::error::UnprepareError;
use crate::lifecycle::{Step, Transaction};
use crate::moment::{FenceClock, Moment};
use crate::node_claims::{NodeClaims, steps};

impl<D: Devices> NodeClaims<D> {
    /// Removes a claim's spec, restores the hardware that the claim has changed, and removes its record: when kubelet
    /// calls, and for a claim that [`AbsenceTracker`](crate::AbsenceTracker) reports as deleted. Needs local state
    /// only, not the claim object. Succeeds if there is no record.
    ///
    /// The caller ensures that no Prepare of the claim runs in this process. A
    /// Prepare in another process finds no record at its end, and fails.
    ///
    /// # Errors
    /// [`UnprepareError`]: retry.
    // req: KUBELET-31, NODE-20
    pub fn unprepare(&self, uid: &str, now: Moment) -> Result<(), UnprepareError> {
        let mut changed = self.devices.changed(&self.view(), uid)?;
        if let Some(changed) = &mut changed {
            // The record still holds the devices, but no container starts with them.
            let (specs, uid) = (Arc::clone(&self.specs), uid.to_owned());
            self.commit(move |_| remove_spec(&specs, &uid))?;
            changed.restore(&self.view())?;
        }
        let (specs, fences) = (Arc::clone(&self.specs), Arc::clone(&self.fences));
        let uid = uid.to_owned();
        self.commit(move |claims| {
            remove(claims, &specs, &uid, now)?;
            note_fence(claims, &fences, &uid, now);
            Ok::<_, UnprepareError>(())
        })?;
        match &mut changed {
            Some(changed) => changed.forget(&self.view()),
            None => Ok(()),
        }
    }

    /// Removes aborted records with an expired fence, and specs that a crashed Prepare of another process
    /// may have left. Call this periodically; a late call is harmless.
    ///
    /// # Errors
    /// [`UnprepareError`]: a later call retries.
    pub fn expire(&self, now: Moment) -> Result<(), UnprepareError> {
        let (specs, fences) = (Arc::clone(&self.specs), Arc::clone(&self.fences));
        self.commit(move |claims| {
            const STEPS: [Step; 2] = [Step::RemoveSpec, Step::Record(Event::Expire)];
            let aborted = claims.records_unchecked().map(|(uid, _)| uid.to_owned());
            let aborted: Vec<_> = aborted
                .filter(|uid| *steps(claims, uid, Transaction::Expire) == STEPS)
                .collect();
            claims.expire_by(|uid, record| fences.now(uid, record, now));
            // This change removes the records.
            for uid in aborted.iter().filter(|uid| claims.get(uid).is_none()) {
                remove_spec(&specs, uid)?;
            }
            fences.retain(|uid| claims.phase(uid) == Phase::Aborted);
            Ok(())
        })
    }
}

/// Starts measuring the fence by the steady clock.
fn note_fence<G: Payload>(claims: &Claims<G>, fences: &FenceClock, uid: &str, now: Moment) {
    if let Some(record) = claims.get(uid) {
        fences.now(uid, record, now);
    }
}

// req: NODE-19
fn remove<G: Payload>(
    claims: &mut Claims<G>,
    specs: &ClaimSpecs,
    uid: &str,
    now: Moment,
) -> Result<(), UnprepareError> {
    for step in steps(claims, uid, Transaction::Unprepare) {
        match step {
            Step::RemoveSpec => remove_spec(specs, uid)?,
            Step::Record(Event::Abort) => claims.abort(uid, now.wall)?,
            Step::Record(_) => claims.remove(uid)?,
            Step::WriteSpec => {} // none is written
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
