//! The measurements, and figures computed from them.

use std::time::Duration;

use crate::audit::Requests;

/// The user's change to all domains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Create,
    Delete,
}

/// All rounds with one number of domains.
pub(super) struct Size {
    pub(super) domains: usize,
    pub(super) subject: Vec<Round>,
    /// One more round than the subject's.
    pub(super) floor: Vec<Round>,
}

/// One program with all domains.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) create: Phase,
    pub(super) delete: Phase,
    /// Memory before the first domain, in KiB.
    pub(super) started_kib: u64,
    pub(super) rest: Option<Rest>,
}

/// Creating or deleting all domains.
#[derive(Debug, Default)]
pub(super) struct Phase {
    /// Time until all were Ready, or deleted.
    pub(super) wall: Duration,
    pub(super) cpu: Duration,
    pub(super) requests: Requests,
    pub(super) peak_kib: u64,
    /// Memory when the program had settled, in KiB.
    pub(super) settled_kib: u64,
}

/// Measurements once for each size, while all domains exist.
#[derive(Debug)]
pub(super) struct Rest {
    pub(super) idle: Requests,
    /// Time from SIGTERM to the end.
    pub(super) ended_in: Duration,
    /// Time from the start of the next process.
    pub(super) settled_in: Duration,
    pub(super) requests: Requests,
    pub(super) peak_kib: u64,
    pub(super) settled_kib: u64,
}

// === impl Round ===

impl Round {
    fn phase(&self, change: Change) -> &Phase {
        match change {
            Change::Create => &self.create,
            Change::Delete => &self.delete,
        }
    }

    pub(super) fn wall(&self, change: Change) -> f64 {
        self.phase(change).wall.as_secs_f64()
    }

    pub(super) fn cpu(&self, change: Change) -> f64 {
        self.phase(change).cpu.as_secs_f64()
    }
}

// === impl Size ===

impl Size {
    /// The median of the subject's rounds.
    pub(super) fn subject(&self, value: impl Fn(&Round) -> f64) -> f64 {
        median(self.subject.iter().map(value))
    }

    /// The median of the floor's rounds.
    pub(super) fn floor(&self, value: impl Fn(&Round) -> f64) -> f64 {
        median(self.floor.iter().map(value))
    }

    /// The median of the rounds' ratios to the mean of the floors before and after each.
    pub(super) fn ratio(&self, change: Change) -> f64 {
        let floors = self.floor.windows(2).map(|floors| {
            let both: f64 = floors.iter().map(|floor| floor.wall(change)).sum();
            both / 2.0
        });
        let rounds = self.subject.iter().map(|round| round.wall(change));
        median(rounds.zip(floors).map(|(subject, floor)| subject / floor))
    }

    /// The figure's growth factor for each doubling from the smaller size to this one; linear: 2.0.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub(super) fn growth_since(&self, smaller: &Self, figure: impl Fn(&Self) -> f64) -> f64 {
        let doublings = (self.domains as f64 / smaller.domains as f64).log2();
        (figure(self) / figure(smaller)).powf(1.0 / doublings)
    }
}

/// The median; for an even number of values, the mean of the middle two.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    let upper = values.len() / 2;
    let lower = values.len().saturating_sub(1) / 2;
    f64::midpoint(at(lower), at(upper))
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn float(number: u64) -> f64 {
    number as f64
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
pub(super) fn each(number: u64, domains: usize) -> f64 {
    number as f64 / domains as f64
}

pub(super) fn mib(kib: u64) -> String {
    format!("{:.1}", float(kib) / 1024.0)
}

pub(super) fn seconds(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64())
}

#[cfg(test)]
mod tests;
