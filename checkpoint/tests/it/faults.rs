//! Disk failures at any step: the commit fails, the file is unchanged, and the next
//! commit succeeds when the disk works again.

use std::sync::Arc;

use dra_checkpoint::{ClaimRecord, CommitError, Refused, Store};
use durable_file::sim::{self, Counts};
use durable_file::{Dir, SimDir, Step};

use crate::common::{Group, TestPayload, TwoFiles, boot, open, open_as};
use crate::script::{check, expected, script, summary};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;

// req: CKPT-7
#[test]
fn after_a_failure_at_any_step_the_commit_can_be_repeated_and_crash_again() {
    let counts = check_each_failure::<Group>(&[EIO, ENOSPC, EROFS]);
    println!("with a failing step: {counts}");
}

// req: CKPT-7, CKPT-20
#[test]
fn after_a_failure_at_any_step_the_commit_of_two_files_can_be_repeated_and_crash_again() {
    let counts = check_each_failure::<TwoFiles>(&[EIO]);
    println!("with a failing step: {counts}");
}

fn check_each_failure<P: TestPayload>(errnos: &[i32]) -> Counts {
    let script = script::<P>();
    let states = expected(&script);
    let mut counts = Counts::default();
    for &errno in errnos {
        for step in 0.. {
            let dir = SimDir::new();
            dir.fail_step(step, errno);
            let failures = with_one_failure::<P>(&dir);
            counts += sim::enumerate(
                |dir| {
                    dir.fail_step(step, errno);
                    with_one_failure::<P>(dir);
                },
                |crash| check(crash, &states).unwrap(),
            );
            if failures == 0 {
                assert!(step >= script.len() * 5, "only {step} steps");
                break;
            }
        }
    }
    counts
}

/// Runs the script and retries each failed commit once. Returns the number of failures.
fn with_one_failure<P: TestPayload>(dir: &SimDir) -> usize {
    let mut failures = 0;
    let first = Store::open(Arc::new(dir.clone()), boot()).map(|(store, _)| store);
    let store = first.unwrap_or_else(|error| {
        failures += 1;
        assert!(matches!(
            error.code(),
            "io-error" | "disk-full" | "read-only-filesystem"
        ));
        open_as(dir).0
    });
    for commit in script::<P>() {
        let before = summary(&store);
        if let Err(error) = commit(&store) {
            failures += 1;
            assert!(matches!(error, CommitError::Store(_)), "{error}");
            assert_eq!(
                summary(&store),
                before,
                "a change that may be lost is not shown"
            );
            match commit(&store) {
                // The first attempt failed only at its last step.
                Ok(()) | Err(CommitError::Refused(Refused::Completed { .. })) => {}
                Err(error) => panic!("{error}"),
            }
        }
        dir.acknowledge();
    }
    failures
}

#[test]
fn while_the_disk_is_full_every_commit_fails_and_after_it_the_next_works() {
    for errno in [EIO, ENOSPC, EROFS] {
        let dir = SimDir::new();
        let (store, _) = open(&dir);
        script()[0](&store).unwrap();
        let file = dir.read("checkpoint.json").unwrap();
        for _ in 0..3 {
            dir.fail_step(0, errno);
            script()[1](&store).unwrap_err();
            assert_eq!(dir.read("checkpoint.json").unwrap(), file);
        }
        script()[1](&store).unwrap();
        let (after, _) = open(&dir.after_power_loss());
        assert!(after.view().get("a").is_some_and(ClaimRecord::is_completed));
    }
}

// req: CKPT-7
#[test]
fn a_failed_fsync_is_not_repeated_on_the_same_file() {
    let dir = SimDir::new();
    let (store, _) = open(&dir);
    let until_the_fsync = 2;
    dir.fail_step(until_the_fsync, EIO);
    script()[0](&store).unwrap_err();
    let failed = dir.steps();
    assert!(!failed.contains(&Step::SyncFile));
    script()[0](&store).unwrap();
    let steps = dir.steps();
    let again = &steps[failed.len()..];
    let created = again
        .iter()
        .position(|step| matches!(step, Step::Create(_)));
    let synced = again.iter().position(|step| *step == Step::SyncFile);
    assert!(created.unwrap() < synced.unwrap(), "{again:?}");
}

// req: CKPT-7
#[test]
fn after_a_failed_last_fsync_the_next_commit_writes_again() {
    let dir = SimDir::new();
    let (store, _) = open(&dir);
    let writes = || {
        let steps = dir.steps().into_iter();
        steps
            .filter(|step| matches!(step, Step::Rename(..)))
            .count()
    };
    let until_the_directory_sync = 4;
    dir.fail_step(until_the_directory_sync, EIO);
    script()[0](&store).unwrap_err();
    assert_eq!(writes(), 1);
    let read = || store.commit(|claims| Ok::<_, Refused>(claims.get("a").is_some()));
    assert!(read().unwrap(), "it is visible");
    assert_eq!(
        writes(),
        2,
        "it is durable only now: an fsync after a failed one proves nothing"
    );
    read().unwrap();
    assert_eq!(writes(), 2);
}
