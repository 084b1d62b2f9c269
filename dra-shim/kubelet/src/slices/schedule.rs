//! The time of the publisher's next reconciliation.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use tokio::time::Instant;

/// Pause before the reaction to a change by another writer, plus up to 100 % jitter. The
/// deletion of several slices is handled as one change, and nodes do not react in step.
const SETTLE: Duration = Duration::from_millis(100);
/// How often an instance on standby checks the election.
const STANDBY_CHECK: Duration = Duration::from_secs(1);
/// The longest pause after an error.
const MAX_DELAY: Duration = Duration::from_secs(30);
/// Maximum number of consecutive conflicts that are not an error: when all slices are
/// deleted, the deletions come one by one.
const MAX_CONFLICTS: u32 = 5;

/// The time of the next reconciliation: the earliest requested one.
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

    /// Schedules after a change by another writer.
    pub(super) fn soon(&mut self) {
        self.by(Instant::now() + SETTLE.mul_f64(1.0 + fastrand::f64()));
    }

    /// Schedules the next check of the election, on standby.
    pub(super) fn standby(&mut self) {
        self.by(Instant::now() + STANDBY_CHECK);
    }

    /// Schedules a new list soon, after a conflict with another writer. Returns false after too
    /// many consecutive conflicts.
    pub(super) fn conflict(&mut self) -> bool {
        self.conflicts += 1;
        if self.conflicts > MAX_CONFLICTS {
            return false;
        }
        self.list = true;
        self.soon();
        true
    }

    /// Schedules a retry after an error, with back-off until [`Schedule::reset`].
    pub(super) fn retry(&mut self) {
        self.list = true;
        // The iterator is infinite.
        let delay = self.delays.next().unwrap_or(MAX_DELAY);
        self.by(Instant::now() + delay);
    }

    /// Resets the back-off after a success.
    pub(super) fn reset(&mut self) {
        self.delays = delays();
        self.conflicts = 0;
    }

    /// Waits for the scheduled time, and clears it. Cancel-safe.
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
