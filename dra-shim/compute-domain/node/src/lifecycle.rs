//! The life of a claim on a node as two tables: [`ClaimState`] × [`Transaction`]
//! → [`Step`]s, and [`ClaimState`] × [`Step`] → [`ClaimState`].
//!
//! [`ClaimState::steps`] decides which steps a transaction takes.
//! [`NodeClaims`](crate::NodeClaims) calls it under the checkpoint's lock, with
//! the state that it finds there, and takes the steps in their order. Prepare
//! begins with one exception: its spec is written after the lock is released, and
//! the second transaction checks the record again. Each step
//! is durable before the next one begins. A crash therefore leaves the state
//! after any number of steps, and every transaction can start from any state:
//! recovery needs nothing else.
//!
//! A record may refuse a step ([`dra_checkpoint::lifecycle`]). The transaction
//! then ends before it, with an error.
//!
//! ```
//! use compute_domain_node::lifecycle::{ClaimState, Step, Transaction};
//! use dra_checkpoint::lifecycle::{Event, Phase};
//!
//! let prepared = ClaimState { record: Phase::Completed, has_spec: true };
//! let steps = prepared.steps(Transaction::Unprepare);
//! assert_eq!(steps, [Step::RemoveSpec, Step::Record(Event::Remove)]);
//!
//! // A crash between the two leaves a record without its spec. The next start
//! // writes the spec again; a repeated Unprepare continues.
//! let crashed = prepared.next(Step::RemoveSpec)?;
//! assert_eq!(crashed.steps(Transaction::Start), [Step::WriteSpec]);
//! assert_eq!(crashed.steps(Transaction::Unprepare), steps);
//! # Ok::<_, dra_checkpoint::lifecycle::Refusal>(())
//! ```

use dra_checkpoint::lifecycle::{Event, Phase, Refusal};

/// What the node's two directories hold of one claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClaimState {
    /// How far the claim's record in the checkpoint got.
    pub record: Phase,
    /// Whether the claim has a CDI spec, which runtimes read whenever a
    /// container starts.
    pub has_spec: bool,
}

/// What is decided about one claim at once, from the state that is found under
/// the checkpoint's lock.
///
/// A Prepare takes two transactions. Other processes may act between them, so
/// the second one decides again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transaction {
    /// kubelet called Prepare. The spec is written after the lock is released:
    /// the Started record announces it.
    BeginPrepare,
    /// This Prepare has written its spec. No other claim uses the device, and
    /// the record is not that of another claim status.
    EndPrepare,
    /// This Prepare has written its spec, but another claim uses the device. The
    /// record is not that of another claim status.
    EndPrepareRefused,
    /// This Prepare has written its spec, but the record is that of another claim
    /// status by now.
    EndPrepareSuperseded,
    /// kubelet called Unprepare; or the claim has been gone for
    /// [`ABSENT_FOR`](crate::ABSENT_FOR), and kubelet did not call.
    Unprepare,
    /// The plugin started, in the boot that the record is of.
    Start,
    /// The plugin started for the first time since a reboot: no container is
    /// left that uses a device of the earlier boot.
    StartAfterReboot,
    /// Somebody has removed specs while the plugin runs, or the driver was loaded
    /// again and its channels have another major.
    Repair,
    /// The checkpoint was damaged, and the API server reports that the claim is
    /// allocated on this node.
    Rebuild,
    /// The checkpoint was damaged, and the API server reports that the claim is not
    /// allocated on this node.
    RebuildWithout,
    /// Time passed: the fence of an aborted Prepare is no longer needed.
    Expire,
}

/// One durable change of the record or the spec. Taking it again changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// The spec is written, unless it is right already.
    WriteSpec,
    /// The spec is removed.
    RemoveSpec,
    /// The record changes. Of the events that depend on the claim status, a step has the one for a
    /// Prepare that nothing came in between of.
    Record(Event),
}

// === impl ClaimState ===

impl ClaimState {
    /// Every state, in the order of a claim's life.
    pub const ALL: [Self; 8] = [
        Self::new(Phase::Absent, false),
        Self::new(Phase::Absent, true),
        Self::new(Phase::Started, false),
        Self::new(Phase::Started, true),
        Self::new(Phase::Completed, false),
        Self::new(Phase::Completed, true),
        Self::new(Phase::Aborted, false),
        Self::new(Phase::Aborted, true),
    ];

    const fn new(record: Phase, has_spec: bool) -> Self {
        Self { record, has_spec }
    }

    /// A few words for tables and messages.
    pub fn name(self) -> &'static str {
        match (self.record, self.has_spec) {
            (Phase::Absent, false) => "Absent",
            (Phase::Absent, true) => "Absent, spec",
            (Phase::Started, false) => "Started",
            (Phase::Started, true) => "Started, spec",
            (Phase::Completed, false) => "Completed",
            (Phase::Completed, true) => "Completed, spec",
            (Phase::Aborted, false) => "Aborted",
            (Phase::Aborted, true) => "Aborted, spec",
        }
    }

    /// The steps that `transaction` takes from this state, in their order.
    // req: NODE-16
    pub fn steps(self, transaction: Transaction) -> &'static [Step] {
        match transaction {
            Transaction::BeginPrepare => match self.record {
                // Neither config nor fabric matter to a prepared claim.
                Phase::Completed => &[Step::WriteSpec],
                Phase::Absent | Phase::Started | Phase::Aborted => {
                    &[Step::Record(Event::StartOther), Step::WriteSpec]
                }
            },
            Transaction::EndPrepare => match self.record {
                // Again: a Prepare in another process may have removed the spec,
                // or written one for another claim status.
                Phase::Started => &[Step::WriteSpec, Step::Record(Event::CompleteSame)],
                // A Prepare in another process has won, for the same claim.
                Phase::Completed => &[],
                // An Unprepare came in between.
                Phase::Absent | Phase::Aborted => &[Step::RemoveSpec],
            },
            Transaction::EndPrepareRefused => match self.record {
                Phase::Completed => &[],
                Phase::Absent | Phase::Started | Phase::Aborted => &[Step::RemoveSpec],
            },
            Transaction::EndPrepareSuperseded => match self.record {
                // The spec is the other Prepare's to assert and to remove.
                Phase::Started => &[],
                // The other one has answered: this one's spec may differ.
                Phase::Completed => &[Step::WriteSpec],
                Phase::Absent | Phase::Aborted => &[Step::RemoveSpec],
            },
            // The spec goes first: no container may start with the device once
            // another claim can hold it.
            Transaction::Unprepare => match self.record {
                Phase::Started => &[Step::RemoveSpec, Step::Record(Event::Abort)],
                Phase::Completed => &[Step::RemoveSpec, Step::Record(Event::Remove)],
                Phase::Absent | Phase::Aborted => &[Step::RemoveSpec],
            },
            Transaction::Start => match self.record {
                Phase::Completed => &[Step::WriteSpec],
                // The next Prepare or Unprepare of the claim takes care of a Started or Aborted record. A
                // spec without a record is damage: the record may be lost, and a container use
                // the spec. Then `Rebuild` or `RebuildWithout` follows.
                Phase::Absent | Phase::Started | Phase::Aborted => &[],
            },
            Transaction::StartAfterReboot => match self.record {
                // As at any other start: a record of an earlier boot may have been put back.
                Phase::Absent => &[],
                Phase::Started | Phase::Completed | Phase::Aborted => {
                    &[Step::RemoveSpec, Step::Record(Event::AfterReboot)]
                }
            },
            Transaction::Repair => match self.record {
                Phase::Completed => &[Step::WriteSpec],
                Phase::Absent | Phase::Started | Phase::Aborted => &[],
            },
            // Without a spec the claim was never prepared on this node.
            Transaction::Rebuild if self.has_spec => &[Step::Record(Event::Restore)],
            Transaction::Rebuild => &[],
            Transaction::RebuildWithout => match self.record {
                Phase::Absent => &[Step::RemoveSpec],
                // A record that has survived is right.
                Phase::Started | Phase::Completed | Phase::Aborted => &[],
            },
            Transaction::Expire => match self.record {
                Phase::Aborted => &[Step::RemoveSpec, Step::Record(Event::Expire)],
                Phase::Absent | Phase::Started | Phase::Completed => &[],
            },
        }
    }

    /// The state after `step`. A [`ClaimState`] has neither fence nor claim status:
    /// a start is taken to be a Prepare that no fence refuses, and
    /// a completion one for the recorded status.
    ///
    /// # Errors
    /// The record refuses the step; nothing changes.
    pub fn next(self, step: Step) -> Result<Self, Refusal> {
        match step {
            Step::WriteSpec => Ok(Self::new(self.record, true)),
            Step::RemoveSpec => Ok(Self::new(self.record, false)),
            Step::Record(event) => Ok(Self::new(self.record.next(event)?, self.has_spec)),
        }
    }
}

// === impl Transaction ===

impl Transaction {
    /// Every transaction, in the order of a claim's life.
    pub const ALL: [Self; 11] = [
        Self::BeginPrepare,
        Self::EndPrepare,
        Self::EndPrepareRefused,
        Self::EndPrepareSuperseded,
        Self::Unprepare,
        Self::Start,
        Self::StartAfterReboot,
        Self::Repair,
        Self::Rebuild,
        Self::RebuildWithout,
        Self::Expire,
    ];

    /// A few words for tables and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::BeginPrepare => "Prepare begins",
            Self::EndPrepare => "Prepare ends",
            Self::EndPrepareRefused => "Prepare ends, refused",
            Self::EndPrepareSuperseded => "Prepare ends, superseded",
            Self::Unprepare => "Unprepare",
            Self::Start => "start",
            Self::StartAfterReboot => "start after a reboot",
            Self::Repair => "repair",
            Self::Rebuild => "rebuild",
            Self::RebuildWithout => "rebuild, not allocated",
            Self::Expire => "fence expired",
        }
    }
}

// === impl Step ===

impl Step {
    /// A few words for tables and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::WriteSpec => "write spec",
            Self::RemoveSpec => "remove spec",
            Self::Record(event) => match event {
                Event::StartSame | Event::StartFenced | Event::StartOther => "record Started",
                Event::CompleteSame | Event::CompleteOther => "record Completed",
                Event::Abort => "record Aborted",
                Event::Remove => "remove record",
                Event::Expire => "remove expired record",
                Event::AfterReboot => "remove old record",
                Event::Restore => "restore record",
            },
        }
    }
}

#[cfg(test)]
#[path = "lifecycle_tests.rs"]
mod tests;
