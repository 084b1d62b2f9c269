//! The files after any crash, in every state of the simulated directory: unsynced content lost,
//! kept or torn, names created or not.

use std::collections::{BTreeMap, BTreeSet};

use durable_file::sim::{Counts, Crash, enumerate};
use durable_file::{Dir, SimDir};
use imex_cdi::Class;

use crate::{EIO, FILE, GO, SPEC, UID, channel, read, specs, uid};

/// Uids of the claims.
const CLAIMS: [&str; 3] = [UID, "22222222-aaaa-4bbb-8ccc-000000000002", "abc"];

/// A file that no claim has.
const FOREIGN: &str = "k8s.compute-domain.nvidia.com-device_base.yaml";

/// One call, with indices into [`CLAIMS`].
#[derive(Debug, Clone)]
enum Call {
    /// With this major.
    Assert(usize, u32),
    Remove(usize),
    /// These claims live.
    Sweep(Vec<usize>),
}

/// The files by name: a model of what each call does, without a directory.
type Files = BTreeMap<String, String>;

/// Does a call. The tests of the test do it wrongly.
type Run = fn(&SimDir, &Call);

fn file(claim: usize) -> String {
    FILE.replace(UID, CLAIMS[claim])
}

fn text(claim: usize, major: u32) -> String {
    let version = if CLAIMS[claim].starts_with('a') {
        "0.3.0"
    } else {
        "0.5.0"
    };
    SPEC.replace(UID, CLAIMS[claim])
        .replace("235", &major.to_string())
        .replace("0.5.0", version)
}

fn after(before: &Files, call: &Call) -> Files {
    let mut files = before.clone();
    match call {
        Call::Assert(claim, major) => {
            files.insert(file(*claim), text(*claim, *major));
        }
        Call::Remove(claim) => {
            files.remove(&file(*claim));
        }
        Call::Sweep(live) => {
            let dead = (0..CLAIMS.len()).filter(|claim| !live.contains(claim));
            for claim in dead {
                files.remove(&file(claim));
            }
        }
    }
    files
}

fn run(dir: &SimDir, call: &Call) {
    let specs = specs(dir);
    match call {
        Call::Assert(claim, major) => {
            let spec = channel(0, *major);
            drop(specs.ensure(&uid(CLAIMS[*claim]), &spec).unwrap());
        }
        Call::Remove(claim) => specs.remove(&uid(CLAIMS[*claim])).unwrap(),
        Call::Sweep(live) => {
            let live = live.iter().map(|claim| uid(CLAIMS[*claim]));
            assert!(specs.sweep(&live.collect()).unwrap().failed.is_empty());
        }
    }
}

fn found(dir: &SimDir) -> Files {
    let names = dir.list().unwrap().into_iter();
    names
        .map(|name| (name.clone(), read(dir, &name).unwrap()))
        .collect()
}

/// Whether each file is as it was before or as it is after.
fn is_between(found: &Files, before: &Files, after: &Files) -> bool {
    let names: BTreeSet<&String> = [found, before, after]
        .iter()
        .flat_map(|f| f.keys())
        .collect();
    names.into_iter().all(|name| {
        let found = found.get(name);
        found == before.get(name) || found == after.get(name)
    })
}

/// Runs the calls in a directory with a foreign file, visits every state that a crash can leave,
/// and repeats the interrupted call there. Returns the visited states and their faults.
fn crashed_everywhere(calls: &[Call], run: Run) -> (Counts, Vec<String>) {
    let start = Files::from([(FOREIGN.to_owned(), "base".to_owned())]);
    let mut states = vec![start];
    for call in calls {
        states.push(after(&states[states.len() - 1], call));
    }
    let mut wrong = Vec::new();
    let scenario = |dir: &SimDir| {
        dir.replace(FOREIGN, b"base", 0o644).unwrap();
        dir.acknowledge();
        for call in calls {
            run(dir, call);
            dir.acknowledge();
        }
    };
    let counts = enumerate(scenario, |crash| {
        // The foreign file is written first; its crashes are not tested.
        let Some(done) = crash.acknowledged.checked_sub(1) else {
            return;
        };
        // Runs that acknowledge too early acknowledge more than the calls.
        let done = done.min(calls.len());
        let before = &states[done];
        let Some(call) = calls.get(done) else {
            if found(&crash.dir) != *before {
                wrong.push(format!("{crash}: {:?}", found(&crash.dir)));
            }
            return;
        };
        if let Err(why) = cut_off(crash, call, before, &states[done + 1], run) {
            wrong.push(format!("{crash}, in {call:?}: {why}"));
        }
    });
    (counts, wrong)
}

/// What must hold where `crash` cut off `call`.
fn cut_off(
    crash: &Crash,
    call: &Call,
    before: &Files,
    after: &Files,
    run: Run,
) -> Result<(), String> {
    let left = found(&crash.dir);
    if !is_between(&left, before, after) {
        return Err(format!("neither old nor new: {left:?}"));
    }
    // Crashes of the repetition are crashes of the same machine.
    run(&crash.dir, call);
    if let Some(again) = crash
        .dir
        .crashes()
        .find(|again| !is_between(&found(&again.dir), before, after))
    {
        return Err(format!("then {again}: {:?}", found(&again.dir)));
    }
    match found(&crash.dir.after_power_loss()) {
        last if last == *after => Ok(()),
        last => Err(format!("repeated, then a power loss: {last:?}")),
    }
}

fn nothing_is_wrong(title: &str, calls: &[Call]) -> Counts {
    let (counts, wrong) = crashed_everywhere(calls, run);
    assert!(wrong.is_empty(), "{title}: {calls:?}\n{}", wrong.join("\n"));
    counts
}

// === the calls ===

// req: CDI-11
#[test]
fn a_crash_anywhere_leaves_each_file_old_or_new_and_a_repeated_call_ends_it() {
    let calls = [
        Call::Assert(0, 235),
        Call::Assert(0, 511),
        Call::Assert(1, 511),
        // Right already.
        Call::Assert(1, 511),
        Call::Remove(0),
        // Absent already.
        Call::Remove(0),
        Call::Assert(0, 235),
        Call::Assert(2, 235),
        Call::Sweep(vec![1]),
    ];
    let counts = nothing_is_wrong("scripted", &calls);
    println!("scripted: {counts}");
    assert!(counts.states > 100, "{counts}");
}

#[test]
fn no_sequence_of_calls_has_a_crash_that_loses_or_invents_anything() {
    let mut total = Counts::default();
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let calls: Vec<Call> = (0..8)
            .map(|_| match random.u8(0..6) {
                0..3 => Call::Assert(random.usize(0..3), [235, 511][random.usize(0..2)]),
                3..5 => Call::Remove(random.usize(0..3)),
                _ => Call::Sweep((0..3).filter(|_| random.bool()).collect()),
            })
            .collect();
        total += nothing_is_wrong(&format!("seed {seed}"), &calls);
    }
    println!("random: {total}");
}

/// The other driver's temporary goes as a file does: wholly, or not yet.
#[test]
fn a_crash_while_a_temporary_is_swept_leaves_all_or_none_of_it() {
    const TEMPORARY: &str = "spec.1.tmp";
    let counts = enumerate(
        |dir| {
            dir.replace(TEMPORARY, GO, 0o600).unwrap();
            dir.acknowledge();
            let swept = specs(dir).sweep(&BTreeSet::new()).unwrap();
            assert_eq!(swept.removed, [TEMPORARY]);
            dir.acknowledge();
        },
        |crash| {
            let left = crash.dir.read(TEMPORARY).unwrap();
            match crash.acknowledged {
                1 => assert!(left.is_none_or(|left| left == GO), "{crash}"),
                2 => assert_eq!(left, None, "{crash}"),
                _ => {}
            }
        },
    );
    println!("a temporary: {counts}");
}

// === tests of the test ===

fn finds(run: Run, calls: &[Call]) -> Vec<String> {
    let (_, wrong) = crashed_everywhere(calls, run);
    assert!(!wrong.is_empty(), "the flaw is not found");
    wrong
}

#[test]
fn a_spec_that_is_removed_before_it_is_rewritten_is_found() {
    let wrong = finds(
        |dir, call| {
            if let Call::Assert(claim, _) = call {
                dir.remove(&file(*claim)).unwrap();
            }
            run(dir, call);
        },
        &[Call::Assert(0, 235), Call::Assert(0, 511)],
    );
    assert!(wrong.iter().any(|w| w.contains("neither old nor new")));
}

#[test]
fn a_spec_that_is_written_in_two_parts_is_found() {
    finds(
        |dir, call| {
            if let Call::Assert(claim, major) = call {
                let text = text(*claim, *major);
                let half = &text.as_bytes()[..text.len() / 2];
                drop(dir.replace(&file(*claim), half, 0o644).unwrap());
            }
            run(dir, call);
        },
        &[Call::Assert(0, 235)],
    );
}

#[test]
fn a_right_file_that_is_trusted_before_it_is_durable_is_found() {
    let wrong = finds(
        |dir, call| {
            let Call::Assert(claim, major) = call else {
                return run(dir, call);
            };
            let is_right = read(dir, &file(*claim)) == Some(text(*claim, *major));
            if !is_right {
                run(dir, call);
            }
        },
        &[Call::Assert(0, 235)],
    );
    assert!(
        wrong.iter().all(|w| w.contains("then a power loss")),
        "{wrong:?}"
    );
}

#[test]
fn a_call_that_is_acknowledged_before_it_is_done_is_found() {
    finds(
        |dir, call| {
            dir.acknowledge();
            run(dir, call);
        },
        &[Call::Assert(0, 235)],
    );
}

#[test]
fn a_sweep_that_takes_the_vendors_other_files_is_found() {
    finds(
        |dir, call| {
            run(dir, call);
            if matches!(call, Call::Sweep(_)) {
                dir.remove(FOREIGN).unwrap();
            }
        },
        &[Call::Assert(0, 235), Call::Sweep(vec![])],
    );
}

// === faults ===

// req: CDI-11
#[test]
fn after_any_failed_step_a_repeated_ensure_survives_a_power_loss() {
    let steps = {
        let dir = SimDir::new();
        specs(&dir).ensure(&uid(UID), &channel(0, 235)).unwrap();
        dir.steps().len()
    };
    for n in 0..steps {
        let dir = SimDir::new();
        dir.fail_step(n, EIO);
        let error = specs(&dir).ensure(&uid(UID), &channel(0, 235)).unwrap_err();
        assert_eq!(error.class(), Class::Retry, "step {n}");

        specs(&dir).ensure(&uid(UID), &channel(0, 235)).unwrap();
        let left = read(&dir.after_power_loss(), FILE);
        assert_eq!(left.as_deref(), Some(SPEC), "step {n}");
    }
}

#[test]
fn temporary_files_of_a_crash_are_removed_when_the_directory_is_opened_again() {
    let dir = SimDir::new();
    dir.crash_after(2);
    assert!(specs(&dir).ensure(&uid(UID), &channel(0, 235)).is_err());
    let next = dir.after_kill();
    assert!(next.list().unwrap().is_empty());
    assert!(next.read(FILE).unwrap().is_none());
}
