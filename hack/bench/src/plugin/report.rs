//! The table of kubelet's calls.

use std::io::Write;
use std::time::Duration;

use crate::rounds::Rounds;
use crate::table::{ms, verdict};

/// One call with a number of prepared claims.
pub(crate) struct Row {
    pub(crate) prepared: usize,
    pub(crate) checkpoint_bytes: usize,
    pub(crate) operation: &'static str,
    pub(crate) rounds: Rounds,
    pub(crate) aim: Option<Aim>,
    /// The limit of the plugin's median CPU time.
    pub(crate) cpu: Option<Duration>,
}

/// The limit of a median: a multiple of the floor, and an additional time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Aim {
    floors: f64,
    more: Duration,
}

// === impl Aim ===

impl Aim {
    pub(crate) const fn new(floors: f64, more: Duration) -> Self {
        Self { floors, more }
    }

    fn text(self) -> String {
        let more = if self.more.is_zero() {
            String::new()
        } else {
            format!(" + {} ms", self.more.as_millis())
        };
        format!("{:.1}x{more}", self.floors)
    }

    fn is_met(self, rounds: &Rounds) -> bool {
        rounds.wall(50) <= rounds.floor().mul_f64(self.floors) + self.more
    }
}

pub(crate) fn calls(out: &mut impl Write, rows: &[Row], filesystem: &str) -> anyhow::Result<()> {
    writeln!(
        out,
        "kubelet's calls; times in ms; checkpoint on {filesystem}, specs on tmpfs; ratio: of the same round, median and p10-p90; \
         CPU: of all threads of the plugin, median\n\n\
         | prepared | checkpoint | operation / floor | median | p99 | floor | ratio | p10-p90 | aim | | CPU | aim | |\n\
         |--:|--:|---|--:|--:|--:|--:|--:|--:|---|--:|--:|---|"
    )?;
    for row in rows {
        let rounds = &row.rounds;
        #[expect(clippy::cast_precision_loss, reason = "files are far below 2^52 bytes")]
        let kb = row.checkpoint_bytes as f64 / 1000.0;
        writeln!(
            out,
            "| {} | {kb:.1} kB | {} | {} | {} | {} | {:.2} | {:.2}-{:.2} | {} | {} | {} | {} | {} |",
            row.prepared,
            row.operation,
            ms(rounds.wall(50)),
            ms(rounds.wall(99)),
            ms(rounds.floor()),
            rounds.ratio(50),
            rounds.ratio(10),
            rounds.ratio(90),
            row.aim.map(Aim::text).unwrap_or_default(),
            row.aim.map_or("", |aim| verdict(aim.is_met(rounds))),
            ms(rounds.cpu()),
            row.cpu.map(ms).unwrap_or_default(),
            row.cpu.map_or("", |cpu| verdict(rounds.cpu() <= cpu)),
        )?;
    }
    Ok(writeln!(out)?)
}
