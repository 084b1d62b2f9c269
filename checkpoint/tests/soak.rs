//! SIGKILL at random moments, on a real disk. `hack/soak.sh` runs it; an
//! ordinary test run does not.
//!
//! This program runs itself as the process that is killed: four threads commit
//! to one store, each on claims of its own, and say so before and after every
//! commit. Whatever was said to be done must be in the file, and nothing that
//! nobody tried.
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
/// Where the child finds the checkpoint.
const SOAK_DIR: &str = "DRA_CHECKPOINT_SOAK_DIR";
const THREADS: usize = 4;
/// Before what the child says, among what the test harness says.
const TRIES: &str = "soak tries ";
const DONE: &str = "soak done ";
/// The longest that a child lives after its first commit.
const LIFE: Duration = Duration::from_millis(60);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Device {
    of: String,
}

impl Payload for Device {}

/// How far each claim got: its UID is `<thread>-<claim>`.
type Progress = BTreeMap<String, Step>;

/// The life of one claim; the claims of a thread follow each other.
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
        let said = killed_after(scratch.path(), life);
        done += said.done.len();
        let found = found_in(scratch.path());
        check(&held, &said, &found)
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
                // One or two records per thread are there at any moment.
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

/// The claims of this thread in killed processes.
fn left_by_predecessors(store: &Store<Device>, thread: usize) -> BTreeMap<usize, Step> {
    let own = format!("{thread}-");
    let found = progress(store).into_iter();
    let own = found.filter_map(|(uid, step)| Some((uid.strip_prefix(&own)?.parse().ok()?, step)));
    own.collect()
}

fn start(store: &Store<Device>, uid: &str) {
    saying(store, uid, Step::Started, |claims, uid| {
        claims.start(&name(uid), &ClaimStatus::default(), now())
    });
}

fn complete(store: &Store<Device>, uid: &str) {
    saying(store, uid, Step::Completed, |claims, uid| {
        let device = Device { of: uid.to_owned() };
        claims.complete(uid, &ClaimStatus::default(), vec![device])
    });
}

fn remove(store: &Store<Device>, uid: &str) {
    saying(store, uid, Step::Removed, |claims, uid| {
        claims.remove(uid).map(drop)
    });
}

fn saying(
    store: &Store<Device>,
    uid: &str,
    step: Step,
    change: fn(&mut Claims<Device>, &str) -> Result<(), Refused>,
) {
    say(TRIES, uid, step);
    let owned = uid.to_owned();
    let committed = store.commit(move |claims| change(claims, &owned));
    committed.unwrap_or_else(|error: CommitError<Refused>| panic!("{uid} {step:?}: {error}"));
    say(DONE, uid, step);
}

/// In one write, so that a line is whole or missing.
fn say(what: &str, uid: &str, step: Step) {
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

/// What a child said before it was killed.
#[derive(Debug, Default)]
struct LastReport {
    tried: Vec<(String, Step)>,
    done: Vec<(String, Step)>,
}

fn killed_after(dir: &Path, life: Duration) -> LastReport {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(SOAK_DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut said = LastReport::default();
    while said.tried.is_empty() {
        assert!(listen(&mut lines, &mut said), "the child ended by itself");
    }
    let killer = thread::spawn(move || kill_after(child, life));
    while listen(&mut lines, &mut said) {}
    killer.join().unwrap();
    said
}

/// SIGKILL, which is what `Child::kill` sends.
fn kill_after(mut child: Child, life: Duration) {
    // Not waiting for anything: the moment is what the test varies.
    thread::sleep(life);
    assert!(child.try_wait().unwrap().is_none(), "the child failed");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Takes one line; `false` at the end. A line that was cut was not said.
fn listen(lines: &mut impl BufRead, said: &mut LastReport) -> bool {
    let mut line = String::new();
    if lines.read_line(&mut line).unwrap() == 0 {
        return false;
    }
    if let Some(line) = line.strip_suffix('\n') {
        if let Some(step) = line.strip_prefix(TRIES) {
            said.tried.push(parse(step));
        } else if let Some(step) = line.strip_prefix(DONE) {
            said.done.push(parse(step));
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

/// What the next process finds.
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
            State::Aborted { .. } => panic!("nobody aborts {uid}"),
        };
        (uid.to_owned(), step)
    });
    records.collect()
}

/// `found` is `before` with everything that was done, and for each thread at
/// most the one step more that was tried.
fn check(before: &Progress, said: &LastReport, found: &Progress) -> Result<(), String> {
    let mut certain = before.clone();
    for (uid, step) in &said.done {
        certain.insert(uid.clone(), *step);
    }
    let mut possible = certain.clone();
    for (uid, step) in &said.tried {
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

/// Enough to spread the moments of the kills.
struct Random(u64);

impl Random {
    fn from_clock() -> Self {
        let seed = Timestamp::now().as_nanosecond().to_le_bytes();
        let mut low = [0; 8];
        low.copy_from_slice(&seed[..8]);
        Self(u64::from_le_bytes(low) | 1)
    }

    /// xorshift64; from 0 to 1.
    fn next_fraction(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        f64::from(u32::try_from(self.0 >> 32).unwrap()) / f64::from(u32::MAX)
    }
}
