//! When the publisher reconciles next.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use tokio::time::Instant;

/// Pause before the reaction to someone else's change, plus up to as much again: the
/// deletion of several slices is handled as one change, and nodes do not react in step.
const SETTLE: Duration = Duration::from_millis(100);
/// How often an instance on standby checks the election.
const STANDBY_CHECK: Duration = Duration::from_secs(1);
/// The longest pause after an error.
const MAX_DELAY: Duration = Duration::from_secs(30);
/// How many conflicts in a row are normal: when all slices are deleted, the deletions
/// come one by one.
const MAX_CONFLICTS: u32 = 5;

/// The time of the next reconciliation: the earliest of those requested.
pub(super) struct Schedule {
    at: Option<Instant>,
    /// Whether to list the slices first, because the cache may be out of date.
    pub(super) list: bool,
    delays: ExponentialBackoff,
    conflicts: u32,
}

// === impl Schedule ===

impl Schedule {
    pub(super) fn never() -> Self {
        Self {
            at: None,
            list: false,
            delays: delays(),
            conflicts: 0,
        }
    }

    pub(super) fn now(&mut self) {
        self.by(Instant::now());
    }

    /// After someone else's change.
    pub(super) fn soon(&mut self) {
        self.by(Instant::now() + SETTLE.mul_f64(1.0 + fastrand::f64()));
    }

    /// On standby: to check the election again.
    pub(super) fn standby(&mut self) {
        self.by(Instant::now() + STANDBY_CHECK);
    }

    /// After a conflict with another writer: soon, with a new list. False if there were
    /// too many in a row.
    pub(super) fn conflict(&mut self) -> bool {
        self.conflicts += 1;
        if self.conflicts > MAX_CONFLICTS {
            return false;
        }
        self.list = true;
        self.soon();
        true
    }

    /// After an error: later each time, until [`Schedule::reset`].
    pub(super) fn retry(&mut self) {
        self.list = true;
        // The iterator has no end.
        let delay = self.delays.next().unwrap_or(MAX_DELAY);
        self.by(Instant::now() + delay);
    }

    /// After a success.
    pub(super) fn reset(&mut self) {
        self.delays = delays();
        self.conflicts = 0;
    }

    /// Returns when it is time, and clears that time. Cancel-safe.
    pub(super) async fn wait(&mut self) {
        match self.at {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
        self.at = None;
    }

    fn by(&mut self, at: Instant) {
        self.at = Some(self.at.map_or(at, |earlier| earlier.min(at)));
    }
}

/// Pauses after errors: 0.5 s, doubling to 30 s, with jitter.
fn delays() -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(500))
        .with_max_delay(MAX_DELAY)
        .with_jitter()
        .without_max_times()
        .build()
}
