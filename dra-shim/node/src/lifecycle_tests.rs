//! Exhaustive checks of the tables: every state, every transaction, a crash after
//! every step, and every interleaving of three processes.

use std::collections::{BTreeSet, HashSet};

use super::*;

/// The state before the first step, and after each.
fn states(from: ClaimState, transaction: Transaction) -> Vec<ClaimState> {
    let mut states = vec![from];
    for step in from.steps(transaction) {
        let state = states.last().unwrap().next(*step);
        let cause = (from.name(), transaction.name(), step.name());
        states.push(state.unwrap_or_else(|refusal| panic!("{cause:?}: {refusal}")));
    }
    states
}

fn after(from: ClaimState, transaction: Transaction) -> ClaimState {
    *states(from, transaction).last().unwrap()
}

/// An uninterrupted Prepare.
fn prepared(from: ClaimState) -> ClaimState {
    after(
        after(from, Transaction::BeginPrepare),
        Transaction::EndPrepare,
    )
}

/// Every state with every transaction.
fn pairs() -> impl Iterator<Item = (ClaimState, Transaction)> {
    ClaimState::ALL
        .into_iter()
        .flat_map(|state| Transaction::ALL.map(|transaction| (state, transaction)))
}

/// Every state that a crash in any transaction from any state leaves.
fn crashed() -> impl Iterator<Item = (ClaimState, Transaction, ClaimState)> {
    pairs().flat_map(|(from, transaction)| {
        let left = states(from, transaction);
        left.into_iter()
            .map(move |state| (from, transaction, state))
    })
}

fn has_stray_spec(state: ClaimState) -> bool {
    state.record == Phase::Absent && state.has_spec
}

#[test]
fn no_record_refuses_a_step_of_its_state() {
    for (from, transaction) in pairs() {
        let steps = from.steps(transaction).len();
        assert_eq!(states(from, transaction).len(), steps + 1);
    }
}

// req: NODE-16
#[test]
fn a_claim_becomes_prepared_only_with_its_spec_in_place() {
    for (from, transaction) in pairs() {
        for change in states(from, transaction).windows(2) {
            if change[0].record != Phase::Completed && change[1].record == Phase::Completed {
                assert!(change[1].has_spec, "{} {}", from.name(), transaction.name());
            }
        }
    }
}

// req: NODE-19
#[test]
fn a_spec_is_removed_before_its_record() {
    for (from, transaction) in pairs() {
        for change in states(from, transaction).windows(2) {
            let given_up = [Phase::Absent, Phase::Aborted].contains(&change[1].record);
            if change[0].record != change[1].record && given_up {
                assert!(
                    !change[1].has_spec,
                    "{} {}",
                    from.name(),
                    transaction.name()
                );
            }
        }
    }
}

#[test]
fn repeating_a_crashed_transaction_ends_where_it_would_have_ended() {
    for (from, transaction, crashed) in crashed() {
        let cause = (from.name(), transaction.name(), crashed.name());
        match transaction {
            // The plugin's next Prepare begins again.
            Transaction::BeginPrepare | Transaction::EndPrepare => {
                let state = prepared(crashed);
                assert_eq!(state, ClaimState::new(Phase::Completed, true), "{cause:?}");
            }
            _ => assert_eq!(
                after(crashed, transaction),
                after(from, transaction),
                "{cause:?}"
            ),
        }
    }
}

#[test]
fn after_any_crash_a_start_makes_no_spec_without_record_and_no_prepared_claim_without_spec() {
    for (from, transaction, crashed) in crashed() {
        for start in [Transaction::Start, Transaction::StartAfterReboot] {
            for state in states(crashed, start) {
                // A crash during the start is followed by another start.
                let state = after(state, start);
                let cause = (from.name(), transaction.name(), crashed.name());
                assert!(
                    !has_stray_spec(state) || has_stray_spec(crashed),
                    "{cause:?}"
                );
                assert!(
                    state.record != Phase::Completed || state.has_spec,
                    "{cause:?}"
                );
            }
        }
    }
}

#[test]
fn after_any_crash_the_claim_can_be_prepared_and_unprepared() {
    for (from, transaction, crashed) in crashed() {
        let cause = (from.name(), transaction.name(), crashed.name());
        let started = after(crashed, Transaction::Start);
        for state in [crashed, started] {
            assert_eq!(
                prepared(state),
                ClaimState::new(Phase::Completed, true),
                "{cause:?}"
            );
            let unprepared = after(state, Transaction::Unprepare);
            assert!(!unprepared.has_spec, "{cause:?}");
            assert!(
                [Phase::Absent, Phase::Aborted].contains(&unprepared.record),
                "{cause:?}"
            );
        }
    }
}

// req: NODE-22, CKPT-14
#[test]
fn a_spec_without_a_record_stays_until_the_api_server_has_answered() {
    let lost = ClaimState::new(Phase::Absent, true);
    for start in [Transaction::Start, Transaction::StartAfterReboot] {
        let found = after(lost, start);
        assert_eq!(found, lost);
        let restored = after(found, Transaction::Rebuild);
        assert_eq!(restored, ClaimState::new(Phase::Completed, true));
        let gone = after(found, Transaction::RebuildWithout);
        assert_eq!(gone, ClaimState::new(Phase::Absent, false));
    }
}

#[test]
fn no_record_or_spec_of_an_earlier_boot_is_left() {
    for state in ClaimState::ALL {
        if state.record != Phase::Absent {
            let state = after(state, Transaction::StartAfterReboot);
            assert_eq!(state, ClaimState::new(Phase::Absent, false));
        }
    }
}

#[test]
fn only_a_rebuild_depends_on_the_spec() {
    for transaction in Transaction::ALL {
        let depends = Phase::ALL.into_iter().any(|record| {
            ClaimState::new(record, false).steps(transaction)
                != ClaimState::new(record, true).steps(transaction)
        });
        let expected = transaction == Transaction::Rebuild;
        assert_eq!(depends, expected, "{}", transaction.name());
    }
}

#[test]
fn names_are_unique() {
    let taken = pairs().flat_map(|(state, transaction)| state.steps(transaction));
    let taken: HashSet<_> = taken.collect();
    let names = [
        ClaimState::ALL.map(ClaimState::name).to_vec(),
        Transaction::ALL.map(Transaction::name).to_vec(),
        taken.iter().map(|step| step.name()).collect(),
    ];
    for names in names {
        let unique: BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len(), "{names:?}");
    }
}

/// A process that serves one call for the claim. A Prepare is for one of two claim
/// statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Process {
    /// A Prepare that has not begun.
    Prepare(Status),
    /// A Prepare that has released the lock and not written its spec yet.
    PrepareWrites(Status),
    /// A Prepare that has written its spec.
    PrepareEnds(Status),
    Unprepare,
    Start,
    Expire,
    /// The call has returned.
    Idle,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Status {
    A,
    B,
}

/// The claim's state, with the status of its record and of its spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Found {
    state: ClaimState,
    recorded: Status,
    written: Status,
}

/// All possible results of the next action of `process`: the claim's state, and the
/// remaining work of the process.
fn act(found: Found, process: Process) -> Vec<(Found, Process)> {
    let state = found.state;
    let take = |transaction| {
        let state = after(state, transaction);
        (Found { state, ..found }, Process::Idle)
    };
    match process {
        Process::Prepare(status) => begin(found, status),
        Process::PrepareWrites(status) => {
            let state = state.next(Step::WriteSpec).unwrap();
            let written = status;
            let found = Found {
                state,
                written,
                ..found
            };
            vec![(found, Process::PrepareEnds(status))]
        }
        Process::PrepareEnds(status)
            if state.record != Phase::Absent && found.recorded != status =>
        {
            let (mut ended, idle) = take(Transaction::EndPrepareSuperseded);
            let steps = state.steps(Transaction::EndPrepareSuperseded);
            if steps.contains(&Step::WriteSpec) {
                ended.written = found.recorded;
            }
            vec![(ended, idle)]
        }
        Process::PrepareEnds(status) => {
            let (mut ended, idle) = take(Transaction::EndPrepare);
            if state
                .steps(Transaction::EndPrepare)
                .contains(&Step::WriteSpec)
            {
                ended.written = status;
            }
            vec![(ended, idle), take(Transaction::EndPrepareRefused)]
        }
        Process::Unprepare => vec![take(Transaction::Unprepare)],
        Process::Start => vec![take(Transaction::Start)],
        Process::Expire => vec![take(Transaction::Expire)],
        Process::Idle => vec![],
    }
}

fn begin(found: Found, status: Status) -> Vec<(Found, Process)> {
    let steps = found.state.steps(Transaction::BeginPrepare);
    let [under_lock @ .., Step::WriteSpec] = steps else {
        panic!("{steps:?}")
    };
    if under_lock.is_empty() {
        // The answer for a prepared claim is given under the lock.
        let state = found.state.next(Step::WriteSpec).unwrap();
        let written = found.recorded;
        let found = Found {
            state,
            written,
            ..found
        };
        return vec![(found, Process::Idle)];
    }
    let begun = under_lock
        .iter()
        .try_fold(found.state, |state, step| state.next(*step))
        .unwrap();
    let begun = Found {
        state: begun,
        recorded: status,
        ..found
    };
    let mut next = vec![(begun, Process::PrepareWrites(status))];
    if found.state.record == Phase::Aborted && found.recorded == status {
        next.push((found, Process::Idle)); // the fence refuses it
    }
    next
}

/// Every configuration reachable from `processes` on an empty node.
fn interleavings(processes: [Process; 3]) -> Vec<(Found, [Process; 3])> {
    let empty = Found {
        state: ClaimState::new(Phase::Absent, false),
        recorded: Status::A,
        written: Status::A,
    };
    let mut reached = vec![(empty, processes)];
    let mut at = 0;
    while let Some((found, processes)) = reached.get(at).copied() {
        at += 1;
        for (index, process) in processes.into_iter().enumerate() {
            for (found, process) in act(found, process) {
                let mut processes = processes;
                processes[index] = process;
                if !reached.contains(&(found, processes)) {
                    reached.push((found, processes));
                }
            }
        }
    }
    reached
}

/// Two Prepares of the claim, for one status or for two, and one more call, in
/// processes of their own.
fn all_interleavings() -> Vec<(Found, [Process; 3])> {
    let third = [
        Process::Prepare(Status::A),
        Process::Unprepare,
        Process::Start,
        Process::Expire,
    ];
    let second = [Status::A, Status::B].map(Process::Prepare);
    let calls = third
        .into_iter()
        .flat_map(|third| second.map(|second| [Process::Prepare(Status::A), second, third]));
    calls.flat_map(interleavings).collect()
}

#[test]
fn after_all_calls_a_prepared_claim_has_its_own_spec() {
    let ended: Vec<_> = all_interleavings()
        .into_iter()
        .filter(|(_, processes)| processes.iter().all(|process| *process == Process::Idle))
        .map(|(found, _)| found)
        .collect();
    for found in &ended {
        let ClaimState { record, has_spec } = found.state;
        match record {
            Phase::Completed => {
                assert!(has_spec && found.written == found.recorded, "{found:?}");
            }
            // There may be a spec of a late Prepare for an older status: the claim's
            // next call handles it together with the record.
            Phase::Started => {}
            Phase::Absent | Phase::Aborted => assert!(!has_spec, "{found:?}"),
        }
    }
    let is_prepared = |found: &&Found| found.state.record == Phase::Completed;
    assert!(ended.iter().any(|found| is_prepared(&found)));
    assert!(ended.iter().any(|found| !is_prepared(&found)));
}

#[test]
fn wherever_the_processes_die_the_next_start_and_call_recover() {
    for (Found { state, .. }, processes) in all_interleavings() {
        let started = after(state, Transaction::Start);
        let settled = after(started, Transaction::RebuildWithout);
        assert!(!has_stray_spec(settled), "{} {processes:?}", state.name());
        assert_eq!(prepared(started), ClaimState::new(Phase::Completed, true));
        assert!(!after(started, Transaction::Unprepare).has_spec);
    }
}
