//! Crashes at any step. A driver that loses a Completed record gives one device to two
//! pods; one that loses a Started record leaks its effects. So after a crash the store
//! must hold the state before or after the commit in progress, and every acknowledged
//! commit.

use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::thread;

use dra_checkpoint::{ClaimRecord, CommitError, Damage, Refused, State, Store};
use durable_file::sim::{self, Counts};
use durable_file::{Dir, SimDir, Step};
use proptest::prelude::*;

use crate::common::{Group, TestPayload, TwoFiles, at, boot, claim, group, open, open_as, status};
use crate::script::{Commit, check, expected, run_all, script};

fn enumerate<P: TestPayload>(commits: &[Commit<P>]) -> Counts {
    let states = expected(commits);
    let counts = sim::enumerate(
        |dir| {
            run_all(&open_as(dir).0, commits, || dir.acknowledge());
        },
        |crash| check(crash, &states).unwrap(),
    );
    assert_eq!(counts.operations, commits.len());
    counts
}

// req: CKPT-6
#[test]
fn after_a_crash_at_any_step_the_state_is_old_or_new() {
    println!("script: {}", enumerate(&script::<Group>()));
}

// req: CKPT-20
#[test]
fn after_a_crash_at_any_step_the_state_in_two_files_is_old_or_new() {
    println!("script: {}", enumerate(&script::<TwoFiles>()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn after_a_crash_in_any_sequence_the_state_is_old_or_new(
        commits in prop::collection::vec(prop::sample::select(script::<Group>()), 1..10),
    ) {
        enumerate(&commits);
    }

    #[test]
    fn after_a_crash_in_any_sequence_the_state_in_two_files_is_old_or_new(
        commits in prop::collection::vec(prop::sample::select(script::<TwoFiles>()), 1..10),
    ) {
        enumerate(&commits);
    }
}

#[test]
fn the_check_detects_an_acknowledgement_before_the_commit() {
    let script = script::<Group>();
    let states = expected(&script);
    let lost = Cell::new(0);
    sim::enumerate(
        |dir| {
            let (store, _) = open(dir);
            for commit in &script {
                dir.acknowledge();
                commit(&store).unwrap();
            }
        },
        |crash| lost.set(lost.get() + usize::from(check(crash, &states).is_err())),
    );
    assert!(lost.get() >= script.len(), "{} violations", lost.get());
}

type Call = fn(&Store<Group>, &'static str) -> Result<(), CommitError<Refused>>;

/// One caller's commits on its own claim.
const CALLS: [Call; 3] = [
    |store, uid| store.commit(move |claims| claims.start(&claim(uid), &status("p"), at(0))),
    |store, uid| store.commit(move |claims| claims.complete(uid, &status("p"), vec![group()])),
    |store, uid| store.commit(move |claims| claims.remove(uid)),
];

// req: CKPT-6
#[test]
fn after_a_crash_under_many_callers_every_acknowledged_call_is_there() {
    const CALLERS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
    let leave = |calls: usize| match calls {
        1 => Some(State::Started),
        2 => Some(State::Completed(vec![group()])),
        _ => None,
    };
    // The UIDs of the acknowledged calls, in order.
    let acknowledged = Mutex::new(Vec::new());
    let counts = sim::enumerate(
        |dir| {
            let (store, _) = open(dir);
            thread::scope(|scope| {
                for uid in CALLERS {
                    let (store, acknowledged) = (&store, &acknowledged);
                    scope.spawn(move || {
                        for call in CALLS {
                            call(store, uid).unwrap();
                            let mut acknowledged = acknowledged.lock().unwrap();
                            dir.acknowledge();
                            acknowledged.push(uid);
                        }
                    });
                }
            });
        },
        |crash| {
            let (store, damage) = open(&crash.dir);
            assert_eq!(damage, Damage::None, "{crash}");
            let acknowledged = &acknowledged.lock().unwrap()[..crash.acknowledged];
            for uid in CALLERS {
                let calls = acknowledged.iter().filter(|it| **it == uid).count();
                let found = store.view().get(uid).map(|record| record.state.clone());
                let allowed = [leave(calls), leave(calls + 1)];
                assert!(allowed.contains(&found), "{crash}: {uid}: {found:?}");
            }
        },
    );
    println!("many callers: {counts}");
}

#[test]
fn a_visible_write_of_a_killed_process_is_made_durable_before_use() {
    let dir = SimDir::new();
    let (store, _) = open(&dir);
    let before_directory_sync = 4;
    dir.crash_after(before_directory_sync);
    let start = |store: &Store<Group>| {
        store.commit(|claims| claims.start(&claim("a"), &status("p"), at(0)))
    };
    start(&store).unwrap_err();
    assert!(matches!(dir.steps().last(), Some(Step::Rename(..))));
    assert!(open(&dir.after_power_loss()).0.view().get("a").is_none());

    let dir = dir.after_kill();
    let (store, _) = open(&dir);
    start(&store).unwrap();
    assert!(open(&dir.after_power_loss()).0.view().get("a").is_some());
}

/// Rebuilds the store of a damaged file.
fn rebuild(dir: &SimDir) -> Result<(), CommitError<Refused>> {
    let (store, _) = Store::<Group>::open(Arc::new(dir.clone()), boot())?;
    store.commit(|claims| claims.restore(&claim("a"), status("p"), vec![group()]))?;
    store.commit(|claims| {
        claims.mark_rebuilt();
        Ok(())
    })
}

fn knows_a(store: &Store<Group>) -> bool {
    store.view().get("a").is_some_and(ClaimRecord::is_completed)
}

// req: CKPT-13
#[test]
fn no_crash_during_a_rebuild_makes_a_damaged_store_look_empty() {
    let counts = sim::enumerate(
        |dir| {
            dir.replace("checkpoint.json", b"{\"checksum\":", 0o600)
                .unwrap();
            dir.acknowledge();
            rebuild(dir).unwrap();
            dir.acknowledge();
        },
        |crash| {
            let (store, damage) = open(&crash.dir);
            let known = knows_a(&store);
            let began = crash.acknowledged > 0;
            assert!(
                known || damage != Damage::None || !began,
                "{crash}: the claim is lost"
            );
            let rebuilt = rebuild(&crash.dir);
            if damage == Damage::None {
                // Settled before the crash, or not yet damaged.
                let error = rebuilt.unwrap_err();
                assert!(matches!(
                    error,
                    CommitError::Refused(Refused::NotDamaged { .. })
                ));
            } else {
                rebuilt.unwrap();
                let (store, damage) = open(&crash.dir);
                assert_eq!(damage, Damage::None, "{crash}");
                assert!(knows_a(&store), "{crash}");
            }
        },
    );
    println!("rebuild: {counts}");
}
