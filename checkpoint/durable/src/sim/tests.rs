//! Every crash of every short sequence of operations and of random long ones. Each file
//! must be as after the last acknowledged operation or the one in progress, and there
//! must be no other file.

mod flawed;
mod interleaved;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};

use super::crash::{Cause, Counts, Crash, enumerate};
use super::dir::SimDir;
use crate::dir::Dir;
use crate::error::Error;
use crate::name::is_temp_file;
use crate::operations;

const EIO: i32 = 5;
const LOCK: &str = "pu.lock";

#[derive(Debug, Clone, Copy)]
enum Op {
    /// Writes a number of bytes of one value.
    Replace(&'static str, u8, usize),
    /// Does the same, unless the file already has this content.
    Ensure(&'static str, u8, usize),
    Remove(&'static str),
    Rename(&'static str, &'static str),
    Lock,
    Sync,
    /// Makes the step after this number of steps fail.
    Fail(usize),
}

/// All files that a reader sees.
type Files = BTreeMap<String, Vec<u8>>;

/// The allowed states for each number of acknowledged operations.
type Allowed = Vec<BTreeSet<Files>>;

// === impl Op ===

impl Op {
    fn run(self, backend: &impl operations::Backend) -> Result<(), Error> {
        match self {
            Self::Replace(name, byte, len) => {
                operations::replace(backend, name, &vec![byte; len], 0o600).map(drop)
            }
            Self::Ensure(name, byte, len) => {
                operations::ensure(backend, name, &vec![byte; len], 0o600).map(drop)
            }
            Self::Remove(name) => operations::remove(backend, name),
            Self::Rename(from, to) => operations::rename(backend, from, to),
            Self::Lock => operations::lock(backend, LOCK, Duration::ZERO).map(drop),
            Self::Sync => operations::sync(backend),
            Self::Fail(_) => Ok(()),
        }
    }

    /// The intended result.
    fn apply(self, files: &Files) -> Files {
        let mut files = files.clone();
        match self {
            Self::Replace(name, byte, len) | Self::Ensure(name, byte, len) => {
                files.insert(name.to_owned(), vec![byte; len]);
            }
            Self::Remove(name) => drop(files.remove(name)),
            Self::Rename(from, to) => {
                if let Some(bytes) = files.remove(from) {
                    files.insert(to.to_owned(), bytes);
                }
            }
            Self::Lock => drop(files.entry(LOCK.to_owned()).or_default()),
            Self::Sync | Self::Fail(_) => {}
        }
        files
    }

    /// Whether its success makes all earlier changes durable.
    fn syncs(self) -> bool {
        !matches!(self, Self::Lock | Self::Fail(_))
    }
}

fn found(dir: &SimDir) -> Files {
    let content = |name: String| {
        let bytes = dir.read(&name).unwrap().unwrap();
        (name, bytes)
    };
    dir.list().unwrap().into_iter().map(content).collect()
}

fn raw_names(dir: &SimDir) -> Vec<String> {
    operations::Backend::list(dir).unwrap()
}

/// Runs `ops` through `backend`, which wraps `dir`, and returns the allowed states.
fn run(ops: &[Op], backend: &impl operations::Backend, dir: &SimDir) -> Allowed {
    let mut on_disk = BTreeSet::from([found(dir)]);
    let mut allowed = Allowed::new();
    for op in ops {
        if let Op::Fail(n) = op {
            dir.fail_step(*n, EIO);
            continue;
        }
        let before = found(dir);
        let with_op: Vec<Files> = on_disk.iter().map(|files| op.apply(files)).collect();
        on_disk.extend(with_op);
        allowed.push(on_disk.clone());
        let done = op.run(backend);
        dir.acknowledge();
        if done.is_ok() && op.syncs() {
            assert_eq!(found(dir), op.apply(&before), "{op:?}");
            on_disk = BTreeSet::from([found(dir)]);
        }
    }
    allowed.push(on_disk);
    allowed
}

/// The violation of one state, as a sentence.
fn violation(crash: &Crash, allowed: &Allowed) -> Option<String> {
    let files = found(&crash.dir);
    if !allowed[crash.acknowledged].contains(&files) {
        return Some(format!("{crash}: {files:?}"));
    }
    if raw_names(&crash.dir).iter().any(|name| is_temp_file(name)) {
        return Some(format!("{crash}: a temp file is left"));
    }
    crash.dir.sync().unwrap();
    let later = found(&crash.dir.after_power_loss());
    (later != files).then(|| format!("{crash}, sync, power loss: {files:?} became {later:?}"))
}

/// Enumerates the crashes of `ops`, run through the backend that `through` returns.
fn violations<B: operations::Backend>(
    ops: &[Op],
    through: impl Fn(&SimDir) -> B,
) -> (Counts, Vec<String>) {
    let allowed = OnceCell::new();
    let violations = RefCell::new(Vec::new());
    let counts = enumerate(
        |dir| allowed.set(run(ops, &through(dir), dir)).unwrap(),
        |crash| {
            let violation = violation(crash, allowed.get().unwrap());
            violations.borrow_mut().extend(violation);
        },
    );
    (counts, violations.into_inner())
}

/// All operations on two names, with several contents and lengths.
const SCRIPTED: [Op; 11] = [
    Op::Replace("a", 1, 5),
    Op::Replace("a", 2, 1),
    Op::Replace("b", 3, 9),
    Op::Ensure("a", 1, 5),
    Op::Ensure("b", 1, 5),
    Op::Remove("a"),
    Op::Remove("b"),
    Op::Rename("a", "b"),
    Op::Rename("b", "a"),
    Op::Lock,
    Op::Sync,
];
const FIRST: Op = Op::Replace("a", 9, 3);

fn assert_no_violation(ops: &[Op]) -> Counts {
    let (counts, violations) = violations(ops, SimDir::clone);
    assert!(violations.is_empty(), "{ops:?}: {violations:#?}");
    counts
}

/// Scope: every three of [`SCRIPTED`] in a directory with one file, a crash
/// before and after every step of them, and every state that it could leave.
// req: CKPT-6
#[test]
fn a_crash_of_any_three_operations_leaves_the_state_before_or_after() {
    let mut total = Counts::default();
    for first in SCRIPTED {
        for second in SCRIPTED {
            for third in SCRIPTED {
                total += assert_no_violation(&[FIRST, first, second, third]);
            }
        }
    }
    assert_eq!(total.operations, 4 * SCRIPTED.len().pow(3));
    println!("scripted: {total}, 0 violations");
}

/// Scope: every two of [`SCRIPTED`] in a directory with one file, an I/O error
/// at every step of them, and then every crash as above.
#[test]
fn a_crash_after_an_error_at_any_step_leaves_the_state_before_or_after() {
    // Two replaces, and one temp file that is removed again.
    const STEPS: usize = 5 + 5 + 1;
    let mut total = Counts::default();
    for first in SCRIPTED {
        for second in SCRIPTED {
            for step in 0..STEPS {
                total += assert_no_violation(&[FIRST, Op::Fail(step), first, second]);
            }
        }
    }
    assert_eq!(total.operations, 3 * STEPS * SCRIPTED.len().pow(2));
    println!("with one error: {total}, 0 violations");
}

fn any_op() -> impl Strategy<Value = Op> {
    let name = || select(vec!["a", "b", "c"]);
    let len = select(vec![0, 1, 2, 3, 100, 5000]);
    prop_oneof![
        4 => (name(), any::<u8>(), len.clone()).prop_map(|(name, byte, len)| Op::Replace(name, byte, len)),
        2 => (name(), any::<u8>(), len).prop_map(|(name, byte, len)| Op::Ensure(name, byte, len)),
        2 => name().prop_map(Op::Remove),
        2 => (name(), name())
            .prop_filter("two names", |(from, to)| from != to)
            .prop_map(|(from, to)| Op::Rename(from, to)),
        1 => Just(Op::Lock),
        2 => (0_usize..8).prop_map(Op::Fail),
    ]
}

#[test]
fn a_crash_of_a_random_sequence_with_failing_steps_leaves_an_allowed_state() {
    let total = Cell::new(Counts::default());
    let mut runner = TestRunner::new(Config {
        cases: 100,
        failure_persistence: None,
        ..Config::default()
    });
    let sequences =
        prop::collection::vec(any_op(), 1..16).prop_map(|ops| [vec![FIRST], ops].concat());
    runner
        .run(&sequences, |ops| {
            let (counts, violations) = violations(&ops, SimDir::clone);
            prop_assert!(violations.is_empty(), "{violations:#?}");
            let mut sum = total.get();
            sum += counts;
            total.set(sum);
            Ok(())
        })
        .unwrap();
    println!("random: {}, 0 violations", total.get());
}

/// Scope: one of [`SCRIPTED`] and every crash of it; then another one and every crash of
/// that.
#[test]
fn a_crash_of_the_first_operation_after_a_crash_leaves_the_state_before_or_after() {
    let mut total = Counts::default();
    for first in SCRIPTED {
        let dir = SimDir::new();
        run(&[FIRST, first], &dir, &dir);
        for crash in dir.crashes() {
            let files = found(&crash.dir);
            for second in SCRIPTED {
                // Visible changes of a killed process may not be durable.
                let next = crash.dir.after_kill();
                next.sync().unwrap();
                let allowed = run(&[second], &next, &next);
                let synced = |later: &Crash| later.after > 0;
                for later in next.crashes().filter(synced) {
                    total.states += 1;
                    let violation = violation(&later, &allowed);
                    assert_eq!(violation, None, "{crash}: {files:?}, then {second:?}");
                }
            }
        }
    }
    assert!(total.states > 0);
}

#[test]
fn the_temp_file_of_every_interrupted_replace_is_swept() {
    for step in 1..=3 {
        let dir = SimDir::new();
        dir.crash_after(step);
        dir.replace("a", b"new", 0o600).unwrap_err();
        let left = dir.disk().now.live.clone();
        assert!(left.keys().any(|name| is_temp_file(name)), "step {step}");
        for crash in dir.crashes() {
            assert_eq!(raw_names(&crash.dir), [""; 0], "{crash}");
        }
    }
}

#[test]
fn an_unsynced_file_may_be_lost_kept_torn_or_filled_with_zeros() {
    let dir = SimDir::new();
    let mut file = operations::Backend::create(&dir, "a", 0o600).unwrap();
    operations::Backend::write(&dir, &mut file, b"12345").unwrap();
    dir.sync().unwrap();
    let last = dir.steps().len();
    let contents: BTreeSet<Vec<u8>> = dir
        .crashes()
        .filter(|crash| crash.after == last && crash.cause == Cause::PowerLoss)
        .map(|crash| found(&crash.dir)["a"].clone())
        .collect();
    let expected: [&[u8]; 12] = [
        b"",
        b"1",
        b"12",
        b"1234",
        b"12345", // lost, torn, kept
        b"\0\0\0\0\0",
        b"1\0\0\0\0",
        b"12\0\0\0",
        b"1234\0", // full size
        b"\x002345",
        b"\0\x00345",
        b"\0\0\0\x005", // out of order
    ];
    assert_eq!(
        contents,
        expected.iter().map(|bytes| bytes.to_vec()).collect()
    );
}

#[test]
fn unsynced_changes_of_names_are_lost_independently() {
    let dir = SimDir::new();
    for name in ["a", "b"] {
        dir.replace(name, b"x", 0o600).unwrap();
    }
    let synced = dir.steps().len();
    operations::Backend::remove(&dir, "a").unwrap();
    operations::Backend::rename(&dir, "b", "c").unwrap();
    let names: BTreeSet<Vec<String>> = dir
        .crashes()
        .filter(|crash| crash.after == synced + 2 && crash.cause == Cause::PowerLoss)
        .map(|crash| crash.dir.list().unwrap())
        .collect();
    let expected = [vec!["a", "b"], vec!["b"], vec!["a", "c"], vec!["c"]];
    let expected = expected.map(|names| names.into_iter().map(str::to_owned).collect());
    assert_eq!(names, BTreeSet::from(expected));
}

#[test]
fn crashes_with_has_the_other_directory_at_the_same_moment() {
    let (ours, theirs) = (SimDir::new(), SimDir::new());
    ours.replace("first", b"1", 0o600).unwrap();
    theirs.replace("second", b"2", 0o600).unwrap();
    ours.replace("third", b"3", 0o600).unwrap();
    let mut pairs = 0;
    for crash in theirs.crashes() {
        for other in ours.crashes_with(&crash) {
            let begun = crash.after > 0;
            let names = other.dir.list().unwrap();
            assert_eq!((other.cause, names.len()), (crash.cause, begun.into()));
            pairs += 1;
        }
    }
    assert!(pairs >= theirs.crashes().count());
}

#[test]
#[should_panic(expected = "the simulation can enumerate at most 12")]
fn too_many_unsynced_changes_panic() {
    let dir = SimDir::new();
    for n in 0..13 {
        drop(dir.lock(&n.to_string(), Duration::ZERO).unwrap());
    }
    dir.crashes().for_each(drop);
}
