//! The state machine of a claim's record: [`Phase`] × [`Event`] → [`Phase`] or
//! [`Refusal`].
//!
//! [`Phase::next`] is the only transition function; [`Claims`](crate::Claims)
//! calls it before every change of a record. An event has every fact that it
//! depends on; the claim's identity and devices do not matter here. A driver
//! whose claims have effects outside the checkpoint can build the state machine
//! of the whole claim on this one.
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

/// The state of a claim on this node: its record's [`State`](crate::State)
/// without the data, or `Absent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// There is no record: the claim has no effects on this node.
    Absent,
    /// A Prepare has begun: effects may exist. Holds no device.
    Started,
    /// Prepared: every effect exists. The only phase that holds devices.
    Completed,
    /// An unfinished Prepare was undone: no effects. For
    /// [`ABORTED_FENCE`](crate::ABORTED_FENCE) its fence refuses late attempts with
    /// the same claim status. The record may outlive the fence.
    Aborted,
}

/// An event of a record, with the facts that decide the next phase.
///
/// The claim's status identifies the prepared allocation. *Same* means equal to
/// the recorded status; without a record, every status counts as another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A Prepare begins for the recorded status, without a fence.
    StartSame,
    /// A Prepare begins for the recorded status within its fence.
    StartFenced,
    /// A Prepare begins for another status.
    StartOther,
    /// A Prepare for the recorded status has made all its effects.
    CompleteSame,
    /// A Prepare for another status has made all its effects.
    CompleteOther,
    /// The effects of an unfinished Prepare are undone.
    Abort,
    /// The effects of a prepared claim are undone.
    Remove,
    /// A clean-up finds the record, and its fence is over.
    Expire,
    /// The claim is known to be prepared, and a damaged checkpoint may have
    /// lost it.
    Restore,
    /// The record is of an earlier boot, and the effects that survived it are undone.
    AfterReboot,
}

/// Why an event is refused. [`Refused`](crate::Refused) adds the claim and a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{}", self.name())]
pub enum Refusal {
    /// The claim is already prepared: its recorded devices are the answer.
    Completed,
    /// The claim is prepared: remove it, do not abort it.
    Prepared,
    /// A Prepare for this status was aborted, and its fence is not over.
    Aborted,
    /// No Prepare is in progress.
    NotStarted,
    /// The Prepare in progress is for another status.
    OtherStatus,
    /// A Prepare is in progress: abort it, do not remove it.
    InProgress,
}

// === impl Phase ===

impl Phase {
    /// Every phase, in the order of a claim's lifecycle.
    pub const ALL: [Self; 4] = [Self::Absent, Self::Started, Self::Completed, Self::Aborted];

    /// The name for tables and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Absent => "Absent",
            Self::Started => "Started",
            Self::Completed => "Completed",
            Self::Aborted => "Aborted",
        }
    }

    /// The phase after `event`. If the phase stays the same, so does the record,
    /// except that [`Event::StartOther`] replaces its status.
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
                // With any status: the prepared devices are the answer until
                // Unprepare, as in Go.
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
    /// Every event, in the order of a claim's lifecycle.
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

    /// The name for tables and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::StartSame => "start with the same status",
            Self::StartFenced => "start with the same status during the fence",
            Self::StartOther => "start with another status",
            Self::CompleteSame => "complete with the same status",
            Self::CompleteOther => "complete with another status",
            Self::Abort => "abort",
            Self::Remove => "remove",
            Self::Expire => "expire after the fence",
            Self::Restore => "restore",
            Self::AfterReboot => "found after a reboot",
        }
    }
}

// === impl Refusal ===

impl Refusal {
    /// The stable name, also [`Refused::code`](crate::Refused::code).
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
