//! SIGKILL at random moments, on a real disk. `hack/soak.sh` runs it; ordinary test
//! runs do not.
//!
//! This program runs itself as the process to kill. Four threads commit to one store,
//! each on its own claims, and print a line before and after every commit. Every change
//! reported as done must be in the file, and none that was never tried.
#![expect(clippy::panic, clippy::unwrap_used, reason = "test helpers")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use dra_checkpoint::{
    BootId, ClaimRef, ClaimStatus, Claims, CommitError, Damage, Payload, Refused, State, Store,
};
use durable_file::OsDir;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How often a child is killed.
const ROUNDS: &str = "SOAK_ROUNDS";
const DEFAULT_ROUNDS: usize = 300;
/// The environment variable with the checkpoint's directory.
const SOAK_DIR: &str = "DRA_CHECKPOINT_SOAK_DIR";
const THREADS: usize = 4;
/// Prefixes of the child's lines in the output of the test harness.
const TRIES: &str = "soak tries ";
const DONE: &str = "soak done ";
/// The longest life of a child after its first commit.
const LIFE: Duration = Duration::from_millis(60);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Device {
    of: String,
}

impl Payload for Device {}

/// The last step of each claim, by UID: `<thread>-<claim>`.
type Progress = BTreeMap<String, Step>;

/// A step of one claim; the claims of a thread follow each other.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Started,
    Completed,
    Removed,
}

#[test]
#[ignore = "minutes: hack/soak.sh runs it"]
fn no_kill_loses_an_acknowledged_change() {
    let rounds = std::env::var(ROUNDS).map_or(DEFAULT_ROUNDS, |text| text.parse().unwrap());
    let scratch = tempfile::tempdir().unwrap();
    let mut random = Random::from_clock();
    let mut held = Progress::new();
    let mut done = 0;
    for round in 0..rounds {
        let life = LIFE.mul_f64(random.next_fraction());
        let report = run_and_kill(scratch.path(), life);
        done += report.done.len();
        let found = found_in(scratch.path());
        check(&held, &report, &found)
            .unwrap_or_else(|violation| panic!("round {round}: {violation}"));
        held = found;
    }
    assert!(done > 0, "the children did nothing in {rounds} rounds");
    println!("{rounds} kills, {done} acknowledged commits, none lost");
}

/// The child. It does nothing unless the test above runs it.
#[test]
#[ignore = "the process that is killed, run by the test above"]
fn child() {
    let Some(dir) = std::env::var_os(SOAK_DIR) else {
        return;
    };
    let store = open(Path::new(&dir));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, left) = (&store, left_by_predecessors(&store, thread));
            scope.spawn(move || {
                for (claim, step) in &left {
                    let uid = format!("{thread}-{claim}");
                    if *step == Step::Started {
                        complete(store, &uid);
                    }
                    remove(store, &uid);
                }
                // Each thread has one or two records at any moment.
                let next = left.keys().next_back().map_or(0, |last| last + 1);
                for claim in next.. {
                    start(store, &format!("{thread}-{claim}"));
                    complete(store, &format!("{thread}-{claim}"));
                    if claim > next {
                        remove(store, &format!("{thread}-{}", claim - 1));
                    }
                }
            });
        }
    });
}

// === the child ===

/// The claims that this thread left in killed processes.
fn left_by_predecessors(store: &Store<Device>, thread: usize) -> BTreeMap<usize, Step> {
    let own = format!("{thread}-");
    let found = progress(store).into_iter();
    let own = found.filter_map(|(uid, step)| Some((uid.strip_prefix(&own)?.parse().ok()?, step)));
    own.collect()
}

fn start(store: &Store<Device>, uid: &str) {
    commit_reported(store, uid, Step::Started, |claims, uid| {
        claims.start(&name(uid), &ClaimStatus::default(), now())
    });
}

fn complete(store: &Store<Device>, uid: &str) {
    commit_reported(store, uid, Step::Completed, |claims, uid| {
        let device = Device { of: uid.to_owned() };
        claims.complete(uid, &ClaimStatus::default(), vec![device])
    });
}

fn remove(store: &Store<Device>, uid: &str) {
    commit_reported(store, uid, Step::Removed, |claims, uid| {
        claims.remove(uid).map(drop)
    });
}

fn commit_reported(
    store: &Store<Device>,
    uid: &str,
    step: Step,
    change: fn(&mut Claims<Device>, &str) -> Result<(), Refused>,
) {
    report_step(TRIES, uid, step);
    let owned = uid.to_owned();
    let committed = store.commit(move |claims| change(claims, &owned));
    committed.unwrap_or_else(|error: CommitError<Refused>| panic!("{uid} {step:?}: {error}"));
    report_step(DONE, uid, step);
}

/// In one write, so that a line is whole or missing.
fn report_step(what: &str, uid: &str, step: Step) {
    let line = format!("\n{what}{uid} {step:?}\n");
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}

fn name(uid: &str) -> ClaimRef {
    ClaimRef {
        uid: uid.to_owned(),
        name: format!("claim-{uid}"),
        namespace: "soak".to_owned(),
    }
}

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

fn open(dir: &Path) -> Store<Device> {
    let dir = Arc::new(OsDir::open(dir).unwrap());
    let boot = BootId::current().unwrap();
    let (store, damage) = Store::open(dir, boot).unwrap();
    assert_eq!(damage, Damage::None);
    assert_eq!(store.view().check_recovered(), Ok(()));
    store
}

// === the test ===

/// The child's output before it was killed.
#[derive(Debug, Default)]
struct LastReport {
    tried: Vec<(String, Step)>,
    done: Vec<(String, Step)>,
}

fn run_and_kill(dir: &Path, life: Duration) -> LastReport {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(SOAK_DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut report = LastReport::default();
    while report.tried.is_empty() {
        assert!(
            read_report_line(&mut lines, &mut report),
            "the child ended by itself"
        );
    }
    let killer = thread::spawn(move || kill_after(child, life));
    while read_report_line(&mut lines, &mut report) {}
    killer.join().unwrap();
    report
}

/// SIGKILL, which is what `Child::kill` sends.
fn kill_after(mut child: Child, life: Duration) {
    // Do not wait for any event: the test varies the moment.
    thread::sleep(life);
    assert!(child.try_wait().unwrap().is_none(), "the child failed");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Reads one line; `false` at the end. An incomplete line is ignored.
fn read_report_line(lines: &mut impl BufRead, report: &mut LastReport) -> bool {
    let mut line = String::new();
    if lines.read_line(&mut line).unwrap() == 0 {
        return false;
    }
    if let Some(line) = line.strip_suffix('\n') {
        if let Some(step) = line.strip_prefix(TRIES) {
            report.tried.push(parse(step));
        } else if let Some(step) = line.strip_prefix(DONE) {
            report.done.push(parse(step));
        }
    }
    true
}

fn parse(words: &str) -> (String, Step) {
    let (uid, step) = words.split_once(' ').unwrap();
    let step = match step {
        "Started" => Step::Started,
        "Completed" => Step::Completed,
        "Removed" => Step::Removed,
        other => panic!("{other:?}"),
    };
    (uid.to_owned(), step)
}

/// The claims that the next process finds.
fn found_in(dir: &Path) -> Progress {
    let store = open(dir);
    for entry in std::fs::read_dir(dir).unwrap() {
        let name = entry.unwrap().file_name();
        let ours = name == "checkpoint.json" || name == "pu.lock";
        assert!(ours, "{} was not swept", name.display());
    }
    progress(&store)
}

fn progress(store: &Store<Device>) -> Progress {
    let view = store.view();
    let records = view.records_unchecked().map(|(uid, record)| {
        assert_eq!(record.name, format!("claim-{uid}"));
        let step = match &record.state {
            State::Started => Step::Started,
            State::Completed(devices) => {
                assert_eq!(devices, &[Device { of: uid.to_owned() }]);
                Step::Completed
            }
            State::Aborted { .. } => panic!("{uid} is aborted"),
        };
        (uid.to_owned(), step)
    });
    records.collect()
}

/// Checks that `found` is `before` with all done steps, and for each thread at most one
/// more step that was tried.
fn check(before: &Progress, report: &LastReport, found: &Progress) -> Result<(), String> {
    let mut certain = before.clone();
    for (uid, step) in &report.done {
        certain.insert(uid.clone(), *step);
    }
    let mut possible = certain.clone();
    for (uid, step) in &report.tried {
        possible.insert(uid.clone(), *step);
    }
    let is = |step: Option<&Step>| step.filter(|step| **step != Step::Removed).copied();
    for uid in certain.keys().chain(possible.keys()).chain(found.keys()) {
        let found = is(found.get(uid));
        let allowed = [is(certain.get(uid)), is(possible.get(uid))];
        if !allowed.contains(&found) {
            return Err(format!("claim {uid} is {found:?}, not one of {allowed:?}"));
        }
    }
    Ok(())
}

/// A simple generator, good enough to spread the moments of the kills.
struct Random(u64);

impl Random {
    fn from_clock() -> Self {
        let seed = Timestamp::now().as_nanosecond().to_le_bytes();
        let mut low = [0; 8];
        low.copy_from_slice(&seed[..8]);
        Self(u64::from_le_bytes(low) | 1)
    }

    /// A number from 0 to 1, by xorshift64.
    fn next_fraction(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        f64::from(u32::try_from(self.0 >> 32).unwrap()) / f64::from(u32::MAX)
    }
}
