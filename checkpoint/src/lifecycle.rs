//! The life of a claim's record as a table: [`Phase`] × [`Event`] → [`Phase`]
//! or [`Refusal`].
//!
//! [`Phase::next`] alone decides; [`Claims`](crate::Claims) asks it before every
//! change of a record. What the claim is and which devices it holds does not
//! matter here: an event names the facts that do. A driver whose claims have
//! effects outside the checkpoint can build the table of the whole claim on
//! this one.
//!
//! ```
//! use dra_checkpoint::lifecycle::{Event, Phase, Refusal};
//!
//! let started = Phase::Absent.next(Event::StartOther)?;
//! let prepared = started.next(Event::CompleteSame)?;
//! assert_eq!(prepared, Phase::Completed);
//! assert_eq!(prepared.next(Event::Abort), Err(Refusal::Prepared));
//! assert_eq!(prepared.next(Event::Remove), Ok(Phase::Absent));
//! # Ok::<_, Refusal>(())
//! ```

/// How far a claim got on this node: its record's
/// [`State`](crate::State) without the data, or that there is no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// There is no record: nothing of the claim is on this node.
    Absent,
    /// A Prepare has begun: side effects may exist. Holds no device.
    Started,
    /// Prepared: every effect exists. The only phase that holds devices.
    Completed,
    /// An unfinished Prepare was undone: no side effects. Its fence refuses a late
    /// attempt for the same claim status for
    /// [`ABORTED_FENCE`](crate::ABORTED_FENCE); the record may outlive it.
    Aborted,
}

/// What happens to a record, with the facts that decide what becomes of it.
///
/// The claim's status identifies the allocation that is prepared: *same* means that
/// it equals the recorded one. A claim without a record has none, so that every
/// status is another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A Prepare begins for the recorded status, and no fence holds.
    StartSame,
    /// A Prepare begins for the recorded status, while its fence holds.
    StartFenced,
    /// A Prepare begins for another status.
    StartOther,
    /// A Prepare for the recorded status has all its side effects in place.
    CompleteSame,
    /// A Prepare for another status has all its side effects in place.
    CompleteOther,
    /// The side effects of an unfinished Prepare are undone.
    Abort,
    /// The side effects of a prepared claim are undone.
    Remove,
    /// A clean-up finds the record, and no fence of it holds.
    Expire,
    /// The claim is known to be prepared, and a damaged checkpoint may have
    /// lost it.
    Restore,
    /// The record is of an earlier boot, and what survived of the effects is
    /// undone.
    AfterReboot,
}

/// Why an event is refused. [`Refused`](crate::Refused) adds the claim and what
/// to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{}", self.name())]
pub enum Refusal {
    /// The claim is prepared already: its recorded devices are the answer.
    Completed,
    /// The claim is prepared: it is removed, not aborted.
    Prepared,
    /// A Prepare for this status was aborted, and its fence holds.
    Aborted,
    /// No Prepare is in progress.
    NotStarted,
    /// The Prepare in progress is for another status.
    OtherStatus,
    /// A Prepare is in progress: it is aborted, not removed.
    InProgress,
}

// === impl Phase ===

impl Phase {
    /// Every phase, in the order of a claim's life.
    pub const ALL: [Self; 4] = [Self::Absent, Self::Started, Self::Completed, Self::Aborted];

    /// A word for tables and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Absent => "Absent",
            Self::Started => "Started",
            Self::Completed => "Completed",
            Self::Aborted => "Aborted",
        }
    }

    /// The phase after `event`. One that stays the same means that the record
    /// does, but for [`Event::StartOther`], which replaces its status.
    pub fn next(self, event: Event) -> Result<Self, Refusal> {
        use Event::{
            Abort, AfterReboot, CompleteOther, CompleteSame, Expire, Remove, Restore, StartFenced,
            StartOther, StartSame,
        };
        match self {
            Self::Absent => match event {
                StartSame | StartFenced | StartOther => Ok(Self::Started),
                CompleteSame | CompleteOther | Abort => Err(Refusal::NotStarted),
                Restore => Ok(Self::Completed),
                Remove | Expire | AfterReboot => Ok(Self::Absent),
            },
            Self::Started => match event {
                StartSame | StartFenced | StartOther | Expire | Restore => Ok(Self::Started),
                CompleteSame => Ok(Self::Completed),
                CompleteOther => Err(Refusal::OtherStatus),
                Abort => Ok(Self::Aborted),
                Remove => Err(Refusal::InProgress),
                AfterReboot => Ok(Self::Absent),
            },
            Self::Completed => match event {
                // Whatever the status: what was prepared is the answer until
                // it is unprepared, as in Go.
                StartSame | StartFenced | StartOther | CompleteSame | CompleteOther => {
                    Err(Refusal::Completed)
                }
                Abort => Err(Refusal::Prepared),
                Expire | Restore => Ok(Self::Completed),
                Remove | AfterReboot => Ok(Self::Absent),
            },
            Self::Aborted => match event {
                StartFenced => Err(Refusal::Aborted),
                StartSame | StartOther => Ok(Self::Started),
                CompleteSame | CompleteOther => Err(Refusal::NotStarted),
                Abort | Remove | Restore => Ok(Self::Aborted),
                Expire | AfterReboot => Ok(Self::Absent),
            },
        }
    }
}

// === impl Event ===

impl Event {
    /// Every event, in the order of a claim's life.
    pub const ALL: [Self; 10] = [
        Self::StartSame,
        Self::StartFenced,
        Self::StartOther,
        Self::CompleteSame,
        Self::CompleteOther,
        Self::Abort,
        Self::Remove,
        Self::Expire,
        Self::Restore,
        Self::AfterReboot,
    ];

    /// A few words for tables and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::StartSame => "start, same status",
            Self::StartFenced => "start, same status, fenced",
            Self::StartOther => "start, another status",
            Self::CompleteSame => "complete, same status",
            Self::CompleteOther => "complete, another status",
            Self::Abort => "abort",
            Self::Remove => "remove",
            Self::Expire => "expire, fence over",
            Self::Restore => "restore",
            Self::AfterReboot => "found after a reboot",
        }
    }
}

// === impl Refusal ===

impl Refusal {
    /// The stable word for it, which is also [`Refused::code`](crate::Refused::code).
    pub fn name(self) -> &'static str {
        match self {
            Self::Completed => "claim-completed",
            Self::Prepared => "claim-prepared",
            Self::Aborted => "claim-aborted",
            Self::NotStarted => "claim-not-started",
            Self::OtherStatus => "claim-changed",
            Self::InProgress => "claim-in-progress",
        }
    }
}

#[cfg(test)]
mod tests;
