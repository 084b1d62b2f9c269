//! Batches built by hand, so that a test decides exactly which changes share a commit.

use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Duration;

use durable_file::{SimDir, Step, sim};
use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};

use super::super::job::Caller;
use super::*;
use crate::claims::Refused;
use crate::error::CommitError;
use crate::record::State;
use dra_claim::{ClaimRef, ClaimStatus};

/// Only for giving up.
const PATIENCE: Duration = Duration::from_secs(30);
const EIO: i32 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
enum Part {
    Plain,
    Unwritable,
    Explosive,
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Plain => serializer.serialize_str("Plain"),
            Self::Unwritable => Err(serde::ser::Error::custom("not writable")),
            Self::Explosive => panic!("a bug of the payload"),
        }
    }
}

impl Payload for Part {}

type PendingChange<R> = (Job<Part>, Caller<R, Refused>);

fn writer(dir: &SimDir) -> Writer<Part> {
    let boot = BootId::new("this-boot").unwrap();
    Writer::open(Arc::new(dir.clone()), boot).unwrap().0
}

fn start(uid: &'static str) -> PendingChange<()> {
    Job::new(move |claims: &mut Claims<Part>| begin(claims, uid))
}

fn prepare(uid: &'static str, part: Part) -> PendingChange<()> {
    Job::new(move |claims: &mut Claims<Part>| {
        begin(claims, uid)?;
        claims.complete(uid, &ClaimStatus::default(), vec![part])
    })
}

fn begin(claims: &mut Claims<Part>, uid: &str) -> Result<(), Refused> {
    let claim = ClaimRef {
        uid: uid.to_owned(),
        name: uid.to_owned(),
        namespace: "default".to_owned(),
    };
    claims.start(&claim, &ClaimStatus::default(), Timestamp::UNIX_EPOCH)
}

fn reader() -> PendingChange<Vec<String>> {
    Job::new(|claims: &mut Claims<Part>| Ok(uids(claims)))
}

fn uids(view: &View<Part>) -> Vec<String> {
    view.records_unchecked()
        .map(|(uid, _)| uid.to_owned())
        .collect()
}

/// Commits all of them as one batch.
fn commit<const N: usize>(writer: &mut Writer<Part>, batch: [Job<Part>; N]) {
    let mut batch = batch.into_iter();
    let first = batch.next().unwrap();
    let (queue, jobs) = std::sync::mpsc::sync_channel(N);
    for job in batch {
        queue.try_send(job).ok().unwrap();
    }
    writer.commit(first, &jobs);
}

fn answer<R>(caller: &Caller<R, Refused>) -> Result<R, CommitError<Refused>> {
    caller
        .wait(Duration::ZERO)
        .expect("the batch is done")
        .expect("no panic")
}

fn writes(dir: &SimDir) -> usize {
    let steps = dir.steps();
    let renames = steps.iter().filter(|step| matches!(step, Step::Rename(..)));
    renames.count()
}

#[test]
fn changes_of_a_batch_share_one_write_and_see_earlier_ones() {
    let dir = SimDir::new();
    let mut writer = writer(&dir);
    let ((a, caller_a), (seen, caller_seen)) = (start("a"), reader());
    let (b, caller_b) = prepare("b", Part::Plain);
    commit(&mut writer, [a, seen, b]);
    assert_eq!(writes(&dir), 1);
    answer(&caller_a).unwrap();
    answer(&caller_b).unwrap();
    assert_eq!(answer(&caller_seen).unwrap(), ["a"], "not yet b");
    assert_eq!(uids(&writer.published.get()), ["a", "b"]);
}

#[test]
fn a_failed_change_is_rolled_back_without_affecting_the_others() {
    let dir = SimDir::new();
    let mut writer = writer(&dir);
    let (first, caller_first) = start("first");
    let (refused, caller_refused) = Job::new(|claims: &mut Claims<Part>| {
        begin(claims, "refused")?;
        claims.remove("first")
    });
    let (panicking, caller_panicking) =
        Job::new(|claims: &mut Claims<Part>| -> Result<(), Refused> {
            begin(claims, "panicking")?;
            panic!("a bug of the caller")
        });
    let (unwritable, caller_unwritable) = prepare("unwritable", Part::Unwritable);
    let (explosive, caller_explosive) = prepare("explosive", Part::Explosive);
    let (last, caller_last) = start("last");
    commit(
        &mut writer,
        [first, refused, panicking, unwritable, explosive, last],
    );

    answer(&caller_first).unwrap();
    answer(&caller_last).unwrap();
    let in_progress = answer(&caller_refused).unwrap_err();
    assert!(matches!(
        in_progress,
        CommitError::Refused(Refused::InProgress { .. })
    ));
    let encode = answer(&caller_unwritable).unwrap_err();
    assert!(matches!(encode, CommitError::Store(StoreError::Encode(_))));
    for caller in [caller_panicking, caller_explosive] {
        assert!(caller.wait(Duration::ZERO).unwrap().is_err(), "it panics");
    }
    assert_eq!(uids(&self::writer(&dir).published.get()), ["first", "last"]);
    assert_eq!(writes(&dir), 1);
}

#[test]
fn marking_a_store_rebuilt_in_a_change_that_fails_does_nothing() {
    let dir = SimDir::new();
    dir.replace("checkpoint.json", b"{", 0o600).unwrap();
    let mut writer = writer(&dir);
    let (rebuild, caller) = Job::new(|claims: &mut Claims<Part>| {
        claims.mark_rebuilt();
        claims.remove("nobody")?;
        claims.abort("nobody", Timestamp::UNIX_EPOCH)
    });
    let (seen, caller_seen) = reader();
    commit(&mut writer, [rebuild, seen]);
    assert!(answer(&caller).is_err());
    assert!(answer(&caller_seen).unwrap().is_empty());
    assert!(writer.published.get().check_recovered().is_err());
    assert!(
        self::writer(&dir)
            .published
            .get()
            .check_recovered()
            .is_err()
    );
}

#[test]
fn a_failed_write_fails_every_change_that_shared_it() {
    let steps_of_a_write = {
        let dir = SimDir::new();
        let mut writer = writer(&dir);
        let before = dir.steps().len();
        commit(&mut writer, [start("a").0]);
        dir.steps().len() - before
    };
    for step in 0..steps_of_a_write {
        let dir = SimDir::new();
        let mut writer = writer(&dir);
        dir.fail_step(step, EIO);
        let ((a, caller_a), (seen, caller_seen)) = (start("a"), reader());
        let (refused, caller_refused) = Job::new(|claims: &mut Claims<Part>| claims.remove("a"));
        commit(&mut writer, [a, seen, refused]);
        let errors = [
            answer(&caller_a).unwrap_err(),
            answer(&caller_seen).map(drop).unwrap_err(),
            answer(&caller_refused).unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, CommitError::Store(_)), "step {step}");
        }
        assert!(uids(&writer.published.get()).is_empty(), "step {step}");

        let (again, caller) = start("a");
        commit(&mut writer, [again]);
        answer(&caller).unwrap();
        let after = self::writer(&dir.after_power_loss());
        assert_eq!(uids(&after.published.get()), ["a"], "step {step}");
    }
}

#[test]
fn a_crash_during_a_batch_leaves_all_of_it_or_nothing() {
    let counts = sim::enumerate(
        |dir| {
            let mut writer = writer(dir);
            let (first, _) = start("before");
            commit(&mut writer, [first]);
            dir.acknowledge();
            commit(&mut writer, ["a", "b", "c"].map(|uid| start(uid).0));
            dir.acknowledge();
        },
        |crash| {
            let found = uids(&writer(&crash.dir).published.get());
            let states: [&[&str]; 3] = [&[], &["before"], &["a", "b", "before", "c"]];
            let allowed = states.iter().skip(crash.acknowledged).take(2);
            assert!(
                allowed.into_iter().any(|state| found == *state),
                "{crash}: {found:?}"
            );
        },
    );
    println!("batches: {counts}");
}

#[test]
fn a_withdrawn_change_is_not_run_but_the_rest_of_its_batch_is() {
    let dir = SimDir::new();
    let mut writer = writer(&dir);
    let (withdrawn, caller) = start("withdrawn");
    let (stays, caller_stays) = start("stays");
    assert!(caller.withdraw());
    commit(&mut writer, [withdrawn, stays]);
    answer(&caller_stays).unwrap();
    let nothing = caller.wait(Duration::ZERO).err();
    assert_eq!(nothing, Some(RecvTimeoutError::Disconnected));
    assert_eq!(uids(&writer.published.get()), ["stays"]);
}

#[test]
fn a_change_that_was_run_cannot_be_withdrawn() {
    let dir = SimDir::new();
    let (job, caller) = start("a");
    commit(&mut writer(&dir), [job]);
    assert!(!caller.withdraw());
}

#[test]
fn a_change_that_arrives_while_another_process_has_the_lock_shares_the_commit() {
    let dir = SimDir::new();
    let mut writer = writer(&dir);
    let theirs = dir.lock(disk::LOCK_FILE, Duration::ZERO).unwrap();
    let (queue, jobs) = std::sync::mpsc::sync_channel(1);
    let ((early, caller_early), (late, caller_late)) = (start("early"), start("late"));
    let commit = thread::spawn(move || writer.commit(early, &jobs));
    queue.send(late).ok().unwrap();
    drop(theirs);
    caller_early.wait(PATIENCE).unwrap().unwrap().unwrap();
    commit.join().unwrap();
    answer(&caller_late).unwrap();
    assert_eq!(writes(&dir), 1);
}

#[test]
fn a_rebuild_that_fails_at_any_step_loses_no_claim() {
    let restored = || {
        Job::new(|claims: &mut Claims<Part>| {
            let claim = ClaimRef {
                uid: "lost".to_owned(),
                name: String::new(),
                namespace: String::new(),
            };
            // The second attempt may find the store rebuilt.
            let _ = claims.restore(&claim, ClaimStatus::default(), vec![Part::Plain]);
            claims.mark_rebuilt();
            Ok::<_, Refused>(())
        })
    };
    for step in 0.. {
        let dir = SimDir::new();
        dir.replace("checkpoint.json", b"{", 0o600).unwrap();
        let mut writer = writer(&dir);
        dir.fail_step(step, EIO);
        let (job, caller) = restored();
        commit(&mut writer, [job]);
        if answer(&caller).is_ok() {
            assert!(step > 5, "a write and a rename are more steps than {step}");
            return;
        }
        // Another caller's commit makes the current content durable.
        let (other, _caller) = Job::new(|claims: &mut Claims<Part>| {
            let now = Timestamp::UNIX_EPOCH;
            Ok::<_, Refused>(claims.expire(now))
        });
        commit(&mut writer, [other]);
        for after in [dir.after_kill(), dir.after_power_loss()] {
            let view = self::writer(&after).published.get();
            let held = view.get("lost").map(|record| &record.state);
            assert!(
                held == Some(&State::Completed(vec![Part::Plain]))
                    || view.check_recovered().is_err(),
                "step {step}: neither restored nor reported as damaged"
            );
        }
        let (again, caller) = restored();
        commit(&mut writer, [again]);
        answer(&caller).unwrap();
        let view = self::writer(&dir.after_power_loss()).published.get();
        assert_eq!(
            (view.records_unchecked().count(), view.check_recovered()),
            (1, Ok(()))
        );
    }
}
