//! The life cycle of a claim on a node, in two tables: [`ClaimState`] × [`Transaction`]
//! → [`Step`]s, and [`ClaimState`] × [`Step`] → [`ClaimState`].
//!
//! [`ClaimState::steps`] decides which steps a transaction takes.
//! [`NodeClaims`](crate::NodeClaims) calls it under the checkpoint's lock with
//! the current state, and takes the steps in order. `BeginPrepare` is the
//! exception: its spec is written after the lock is released, and the second
//! transaction checks the record again. Each step is durable before the next one
//! begins. A crash therefore leaves the state after any number of steps. Every
//! transaction can start from any state, so recovery needs no other code.
//!
//! If a record refuses a step ([`dra_checkpoint::lifecycle`]), the transaction
//! ends with an error before that step.
//!
//! ```
//! use node_claims::lifecycle::{ClaimState, Step, Transaction};
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

/// The state of one claim in the node's two directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClaimState {
    /// The phase of the claim's record in the checkpoint.
    pub record: Phase,
    /// Whether the claim has a CDI spec. Runtimes read it whenever a container starts.
    pub has_spec: bool,
}

/// One atomic decision about a claim, from its state under the checkpoint's lock.
///
/// A Prepare takes two transactions. Other processes may act between them, so
/// the second one decides again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transaction {
    /// kubelet called Prepare. The spec is written after the lock is released:
    /// the Started record announces it.
    BeginPrepare,
    /// This Prepare has written its spec. No other claim uses the device, and the
    /// record has the same claim status.
    EndPrepare,
    /// This Prepare has written its spec, but another claim uses the device. The
    /// record has the same claim status.
    EndPrepareRefused,
    /// This Prepare has written its spec, but the record now has another claim
    /// status.
    EndPrepareSuperseded,
    /// kubelet called Unprepare; or the claim has been deleted for
    /// [`ABSENT_FOR`](crate::ABSENT_FOR) without a call by kubelet.
    Unprepare,
    /// The plugin started, and the record is from the current boot.
    Start,
    /// The plugin started for the first time since a reboot: no container uses
    /// a device of the earlier boot any more.
    StartAfterReboot,
    /// Specs were removed while the plugin runs, or the NVIDIA driver was reloaded
    /// and its channels have a new major.
    Repair,
    /// The checkpoint was damaged, and the API server reports that the claim is
    /// allocated on this node.
    Rebuild,
    /// The checkpoint was damaged, and the API server reports that the claim is not
    /// allocated on this node.
    RebuildWithout,
    /// The fence of an aborted Prepare has expired.
    Expire,
}

/// One durable change of the record or the spec. Idempotent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Write the spec, unless it is up to date.
    WriteSpec,
    /// Remove the spec.
    RemoveSpec,
    /// Change the record. Where the event depends on the claim status, the step has the event of
    /// an uninterrupted Prepare.
    Record(Event),
}

// === impl ClaimState ===

impl ClaimState {
    /// Every state, in life-cycle order.
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

    /// The steps that `transaction` takes from this state, in order.
    // req: NODE-16
    pub fn steps(self, transaction: Transaction) -> &'static [Step] {
        match transaction {
            Transaction::BeginPrepare => match self.record {
                // A prepared claim does not depend on config or fabric.
                Phase::Completed => &[Step::WriteSpec],
                Phase::Absent | Phase::Started | Phase::Aborted => {
                    &[Step::Record(Event::StartOther), Step::WriteSpec]
                }
            },
            Transaction::EndPrepare => match self.record {
                // Written again: a Prepare in another process may have removed the
                // spec, or written one for another claim status.
                Phase::Started => &[Step::WriteSpec, Step::Record(Event::CompleteSame)],
                // A Prepare of the same claim in another process has won.
                Phase::Completed => &[],
                // An Unprepare interrupted this Prepare.
                Phase::Absent | Phase::Aborted => &[Step::RemoveSpec],
            },
            Transaction::EndPrepareRefused => match self.record {
                Phase::Completed => &[],
                Phase::Absent | Phase::Started | Phase::Aborted => &[Step::RemoveSpec],
            },
            Transaction::EndPrepareSuperseded => match self.record {
                // The other Prepare writes or removes the spec.
                Phase::Started => &[],
                // The other Prepare has completed: this Prepare's spec may differ.
                Phase::Completed => &[Step::WriteSpec],
                Phase::Absent | Phase::Aborted => &[Step::RemoveSpec],
            },
            // The spec is removed first: no container may start with the device
            // once another claim can hold it.
            Transaction::Unprepare => match self.record {
                Phase::Started => &[Step::RemoveSpec, Step::Record(Event::Abort)],
                Phase::Completed => &[Step::RemoveSpec, Step::Record(Event::Remove)],
                Phase::Absent | Phase::Aborted => &[Step::RemoveSpec],
            },
            Transaction::Start => match self.record {
                Phase::Completed => &[Step::WriteSpec],
                // The claim's next Prepare or Unprepare handles a Started or Aborted record. A spec
                // without a record is damage: the record may be lost while a container uses the
                // spec. `Rebuild` or `RebuildWithout` follows.
                Phase::Absent | Phase::Started | Phase::Aborted => &[],
            },
            Transaction::StartAfterReboot => match self.record {
                // As at any other start: a checkpoint of an earlier boot may have been restored.
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
                // A record that has survived is valid.
                Phase::Started | Phase::Completed | Phase::Aborted => &[],
            },
            Transaction::Expire => match self.record {
                Phase::Aborted => &[Step::RemoveSpec, Step::Record(Event::Expire)],
                Phase::Absent | Phase::Started | Phase::Completed => &[],
            },
        }
    }

    /// The state after `step`. A [`ClaimState`] has neither fence nor claim status: it assumes that
    /// no fence refuses a start, and that a completion is for the recorded status.
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
    /// Every transaction, in life-cycle order.
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
