mod refused;
mod settle;

use std::ops::Deref;

use jiff::Timestamp;

pub use self::refused::Refused;
use crate::boot::BootId;
use crate::format::EncodeError;
use crate::record::{ClaimRecord, Payload, State};
use crate::status::{ClaimStatus, Seconds};
use crate::view::View;

/// The records inside a [`commit`](crate::Store::commit): a [`View`] with the
/// legal transitions.
///
/// ```text
///            start                complete
///  absent ─────────► Started ───────────────► Completed ──► absent
///    ▲                 │  ▲                        remove
///    │                 │  │ start: another version, or after 90 s
///    │           abort ▼  │
///    └───────────── Aborted
///      expire (90 s)
/// ```
///
/// Starting and completing need a settled store; undoing never does.
#[derive(Debug)]
pub struct Claims<P> {
    view: View<P>,
    current_boot: BootId,
    pub(crate) changed: bool,
    pub(crate) settles_damage: bool,
}

/// A claim's names, as in the call that is being served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimName {
    /// The UID, which the record is kept by.
    pub uid: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.namespace`.
    pub namespace: String,
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
            settles_damage: false,
        }
    }

    pub(crate) fn into_view(self) -> View<P> {
        self.view
    }

    /// Where a change that fails is taken back to.
    pub(crate) fn savepoint(&self) -> Self {
        Self {
            view: self.view.clone(),
            current_boot: self.current_boot.clone(),
            changed: self.changed,
            settles_damage: self.settles_damage,
        }
    }

    /// Makes the text of what the change wrote: all else has its text.
    pub(crate) fn make_texts(&self) -> Result<(), EncodeError> {
        self.view.make_texts()
    }

    /// Records that a prepare of this version of the claim begins, before its
    /// first effect. Repeating it changes nothing.
    ///
    /// Refused while the claim is completed, in whatever version: then its
    /// recorded devices are the answer, as in Go. Refused, too, while an aborted
    /// prepare of the same version is younger than [`ABORTED_FENCE`](crate::ABORTED_FENCE)
    /// at `now`. A started or aborted prepare of another version is taken over.
    pub fn start(
        &mut self,
        claim: &ClaimName,
        status: &ClaimStatus,
        now: Timestamp,
    ) -> Result<(), Refused> {
        self.settled()?;
        let uid = claim.uid.clone();
        if let Some(record) = self.get(&uid) {
            let same_version = record.status == *status;
            match &record.state {
                State::Completed(_) => return Err(Refused::Completed { uid }),
                State::Started if same_version => return Ok(()),
                State::Aborted { .. } if same_version => {
                    if let Some(until) = record.fenced_until(now) {
                        return Err(Refused::Aborted { uid, until });
                    }
                }
                State::Started | State::Aborted { .. } => {}
            }
        }
        self.put(claim, status.clone(), State::Started);
        Ok(())
    }

    /// Records that every effect of the started prepare is in place: from now
    /// on the claim holds `devices`.
    ///
    /// Refused unless the claim's record is still the started one of the same
    /// version: an unprepare of this or another process may have undone it.
    /// Whether another claim holds a device is for the caller to check, in the
    /// same commit, with [`View::all`].
    pub fn complete(
        &mut self,
        uid: &str,
        status: &ClaimStatus,
        devices: Vec<P>,
    ) -> Result<(), Refused> {
        self.settled()?;
        let record = self.get(uid).ok_or_else(|| Refused::NotStarted {
            uid: uid.to_owned(),
        })?;
        match &record.state {
            State::Completed(_) => {
                return Err(Refused::Completed {
                    uid: uid.to_owned(),
                });
            }
            State::Aborted { .. } => {
                return Err(Refused::NotStarted {
                    uid: uid.to_owned(),
                });
            }
            State::Started if record.status != *status => {
                return Err(Refused::OtherVersion {
                    uid: uid.to_owned(),
                });
            }
            State::Started => {}
        }
        self.set_state(uid, State::Completed(devices));
        Ok(())
    }

    /// Records that the effects of a started prepare are undone, and refuses
    /// late attempts of the same version from `now` on. Repeating it changes
    /// nothing.
    ///
    /// Refused for a claim that is completed ([`Refused::Prepared`]: remove it),
    /// and for one without a record ([`Refused::NotStarted`]). An unsettled
    /// store does not refuse it.
    pub fn abort(&mut self, uid: &str, now: Timestamp) -> Result<(), Refused> {
        match self.get(uid).map(|record| &record.state) {
            Some(State::Started) => {
                let at = Some(Seconds::floor(now).timestamp());
                self.set_state(uid, State::Aborted { at });
                Ok(())
            }
            Some(State::Aborted { .. }) => Ok(()),
            Some(State::Completed(_)) => Err(Refused::Prepared {
                uid: uid.to_owned(),
            }),
            None => Err(Refused::NotStarted {
                uid: uid.to_owned(),
            }),
        }
    }

    /// Forgets a completed claim, after its effects are undone. `false` if
    /// there was nothing to forget: repeating it changes nothing, and an
    /// aborted record stays until [`expire`](Self::expire).
    ///
    /// Refused for a prepare in progress: abort it.
    pub fn remove(&mut self, uid: &str) -> Result<bool, Refused> {
        match self.get(uid).map(|record| &record.state) {
            None | Some(State::Aborted { .. }) => Ok(false),
            Some(State::Completed(_)) => {
                self.view.records_mut().remove(uid);
                self.view.adopt_boot_if_empty(&self.current_boot);
                self.changed = true;
                Ok(true)
            }
            Some(State::Started) => Err(Refused::InProgress {
                uid: uid.to_owned(),
            }),
        }
    }

    /// Removes the aborted records that refuse nothing any more at `now`.
    /// Returns how many.
    ///
    /// The store never calls it: once in a while the caller does. Late is
    /// harmless, since [`start`](Self::start) looks at the time itself.
    pub fn expire(&mut self, now: Timestamp) -> usize {
        let aborted = self.view.records().values();
        let expired = aborted.filter(|record| record.is_expired(now)).count();
        if expired > 0 {
            self.view
                .records_mut()
                .retain(|_, record| !record.is_expired(now));
            self.changed = true;
        }
        self.view.adopt_boot_if_empty(&self.current_boot);
        expired
    }

    fn put(&mut self, claim: &ClaimName, status: ClaimStatus, state: State<P>) {
        let ClaimName {
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
        if let Some(known) = self.view.records().get(uid) {
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
        self.view.records_mut().insert(uid, record);
        self.changed = true;
    }
}
