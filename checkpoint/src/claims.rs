mod recovery;
mod refused;

use std::ops::Deref;

use dra_claim::{ClaimRef, ClaimStatus, MetaTime};
use jiff::Timestamp;

pub use self::refused::Refused;
use crate::boot::BootId;
use crate::format::EncodeError;
use crate::lifecycle::{Event, Refusal};
use crate::record::{ClaimRecord, Payload, State};
use crate::view::View;

/// The records inside a [`commit`](crate::Store::commit): a [`View`] with the
/// changes that [`Phase::next`](crate::lifecycle::Phase::next) allows.
///
/// The store creates one for each batch of changes, under the lock, and rolls
/// back a change that fails. The methods change memory only and never block.
/// Only [`start`](Self::start) and [`complete`](Self::complete) are refused
/// before recovery.
#[derive(Debug)]
pub struct Claims<P> {
    view: View<P>,
    current_boot: BootId,
    /// Whether the file must be written.
    pub(crate) changed: bool,
    /// Whether [`mark_rebuilt`](Self::mark_rebuilt) was called.
    pub(crate) is_rebuilt: bool,
    /// Whether [`note_missing`](Self::note_missing) was called.
    pub(crate) is_missing_noted: bool,
}

// === impl Claims ===

impl<P> Deref for Claims<P> {
    type Target = View<P>;

    fn deref(&self) -> &View<P> {
        &self.view
    }
}

impl<P: Payload> Claims<P> {
    pub(crate) fn new(view: View<P>, current_boot: BootId) -> Self {
        Self {
            view,
            current_boot,
            changed: false,
            is_rebuilt: false,
            is_missing_noted: false,
        }
    }

    pub(crate) fn into_view(self) -> View<P> {
        self.view
    }

    /// A copy to roll back to if the change fails.
    pub(crate) fn rollback_copy(&self) -> Self {
        Self {
            view: self.view.clone(),
            current_boot: self.current_boot.clone(),
            changed: self.changed,
            is_rebuilt: self.is_rebuilt,
            is_missing_noted: self.is_missing_noted,
        }
    }

    /// Encodes the records that the change wrote; the others keep their JSON.
    pub(crate) fn encode_changed(&self) -> Result<(), EncodeError> {
        self.view.encode_changed()
    }

    /// Records that a Prepare for this claim status begins. Every Prepare commits
    /// it before its first effect. Idempotent.
    ///
    /// Replaces a started or aborted record of another claim status.
    ///
    /// # Errors
    ///
    /// * [`Refused::Completed`] with any status: the recorded devices are the
    ///   answer, as in Go.
    /// * [`Refused::Aborted`] if a Prepare for the same status was aborted less
    ///   than [`ABORTED_FENCE`](crate::ABORTED_FENCE) before `now`.
    /// * [`Refused::RecoveryNeeded`].
    pub fn start(
        &mut self,
        claim: &ClaimRef,
        status: &ClaimStatus,
        now: Timestamp,
    ) -> Result<(), Refused> {
        self.check_recovered()?;
        let uid = &claim.uid;
        let recorded = self.get(uid).filter(|record| record.status == *status);
        let fenced_until = recorded.and_then(|record| record.fenced_until(now));
        let event = match (recorded, fenced_until) {
            (None, _) => Event::StartOther,
            (Some(_), None) => Event::StartSame,
            (Some(_), Some(_)) => Event::StartFenced,
        };
        let moves = self.moves(uid, event);
        let moves = moves.map_err(|refusal| Refused::from_refusal(refusal, uid, fenced_until))?;
        if moves || event == Event::StartOther {
            self.put(claim, status.clone(), State::Started);
        }
        Ok(())
    }

    /// Records that the started Prepare has made all its effects: from now on the
    /// claim holds `devices`. The last commit of a Prepare, before its answer.
    ///
    /// In the same commit the caller has checked, with [`View::records`], that no
    /// other claim holds one of the devices.
    ///
    /// # Errors
    ///
    /// The record is no longer the started one for the same claim status, because
    /// of an Unprepare or another Prepare, of this or another process. The caller
    /// undoes its effects, except on [`Refused::Completed`].
    pub fn complete(
        &mut self,
        uid: &str,
        status: &ClaimStatus,
        devices: Vec<P>,
    ) -> Result<(), Refused> {
        self.check_recovered()?;
        let is_same = |record: &ClaimRecord<P>| record.status == *status;
        let event = if self.get(uid).is_some_and(is_same) {
            Event::CompleteSame
        } else {
            Event::CompleteOther
        };
        self.advance(uid, event)?;
        self.set_state(uid, State::Completed(devices));
        Ok(())
    }

    /// Records that the effects of a started Prepare are undone. From `now` on,
    /// late attempts with the same claim status are refused. An Unprepare that
    /// finds a started record calls it after undoing the effects. Idempotent.
    ///
    /// # Errors
    ///
    /// [`Refused::Prepared`] for a completed claim: remove it;
    /// [`Refused::NotStarted`] without a record.
    // req: NODE-21
    pub fn abort(&mut self, uid: &str, now: Timestamp) -> Result<(), Refused> {
        if self.advance(uid, Event::Abort)? {
            let at = Some(MetaTime::from_timestamp(now).timestamp());
            self.set_state(uid, State::Aborted { at });
        }
        Ok(())
    }

    /// Removes the record of a completed claim. An Unprepare calls it after undoing
    /// the effects. Does nothing without a record. An aborted record stays until
    /// [`expire`](Self::expire).
    ///
    /// # Errors
    ///
    /// [`Refused::InProgress`] for a started record: abort it.
    pub fn remove(&mut self, uid: &str) -> Result<(), Refused> {
        if self.advance(uid, Event::Remove)? {
            self.view.record_map_mut().remove(uid);
            self.view.set_boot_if_empty(&self.current_boot);
            self.changed = true;
        }
        Ok(())
    }

    /// Removes the aborted records whose fence is over at `now`; returns their
    /// number.
    ///
    /// The store never calls it; the caller does, now and then. Late calls are
    /// harmless: [`start`](Self::start) checks the time itself.
    pub fn expire(&mut self, now: Timestamp) -> usize {
        self.expire_by(|_, _| now)
    }

    /// Like [`expire`](Self::expire), with a time for each record. For a caller that
    /// measures the fence by another clock: the recorded times are of the wall clock.
    pub fn expire_by(&mut self, now: impl Fn(&str, &ClaimRecord<P>) -> Timestamp) -> usize {
        let records = self.view.records_unchecked();
        let expired: Vec<String> = records
            .filter(|(uid, record)| record.is_expired(now(uid, record)))
            .map(|(uid, _)| uid.to_owned())
            .collect();
        for uid in &expired {
            self.view.record_map_mut().remove(uid);
            self.changed = true;
        }
        self.view.set_boot_if_empty(&self.current_boot);
        expired.len()
    }

    /// Whether `event` changes the claim's phase.
    fn moves(&self, uid: &str, event: Event) -> Result<bool, Refusal> {
        let phase = self.phase(uid);
        Ok(phase.next(event)? != phase)
    }

    /// Like [`moves`](Self::moves), for events that no fence refuses.
    fn advance(&self, uid: &str, event: Event) -> Result<bool, Refused> {
        let moves = self.moves(uid, event);
        moves.map_err(|refusal| Refused::from_refusal(refusal, uid, None))
    }

    fn put(&mut self, claim: &ClaimRef, status: ClaimStatus, state: State<P>) {
        let ClaimRef {
            uid,
            name,
            namespace,
        } = claim.clone();
        let record = ClaimRecord {
            state,
            status,
            name,
            namespace,
        };
        self.write(&uid, record);
    }

    fn set_state(&mut self, uid: &str, state: State<P>) {
        if let Some(known) = self.view.record_map().get(uid) {
            let record = ClaimRecord {
                state,
                status: known.status.clone(),
                name: known.name.clone(),
                namespace: known.namespace.clone(),
            };
            self.write(uid, record);
        }
    }

    fn write(&mut self, uid: &str, record: ClaimRecord<P>) {
        self.view.record_map_mut().insert(uid, record);
        self.changed = true;
    }
}
