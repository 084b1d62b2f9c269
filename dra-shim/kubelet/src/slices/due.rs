//! When the publisher compares next.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use tokio::time::Instant;

/// A foreign change is answered after this pause, and up to as much again: a wipe
/// of several slices is one change, and nodes do not answer it in step.
const SETTLE: Duration = Duration::from_millis(100);
/// How often an instance that stands by looks whether it is its turn.
const LOOK: Duration = Duration::from_secs(1);
/// So often in a row may another writer be faster before that is an error: the
/// deletions of a wipe come one by one.
const CONTESTS: u32 = 5;

/// The earliest of what was asked for.
pub(super) struct Due {
    at: Option<Instant>,
    /// Whether to list first: what the watch has shown is in doubt.
    pub(super) list: bool,
    delays: ExponentialBackoff,
    contests: u32,
}

impl Due {
    pub(super) fn never() -> Self {
        Self {
            at: None,
            list: false,
            delays: delays(),
            contests: 0,
        }
    }

    pub(super) fn now(&mut self) {
        self.by(Instant::now());
    }

    /// After a foreign change.
    pub(super) fn soon(&mut self) {
        self.by(Instant::now() + SETTLE.mul_f64(1.0 + fastrand::f64()));
    }

    /// To look again whether another instance has ended.
    pub(super) fn in_turn(&mut self) {
        self.by(Instant::now() + LOOK);
    }

    /// After another writer was faster: soon, with a new list. False if that goes on
    /// for too long.
    pub(super) fn contested(&mut self) -> bool {
        self.contests += 1;
        if self.contests > CONTESTS {
            return false;
        }
        self.list = true;
        self.soon();
        true
    }

    /// After an error: later each time, until [`Due::reset`].
    pub(super) fn again(&mut self) {
        self.list = true;
        // The iterator has no end.
        let delay = self.delays.next().unwrap_or(MAX_DELAY);
        self.by(Instant::now() + delay);
    }

    pub(super) fn reset(&mut self) {
        self.delays = delays();
        self.contests = 0;
    }

    /// Ends when it is time, and then forgets when that was. Cancel-safe.
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

const MAX_DELAY: Duration = Duration::from_secs(30);

/// Pauses after errors: half a second, doubling to half a minute, with jitter.
fn delays() -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(500))
        .with_max_delay(MAX_DELAY)
        .with_jitter()
        .without_max_times()
        .build()
}
