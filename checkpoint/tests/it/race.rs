//! Two real processes race for one device, on a real disk. This test program runs
//! itself as the racers.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use dra_checkpoint::{Checkpoint, Claims, Refused, State, Store};
use durable_file::OsDir;

use crate::common::{Group, at, boot, claim, group, status};

const ROUNDS: usize = 1000;
/// The environment variable with the checkpoint's directory.
const RACE_DIR: &str = "DRA_CHECKPOINT_RACE_DIR";
/// Prefix of a racer's lines in the output of the test harness.
const LINE_PREFIX: &str = "racer: ";

// req: CKPT-8
#[test]
fn of_two_processes_racing_for_one_device_exactly_one_holds_it() {
    let scratch = tempfile::tempdir().unwrap();
    let store = open(scratch.path());
    let mut racers = [Racer::spawn(scratch.path()), Racer::spawn(scratch.path())];
    let mut wins = [0, 0];
    for round in 0..ROUNDS {
        let uids = ["0", "1"].map(|n| format!("{round}-{n}"));
        let line_up = uids.clone();
        store
            .commit(|claims| line_up_only(claims, line_up))
            .unwrap();
        // The first racer to get a claim has an advantage, so alternate.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for n in order {
            racers[n].go(&uids[n]);
        }
        let won = racers.each_mut().map(Racer::has_won);
        assert!(won[0] != won[1], "round {round}: {won:?}");
        let winner = usize::from(won[1]);
        wins[winner] += 1;
        assert_eq!(
            holders(scratch.path()),
            [uids[winner].as_str()],
            "round {round}"
        );
    }
    println!("{ROUNDS} rounds, won by each: {wins:?}");
    racers.into_iter().for_each(Racer::finish);
    let mut left: Vec<_> = std::fs::read_dir(scratch.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["checkpoint.json", "pu.lock"]);
}

/// The racer. It does nothing unless the test above runs it.
#[test]
#[ignore = "a child process of the race test above"]
fn racer() {
    let Some(dir) = std::env::var_os(RACE_DIR) else {
        return;
    };
    let store = open(Path::new(&dir));
    for uid in std::io::stdin().lines() {
        let won = complete_if_free(&store, uid.unwrap());
        // In one write that starts a new line, since the harness writes, too.
        print!("\n{LINE_PREFIX}{won}\n");
    }
}

fn open(dir: &Path) -> Store<Group> {
    let dir = Arc::new(OsDir::open(dir).unwrap());
    Store::open(dir, boot()).unwrap().0
}

/// The claims that hold the device according to the file.
fn holders(dir: &Path) -> Vec<String> {
    let bytes = std::fs::read(dir.join("checkpoint.json")).unwrap();
    let file = Checkpoint::<Group>::decode(&bytes).unwrap();
    let holders = file.claims().filter(|(_, record)| record.is_completed());
    holders.map(|(uid, _)| uid.to_owned()).collect()
}

/// Removes the claims of the last round and starts those of this one.
fn line_up_only(claims: &mut Claims<Group>, uids: [String; 2]) -> Result<(), Refused> {
    let known: Vec<String> = claims
        .records_unchecked()
        .map(|(uid, _)| uid.to_owned())
        .collect();
    for uid in known {
        match claims.get(&uid).map(|record| &record.state) {
            Some(State::Completed(_)) => claims.remove(&uid)?,
            _ => claims.abort(&uid, at(0))?,
        }
    }
    claims.expire(at(100));
    for uid in uids {
        claims.start(&claim(&uid), &status("p"), at(0))?;
    }
    Ok(())
}

fn complete_if_free(store: &Store<Group>, uid: String) -> bool {
    store
        .commit(move |claims| {
            if claims.records()?.any(|(_, record)| record.is_completed()) {
                return Ok(false);
            }
            claims.complete(&uid, &status("p"), vec![group()])?;
            Ok::<_, Refused>(true)
        })
        .unwrap()
}

struct Racer {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Racer {
    fn spawn(dir: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "race::racer", "--ignored", "--nocapture"])
            .env(RACE_DIR, dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self {
            child,
            stdin,
            stdout,
        }
    }

    fn go(&mut self, uid: &str) {
        writeln!(self.stdin, "{uid}").unwrap();
    }

    fn has_won(&mut self) -> bool {
        let lines = (&mut self.stdout).lines().map(Result::unwrap);
        let mut results = lines.filter_map(|line| line.strip_prefix(LINE_PREFIX)?.parse().ok());
        results.next().unwrap()
    }

    fn finish(mut self) {
        drop(self.stdin);
        assert!(self.child.wait().unwrap().success());
    }
}
