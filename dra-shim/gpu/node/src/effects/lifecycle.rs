//! What happens to the journal and the hardware of one claim: a table of [`State`] × [`Occasion`] → [`Step`]s.
//!
//! Each step is durable before the next one begins, every step may be the last of its process, and every step may
//! run twice. So the hardware differs from what it was before the claim only while there is a journal. The steps of
//! record and spec in between are those of [`node_claims::lifecycle`].
//!
//! ```
//! use dra_checkpoint::lifecycle::Phase;
//! use gpu_node::lifecycle::{Journal, Occasion, State, Step};
//!
//! let prepared = State { record: Phase::Completed, journal: Journal::Wanted };
//! assert_eq!(
//!     prepared.steps(Occasion::Unprepare),
//!     [Step::Restore, Step::RemoveRecord, Step::RemoveJournal]
//! );
//! // A crash before the last step leaves a journal without a record. The API server is asked first.
//! let crashed = State { record: Phase::Absent, journal: Journal::Wanted };
//! assert_eq!(crashed.steps(Occasion::Start), []);
//! assert_eq!(crashed.steps(Occasion::Unprepare), prepared.steps(Occasion::Unprepare));
//! ```

use dra_checkpoint::lifecycle::Phase;

/// The state of one claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct State {
    /// The phase of its record.
    pub record: Phase,
    /// Its journal.
    pub journal: Journal,
}

/// The journal of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Journal {
    /// None: the hardware is as it was before the claim.
    None,
    /// The hardware is changed for the claim, or may be.
    Wanted,
    /// The claim has ended, and its changes are to be undone.
    Undo,
}

/// When the hardware of a claim is looked after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Occasion {
    /// A Prepare has written the Started record.
    Prepare,
    /// kubelet calls Unprepare, or the API server has no such claim any more and no pod uses it. A Prepare that has
    /// changed the hardware and fails takes the same steps, without the record's.
    Unprepare,
    /// As [`Unprepare`](Self::Unprepare), but the hardware cannot be restored now.
    UnprepareStuck,
    /// The plugin or the driver starts; also repeated while something could not be restored.
    Start,
}

/// One change. Idempotent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Write the journal: what is changed, and the state before.
    WriteJournal,
    /// Change the hardware.
    Change,
    /// Restore the hardware that no other claim's journal names.
    Restore,
    /// Note in the journal that the claim has ended.
    MarkUndo,
    /// The record of the claim is removed, or becomes Aborted.
    RemoveRecord,
    /// Remove the journal.
    RemoveJournal,
}

// === impl State ===

impl State {
    /// Every state.
    pub const ALL: [Self; 12] = [
        Self::new(Phase::Absent, Journal::None),
        Self::new(Phase::Absent, Journal::Wanted),
        Self::new(Phase::Absent, Journal::Undo),
        Self::new(Phase::Started, Journal::None),
        Self::new(Phase::Started, Journal::Wanted),
        Self::new(Phase::Started, Journal::Undo),
        Self::new(Phase::Completed, Journal::None),
        Self::new(Phase::Completed, Journal::Wanted),
        Self::new(Phase::Completed, Journal::Undo),
        Self::new(Phase::Aborted, Journal::None),
        Self::new(Phase::Aborted, Journal::Wanted),
        Self::new(Phase::Aborted, Journal::Undo),
    ];

    const fn new(record: Phase, journal: Journal) -> Self {
        Self { record, journal }
    }

    /// A few words for tables.
    pub fn name(self) -> String {
        match self.journal {
            Journal::None => self.record.name().to_owned(),
            Journal::Wanted => format!("{}, journal", self.record.name()),
            Journal::Undo => format!("{}, journal to undo", self.record.name()),
        }
    }

    /// The steps of this occasion, in order. A claim that asks for no change and has no journal takes no step.
    // req: GPU-60
    pub fn steps(self, occasion: Occasion) -> &'static [Step] {
        match (occasion, self.journal, self.record) {
            (Occasion::Prepare, ..) => &[Step::WriteJournal, Step::Change],
            (Occasion::Unprepare, Journal::Wanted | Journal::Undo, _) => {
                &[Step::Restore, Step::RemoveRecord, Step::RemoveJournal]
            }
            (Occasion::UnprepareStuck, Journal::Wanted | Journal::Undo, _) => {
                &[Step::MarkUndo, Step::RemoveRecord]
            }
            (Occasion::Unprepare | Occasion::UnprepareStuck, Journal::None, _) => {
                &[Step::RemoveRecord]
            }
            // An interrupted Unprepare. Until kubelet repeats it, a container may start.
            (Occasion::Start, Journal::Wanted | Journal::Undo, Phase::Completed) => {
                &[Step::WriteJournal, Step::Change]
            }
            (Occasion::Start, Journal::Undo, Phase::Absent | Phase::Aborted) => {
                &[Step::Restore, Step::RemoveJournal]
            }
            // The claim's next Prepare or Unprepare: without a record, a pod may be using the hardware after an older
            // checkpoint was copied back.
            (Occasion::Start, ..) => &[],
        }
    }

    /// The state after `step`.
    #[must_use]
    pub fn next(self, step: Step) -> Self {
        match step {
            Step::WriteJournal => Self::new(self.record, Journal::Wanted),
            Step::MarkUndo => Self::new(self.record, Journal::Undo),
            Step::RemoveJournal => Self::new(self.record, Journal::None),
            Step::RemoveRecord => Self::new(Phase::Absent, self.journal),
            Step::Change | Step::Restore => self,
        }
    }
}

// === impl Occasion ===

impl Occasion {
    /// Every occasion.
    pub const ALL: [Self; 4] = [
        Self::Prepare,
        Self::Unprepare,
        Self::UnprepareStuck,
        Self::Start,
    ];

    /// A few words for tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prepare => "Prepare",
            Self::Unprepare => "Unprepare, or the claim is gone",
            Self::UnprepareStuck => "Unprepare, not restored",
            Self::Start => "start",
        }
    }
}

// === impl Step ===

impl Step {
    /// A few words for tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::WriteJournal => "write journal",
            Self::Change => "change hardware",
            Self::Restore => "restore hardware",
            Self::MarkUndo => "mark journal to undo",
            Self::RemoveRecord => "remove record",
            Self::RemoveJournal => "remove journal",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The state of the claim, and whether the hardware is changed: the states before the first step and after each.
    fn walk(from: (State, bool), occasion: Occasion) -> Vec<(State, bool)> {
        let mut states = vec![from];
        for step in from.0.steps(occasion) {
            let (state, changed) = *states.last().unwrap();
            let changed = match step {
                Step::Change => true,
                Step::Restore => false,
                _ => changed,
            };
            states.push((state.next(*step), changed));
        }
        states
    }

    /// Every state that crashes can leave, from a node without claims.
    fn reachable() -> Vec<(State, bool)> {
        let mut reached = vec![(State::new(Phase::Absent, Journal::None), false)];
        let mut at = 0;
        while let Some(from) = reached.get(at).copied() {
            at += 1;
            // The record changes by Prepare and by a restored checkpoint.
            let records = Phase::ALL.map(|record| (State::new(record, from.0.journal), from.1));
            let walks = Occasion::ALL.into_iter().flat_map(|it| walk(from, it));
            for state in walks.chain(records) {
                if !reached.contains(&state) {
                    reached.push(state);
                }
            }
        }
        reached
    }

    // req: GPU-60
    #[test]
    fn hardware_is_changed_only_while_there_is_a_journal() {
        let states = reachable();
        assert!(states.len() > State::ALL.len());
        for (state, changed) in states {
            assert!(
                !changed || state.journal != Journal::None,
                "{}",
                state.name()
            );
        }
    }

    // req: GPU-60, GPU-61
    #[test]
    fn after_any_crash_an_unprepare_or_the_end_of_the_claim_leaves_no_journal_and_no_change() {
        for from in reachable() {
            let (state, changed) = *walk(from, Occasion::Unprepare).last().unwrap();
            assert!(!changed, "{}", from.0.name());
            assert_eq!(state, State::new(Phase::Absent, Journal::None));
            // Where the hardware was broken, a later start restores it.
            let stuck = *walk(from, Occasion::UnprepareStuck).last().unwrap();
            let (state, changed) = *walk(stuck, Occasion::Start).last().unwrap();
            assert!(
                !changed && state.journal == Journal::None,
                "{}",
                from.0.name()
            );
        }
    }

    // req: GPU-61
    #[test]
    fn nothing_is_restored_at_a_start_while_a_pod_may_use_it() {
        for state in State::ALL {
            let restores = state.steps(Occasion::Start).contains(&Step::Restore);
            let has_ended = state.journal == Journal::Undo
                && [Phase::Absent, Phase::Aborted].contains(&state.record);
            assert_eq!(restores, has_ended, "{}", state.name());
        }
    }

    // req: GPU-60
    #[test]
    fn the_record_is_removed_after_the_hardware_is_restored_or_noted() {
        for state in State::ALL {
            for occasion in Occasion::ALL {
                let steps = state.steps(occasion);
                let removed = steps.iter().position(|it| *it == Step::RemoveRecord);
                let noted = steps
                    .iter()
                    .position(|it| [Step::Restore, Step::MarkUndo].contains(it));
                if removed.is_some() && state.journal != Journal::None {
                    assert!(noted < removed, "{} {}", state.name(), occasion.name());
                }
            }
        }
    }
}
