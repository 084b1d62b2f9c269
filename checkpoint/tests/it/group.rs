//! Many callers of one store: group commit, deadlines, and dropped or panicking writers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use dra_checkpoint::{Claims, CommitError, Payload, Refused, Store, StoreError};
use durable_file::{Dir, SimDir, Step};
use serde::{Deserialize, Deserializer, Serialize};

use crate::common::{Group, at, boot, claim, group, open, status};

/// Only for giving up.
const PATIENCE: Duration = Duration::from_secs(60);

fn start(store: &Store<Group>, uid: &str) -> Result<(), CommitError<Refused>> {
    let uid = uid.to_owned();
    store.commit(move |claims| claims.start(&claim(&uid), &status("p"), at(0)))
}

fn known(store: &Store<Group>) -> Vec<String> {
    let view = store.view();
    view.records_unchecked()
        .map(|(uid, _)| uid.to_owned())
        .collect()
}

fn writes(dir: &SimDir) -> usize {
    let steps = dir.steps();
    let renames = steps.iter().filter(|step| matches!(step, Step::Rename(..)));
    renames.count()
}

#[test]
fn every_acknowledged_change_of_many_threads_is_there_after_fewer_writes() {
    const THREADS: usize = 16;
    const CHANGES: usize = 8;
    let started = Instant::now();
    loop {
        let dir = SimDir::new();
        let (store, _) = open(&dir);
        let together = Barrier::new(THREADS);
        thread::scope(|scope| {
            for n in 0..THREADS {
                let (store, together) = (&store, &together);
                scope.spawn(move || {
                    together.wait();
                    for m in 0..CHANGES {
                        let uid = format!("{n}-{m}");
                        start(store, &uid).unwrap();
                        assert!(store.view().get(&uid).is_some(), "acknowledged is visible");
                    }
                });
            }
        });
        let (after, _) = open(&dir.after_power_loss());
        assert_eq!(known(&after).len(), THREADS * CHANGES);
        if writes(&dir) < THREADS * CHANGES {
            return;
        }
        // The scheduler may have run one thread at a time.
        assert!(started.elapsed() < PATIENCE, "they never share a write");
    }
}

#[test]
fn a_holder_of_the_lock_delays_a_commit_and_then_fails_it() {
    let dir = SimDir::new();
    let (store, _) = open(&dir);
    let go = dir.lock("pu.lock", Duration::ZERO).unwrap();
    let began = Instant::now();
    let Err(CommitError::Store(error)) = start(&store, "a") else {
        panic!("the lock is taken")
    };
    assert_eq!(error.code(), "lock-timeout");
    assert!(began.elapsed() >= Duration::from_secs(10), "as in Go");
    assert_eq!(writes(&dir), 0);

    thread::scope(|scope| {
        let delayed = scope.spawn(|| start(&store, "b"));
        drop(go);
        delayed.join().unwrap().unwrap();
    });
    assert_eq!(known(&open(&dir).0), ["b"]);
}

#[test]
fn a_change_that_is_not_started_in_time_is_never_run() {
    let dir = SimDir::new();
    let (store, _) = open(&dir);
    let go = dir.lock("pu.lock", Duration::ZERO).unwrap();
    let late = store.commit_within(Duration::ZERO, |claims| {
        claims.start(&claim("late"), &status("p"), at(0))
    });
    let Err(CommitError::Store(error @ StoreError::NotBegun { .. })) = late else {
        panic!("{late:?}")
    };
    assert_eq!(error.code(), "checkpoint-busy");
    drop(go);
    start(&store, "next").unwrap();
    assert_eq!(known(&store), ["next"]);
}

#[test]
fn a_change_that_times_out_while_running_comes_before_any_later_one() {
    let (store, _) = open(&SimDir::new());
    let (let_go, gate) = mpsc::channel();
    let slow = store.commit_within(Duration::from_millis(200), move |claims: &mut Claims<_>| {
        let _ = gate.recv_timeout(PATIENCE);
        claims.start(&claim("slow"), &status("p"), at(0))
    });
    match slow {
        Err(CommitError::Store(StoreError::Unanswered { .. })) => {}
        // On a busy machine the writer thread may not even have started it.
        Err(CommitError::Store(StoreError::NotBegun { .. })) => return,
        other => panic!("{other:?}"),
    }
    assert!(known(&store).is_empty());
    let_go.send(()).unwrap();
    let seen = store.commit(|claims| Ok::<_, Refused>(claims.get("slow").is_some()));
    assert!(seen.unwrap());
}

#[test]
fn the_queue_is_bounded_and_frees_itself() {
    let dir = SimDir::new();
    let (store, _) = open(&dir);
    let go = dir.lock("pu.lock", Duration::ZERO).unwrap();
    let start_late = || {
        store.commit_within(Duration::ZERO, |claims| {
            claims.start(&claim("impatient"), &status("p"), at(0))
        })
    };
    // The queue, and the changes that the writer took before it waited for the lock.
    let full = (0..=2 * 256 + 1).find(|_| {
        let Err(CommitError::Store(error)) = start_late() else {
            panic!("the lock is taken")
        };
        matches!(error, StoreError::QueueFull { .. })
    });
    assert!(full.is_some_and(|calls| calls >= 256), "{full:?}");
    drop(go);
    let started = Instant::now();
    while let Err(error) = start(&store, "patient") {
        assert!(
            matches!(error, CommitError::Store(StoreError::QueueFull { .. })),
            "{error}"
        );
        assert!(started.elapsed() < PATIENCE);
        thread::yield_now();
    }
    assert_eq!(known(&store), ["patient"]);
}

#[test]
fn dropping_the_store_ends_its_thread_after_the_commit_in_flight() {
    let dir = SimDir::new();
    let (store, _) = open(&dir);
    let (let_go, gate) = mpsc::channel();
    let owned_by_the_change = Arc::new(());
    let alive = Arc::downgrade(&owned_by_the_change);
    let slow = store.commit_within(Duration::from_millis(200), move |claims: &mut Claims<_>| {
        let _ = gate.recv_timeout(PATIENCE);
        drop(owned_by_the_change);
        claims.start(&claim("slow"), &status("p"), at(0))
    });
    let begun = matches!(slow, Err(CommitError::Store(StoreError::Unanswered { .. })));
    drop(store);
    let _ = let_go.send(());
    let started = Instant::now();
    while alive.strong_count() > 0 {
        assert!(started.elapsed() < PATIENCE, "the thread is still there");
        thread::yield_now();
    }
    // Like the next process, wait for the lock.
    drop(dir.lock("pu.lock", PATIENCE).unwrap());
    assert_eq!(open(&dir).0.view().get("slow").is_some(), begun);
}

/// A payload that panics on read while [`ARMED`].
#[derive(Debug, Serialize)]
struct Mine;

static ARMED: AtomicBool = AtomicBool::new(false);

impl<'de> Deserialize<'de> for Mine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        assert!(!ARMED.load(Ordering::SeqCst), "a bug of the payload");
        <()>::deserialize(deserializer).map(|()| Self)
    }
}

impl Payload for Mine {}

#[test]
fn a_panic_of_the_writer_fails_its_commit_and_not_the_next() {
    let dir: Arc<dyn Dir> = Arc::new(SimDir::new());
    let (ours, _) = Store::<Mine>::open(Arc::clone(&dir), boot()).unwrap();
    let (theirs, _) = Store::<Mine>::open(dir, boot()).unwrap();
    theirs
        .commit(|claims| {
            claims.start(&claim("theirs"), &status("p"), at(0))?;
            claims.complete("theirs", &status("p"), vec![Mine])
        })
        .unwrap();
    let start = || ours.commit(|claims| claims.start(&claim("ours"), &status("p"), at(0)));
    ARMED.store(true, Ordering::SeqCst);
    let failed = start();
    ARMED.store(false, Ordering::SeqCst);
    assert!(matches!(
        failed,
        Err(CommitError::Store(StoreError::WriterPanicked))
    ));
    start().unwrap();
    assert_eq!(ours.view().records_unchecked().count(), 2);
}

#[test]
fn the_effects_of_a_change_may_outlive_its_record() {
    let dir = SimDir::new();
    let (store, _) = open(&dir);
    store
        .commit(|claims| {
            claims.start(&claim("a"), &status("p"), at(0))?;
            claims.complete("a", &status("p"), vec![group()])
        })
        .unwrap();
    let files = Arc::new(Mutex::new(vec!["a.yaml"]));
    let undo = || {
        let files = Arc::clone(&files);
        store.commit(move |claims| {
            files.lock().unwrap().retain(|name| *name != "a.yaml");
            claims.remove("a")
        })
    };
    dir.fail_step(0, 28 /* ENOSPC */);
    undo().unwrap_err();
    assert!(files.lock().unwrap().is_empty(), "the file is gone");
    assert!(store.view().get("a").is_some(), "the record is not");
    undo().unwrap();
    assert!(store.view().get("a").is_none(), "the retry removes it");
}
