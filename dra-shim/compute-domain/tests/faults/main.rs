//! Tests of the plugin's process with the test's kubelet and API server: every fault at every step
//! ([`rows`]), random sequences of calls, crashes and reboots, a second plugin, a Go driver before it
//! ([`takeover`]) or beside it, its health, its texts about the host's IMEX daemon, and its shutdown
//! ([`ending`]). The plugin has a mock of NVML and separate directories; strace fails its system calls.
//!
//! ```text
//! rows ──► cells, armed ─┐
//!         sequences ─────┼──► node ──► plugin (process) ◄── strace
//! host_imex, health, ────┤     ├─────► kubelet (dra-kubelet's)
//! ending, two_plugins ───┤     └─────► ground ──► api ──► http
//! takeover, go_beside ───┘                   └──► driver_root
//!     └─────► go_node ──► go_driver
//! ```

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test ends where its expectation fails"
)]

mod api;
mod armed;
mod cells;
mod driver_root;
mod ending;
mod go_beside;
mod go_driver;
mod go_node;
mod ground;
mod health;
mod host_imex;
mod http;
mod kept;
mod matrix;
mod node;
mod plugin;
mod rows;
mod sequences;
mod strace;
mod table;
mod takeover;
mod two_plugins;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use cells::Scenario;
use matrix::{Cell, Column, Fault, FirstCallResult, Step};
use sequences::Sequence;
use table::{Table, differences};

/// Time limit of waits that take milliseconds on an idle machine.
const GIVE_UP: Duration = Duration::from_secs(60);

/// Concurrent nodes. Most of them wait.
const AT_ONCE: usize = 12;

/// Number of random sequences.
const SEQUENCES: u64 = 32;

/// A cell of the matrix to run.
struct Run {
    step: Step,
    column: Column,
    fault: Fault,
}

impl Run {
    /// All cells with a fault whose name contains `part`.
    fn all(part: &str) -> Vec<Self> {
        let mut all = Vec::new();
        for step in Step::ALL {
            for (column, cell) in Column::ALL.into_iter().zip(step.row()) {
                if let Cell::Fault(fault) = cell {
                    all.push(Self {
                        step,
                        column,
                        fault,
                    });
                }
            }
        }
        all.retain(|run| run.name().contains(part));
        all
    }

    fn name(&self) -> String {
        format!("{}, {}", self.step.name(), self.column.name())
    }

    /// Returns the end of the scenario, and how long the recovery took after the fault.
    async fn run(&self, permits: Arc<Semaphore>) -> (cells::End, Duration) {
        let scenario = self.step.scenario();
        // These mostly wait, for minutes.
        let _permit = match scenario {
            Scenario::Reconcile => None,
            _ => Some(permits.acquire_owned().await.unwrap()),
        };
        scenario.run(Some(self.fault), self.column.first()).await
    }
}

/// `IMEX_CELL=kill cargo test ...` runs the cells whose names contain `kill`.
// req: NODE-23
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs strace, as root, and takes minutes: hack/test.sh runs it"]
async fn after_every_fault_at_every_step_the_end_is_the_same_as_without_it() {
    let part = std::env::var("IMEX_CELL").unwrap_or_default();
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = Vec::new();
    for run in Run::all(&part) {
        let permits = Arc::clone(&permits);
        let (scenario, name) = (run.step.scenario(), run.name());
        let (step, column) = (run.step, run.column);
        let ending = tokio::spawn(async move { run.run(permits).await });
        running.push((step, column, scenario, name, ending));
    }
    let expected =
        Scenario::ALL.map(|it| (it, tokio::spawn(it.run(None, FirstCallResult::Succeeds))));
    let mut ends = Vec::new();
    for (scenario, ending) in expected {
        ends.push((scenario, ending.await.unwrap().0));
    }
    let (mut table, mut failed) = (Table::default(), Vec::new());
    for (step, column, scenario, name, ending) in running {
        let expected = ends.iter().find(|(of, _)| *of == scenario);
        let expected = &expected.unwrap().1;
        let result = match ending.await {
            Ok((end, took)) if end == *expected => Ok(took),
            Ok((end, _)) => Err(differences(&end, expected)),
            Err(panic) => Err(panic.to_string()),
        };
        if let Err(reason) = &result {
            failed.push(format!("{name}: {reason}"));
        }
        table.set(step, column, result.ok());
    }
    println!("{table}");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// `IMEX_SEED=7 cargo test ...` runs that sequence alone.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, for another boot id, and takes a minute: hack/test.sh runs it"]
async fn random_calls_crashes_and_reboots_lose_no_claim_and_share_no_device() {
    let seeds = match std::env::var("IMEX_SEED") {
        Ok(seed) => vec![seed.parse().expect("IMEX_SEED is a number")],
        Err(_) => (0..SEQUENCES).collect(),
    };
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let run = |seed| {
        let permits = Arc::clone(&permits);
        let run = tokio::spawn(async move {
            let _permit = permits.acquire_owned().await.unwrap();
            Sequence::start(seed).await.run().await;
        });
        (seed, run)
    };
    let running: Vec<_> = seeds.into_iter().map(run).collect();
    let mut failed = Vec::new();
    for (seed, run) in running {
        if run.await.is_err() {
            failed.push(seed);
        }
    }
    assert!(
        failed.is_empty(),
        "these failed; IMEX_SEED=N runs one of them: {failed:?}"
    );
}
