//! Each step may be the last. A driver that loses a Completed record gives one
//! device to two pods; one that loses a Started record leaks its effects. So:
//! after a crash at any step the store holds the state before or after the
//! commit in progress, and everything that was acknowledged.

use std::sync::Arc;

use dra_checkpoint::{ClaimRecord, CommitError, Damage, Refused, State, Store};
use durable_file::{Dir, SimDir, Step};

use crate::common::{Group, at, boot, claim, group, open, status};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

type Commit = fn(&Store<Group>) -> Result<(), CommitError<Refused>>;

const SCRIPT: &[Commit] = &[
    |store| store.commit(|claims| claims.start(&claim("a"), &status("p"), at(0))),
    |store| store.commit(|claims| claims.complete("a", &status("p"), vec![group()])),
    |store| store.commit(|claims| claims.start(&claim("b"), &status("q"), at(1))),
    |store| store.commit(|claims| claims.abort("b", at(2))),
    |store| store.commit(|claims| claims.remove("a").map(drop)),
    |store| {
        store.commit(|claims| {
            claims.expire(at(200));
            Ok(())
        })
    },
];

/// UID and state of every record: what a test compares.
type Summary = Vec<(String, State<Group>)>;

fn summary(store: &Store<Group>) -> Summary {
    let view = store.view();
    view.known()
        .map(|(uid, record)| (uid.to_owned(), record.state.clone()))
        .collect()
}

/// The state before the script and after each of its commits, and the number
/// of steps that it takes.
fn expected() -> (Vec<Summary>, usize) {
    let dir = SimDir::new();
    let (store, _) = open(&dir);
    let mut states = vec![summary(&store)];
    for commit in SCRIPT {
        commit(&store).unwrap();
        states.push(summary(&store));
    }
    (states, dir.steps().len())
}

#[test]
fn after_a_crash_at_any_step_the_state_is_old_or_new() {
    let (states, steps) = expected();
    assert!(steps >= SCRIPT.len() * 5, "every commit replaced the file");
    for step in 0..steps {
        let dir = SimDir::new();
        dir.crash_after(step);
        let acknowledged = Store::open(Arc::new(dir.clone()), boot()).map_or(0, |(store, _)| {
            SCRIPT
                .iter()
                .take_while(|commit| commit(&store).is_ok())
                .count()
        });
        assert!(dir.has_crashed());
        for survivor in [dir.after_kill(), dir.after_power_loss()] {
            let (store, damage) = open(&survivor);
            assert_eq!(damage, Damage::None, "step {step}");
            let allowed = &states[acknowledged..=(acknowledged + 1).min(SCRIPT.len())];
            assert!(
                allowed.contains(&summary(&store)),
                "step {step}: {:?}",
                summary(&store)
            );
        }
    }
}

#[test]
fn after_a_failure_at_any_step_repeating_the_commit_makes_it_durable() {
    let (states, steps) = expected();
    for errno in [EIO, ENOSPC] {
        for step in 0..steps {
            let dir = SimDir::new();
            dir.fail_step(step, errno);
            let store = match Store::open(Arc::new(dir.clone()), boot()) {
                Ok((store, _)) => store,
                Err(_) => open(&dir).0,
            };
            for (at, commit) in SCRIPT.iter().enumerate() {
                if commit(&store).is_err() {
                    match commit(&store) {
                        // The first attempt failed only at its last step.
                        Ok(()) | Err(CommitError::Refused(Refused::Completed { .. })) => {}
                        Err(err) => panic!("step {step}, commit {at}: {err}"),
                    }
                }
                let (after, damage) = open(&dir.after_power_loss());
                assert_eq!(damage, Damage::None);
                assert_eq!(summary(&after), states[at + 1], "step {step}, commit {at}");
            }
        }
    }
}

#[test]
fn what_a_killed_process_left_visible_is_durable_before_it_is_relied_on() {
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

/// From a damaged file to a settled store.
fn rebuild(dir: &SimDir) -> Result<(), CommitError<Refused>> {
    let (store, _) = Store::<Group>::open(Arc::new(dir.clone()), boot())?;
    store.commit(|claims| claims.restore(&claim("a"), status("p"), vec![group()]))?;
    store.commit(|claims| {
        claims.settle_damage();
        Ok(())
    })
}

#[test]
fn no_crash_during_a_rebuild_makes_a_damaged_store_look_empty() {
    let damaged = || {
        let dir = SimDir::new();
        dir.replace("checkpoint.json", b"{\"checksum\":", 0o600)
            .unwrap();
        dir
    };
    let dir = damaged();
    let before = dir.steps().len();
    rebuild(&dir).unwrap();
    let steps = dir.steps().len() - before;
    for step in 0..steps {
        let dir = damaged();
        dir.crash_after(step);
        let _ = rebuild(&dir);
        for survivor in [dir.after_kill(), dir.after_power_loss()] {
            let (store, damage) = open(&survivor);
            let known = store.view().get("a").is_some();
            assert!(
                known || damage != Damage::None,
                "step {step}: the claim is forgotten"
            );
            rebuild(&survivor).unwrap_or_else(|err| {
                // Settled before the crash: then there is nothing to restore.
                assert!(matches!(
                    err,
                    CommitError::Refused(Refused::NotDamaged { .. })
                ));
            });
            let (store, damage) = open(&survivor);
            assert_eq!(damage, Damage::None);
            assert!(store.view().get("a").is_some_and(ClaimRecord::is_completed));
        }
    }
}
