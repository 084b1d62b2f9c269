//! Checkpoint benchmarks: a read, one change, and sixteen changes at once.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use compute_domain_node::DeviceGroup;
use dra_checkpoint::{BootId, CHECKPOINT_FILE, Checkpoint, CommitError, Refused, Store};
use durable_file::OsDir;
use jiff::Timestamp;
use serde::de::IgnoredAny;

use crate::content::Content;
use crate::disk::{RawFile, Scratch};
use crate::rounds::{Rounds, interleave};
use crate::table::{Aim, Row};

const AT_ONCE: usize = 16;

/// Number of prepared claims, time limit for reading their file, and limit for the ratio of a
/// change to a raw replacement of the file.
const SIZES: [(usize, Duration, f64); 4] = [
    (1, Duration::from_micros(100), 1.3),
    (16, Duration::from_micros(300), 1.3),
    (128, Duration::from_micros(1500), 1.5),
    (1024, Duration::from_millis(12), 2.5),
];

/// A store on disk with prepared claims, and a few more claims that the benchmark changes.
struct Subject {
    store: Store<DeviceGroup>,
    dir: PathBuf,
    changing: Vec<Content>,
}

pub(crate) fn run(scratch: &Scratch, rounds: usize) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (claims, read_within, change_ratio) in SIZES {
        let mut row = |subject: &Subject, operation, aim, rounds| -> anyhow::Result<()> {
            let file_bytes = subject.file()?.len();
            rows.push(Row {
                of: format!("{claims} claims"),
                file_bytes,
                operation,
                rounds,
                aim,
            });
            Ok(())
        };
        let one = Subject::new(scratch, claims, 1)?;
        let aim = Aim::Within(read_within);
        row(
            &one,
            "read and verify / JSON parse",
            Some(aim),
            one.reads(rounds)?,
        )?;
        let aim = Aim::Ratio(change_ratio);
        row(
            &one,
            "one change / raw replace",
            Some(aim),
            one.changes(rounds)?,
        )?;
        let many = Subject::new(scratch, claims, AT_ONCE)?;
        row(
            &many,
            "16 changes at once / raw replace",
            None,
            many.changes_at_once(rounds)?,
        )?;
    }
    Ok(rows)
}

// === impl Subject ===

impl Subject {
    fn new(scratch: &Scratch, prepared: usize, changing: usize) -> anyhow::Result<Self> {
        let dir = scratch.subdirectory(&format!("{prepared}-and-{changing}"))?;
        let (store, _none) = Store::open(Arc::new(OsDir::open(&dir)?), BootId::current()?)?;
        let contents: anyhow::Result<Vec<Content>> = (0..prepared).map(Content::of).collect();
        prepare(&store, contents?)?;
        let changing: anyhow::Result<Vec<Content>> =
            (prepared..prepared + changing).map(Content::of).collect();
        let subject = Self {
            store,
            dir,
            changing: changing?,
        };
        for content in &subject.changing {
            subject.change(content, 0)?;
        }
        Ok(subject)
    }

    fn file(&self) -> anyhow::Result<Vec<u8>> {
        let path = self.dir.join(CHECKPOINT_FILE);
        fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// The floor of a read: reads the file and checks that it is JSON.
    fn reads(&self, rounds: usize) -> anyhow::Result<Rounds> {
        let read = || {
            let checkpoint = Checkpoint::<DeviceGroup>::decode(&self.file()?)?;
            anyhow::ensure!(checkpoint.claims().next().is_some(), "no claims were read");
            Ok(())
        };
        let parse = || {
            serde_json::from_slice::<IgnoredAny>(&self.file()?)?;
            Ok(())
        };
        interleave(rounds, read, parse)
    }

    fn changes(&self, rounds: usize) -> anyhow::Result<Rounds> {
        let content = self.changing.first().context("one claim changes")?;
        let mut round = 0;
        let change = || {
            round += 1;
            Ok(self.change(content, round)?)
        };
        interleave(rounds, change, self.raw_replace()?)
    }

    /// Changes each claim from a separate thread. All begin together; the round ends with the
    /// last one.
    fn changes_at_once(&self, rounds: usize) -> anyhow::Result<Rounds> {
        let go = Barrier::new(self.changing.len() + 1);
        let done = Barrier::new(self.changing.len() + 1);
        let calls = crate::rounds::calls(rounds);
        thread::scope(|scope| {
            let workers: Vec<_> = self
                .changing
                .iter()
                .map(|content| {
                    scope.spawn(|| {
                        let mut outcome = Ok(());
                        for round in 1..=calls {
                            go.wait();
                            // Failures are reported at the end, so that no thread waits forever.
                            if outcome.is_ok() {
                                outcome = self.change(content, round);
                            }
                            done.wait();
                        }
                        outcome
                    })
                })
                .collect();
            let all = || {
                go.wait();
                done.wait();
                Ok(())
            };
            let measured = interleave(rounds, all, self.raw_replace()?);
            for worker in workers {
                worker
                    .join()
                    .map_err(|_| anyhow::anyhow!("a thread panicked"))??;
            }
            measured
        })
    }

    /// Starts the claim with its other version: one record changes, but not the length of the
    /// file.
    fn change(&self, content: &Content, round: usize) -> Result<(), CommitError<Refused>> {
        let [even, odd] = content.versions.clone();
        let version = if round.is_multiple_of(2) { even } else { odd };
        let claim = content.claim.clone();
        self.store
            .commit(move |claims| claims.start(&claim, &version, Timestamp::now()))
    }

    /// The floor of a change: writes the same number of bytes with the same durability.
    fn raw_replace(&self) -> anyhow::Result<impl FnMut() -> anyhow::Result<()>> {
        let bytes = self.file()?;
        let raw = RawFile::in_directory(&self.dir)?;
        Ok(move || Ok(raw.replace("floor", &bytes)?))
    }
}

fn prepare(store: &Store<DeviceGroup>, contents: Vec<Content>) -> anyhow::Result<()> {
    store
        .commit(move |claims| {
            for content in contents {
                let [version, _] = &content.versions;
                claims.start(&content.claim, version, Timestamp::now())?;
                claims.complete(&content.claim.uid, version, content.devices()?)?;
            }
            Ok::<_, anyhow::Error>(())
        })
        .map_err(|err| match err {
            CommitError::Refused(err) => err,
            CommitError::Store(err) => err.into(),
        })
}
