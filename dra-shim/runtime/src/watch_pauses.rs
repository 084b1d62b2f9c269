//! The back-off between attempts to watch.

use std::fmt;
use std::time::Duration;

use backon::ExponentialBuilder;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher;
use tokio::time::Instant;

/// After this time without a pause, the back-off starts again with a short one.
const STEADY: Duration = Duration::from_secs(60);

/// The back-off between attempts to watch, for [`kube::runtime::WatchStreamExt::backoff`]. Pauses start at 0.5 s
/// and double up to a maximum; jitter adds up to as much again. They grow while attempts fail, and are short again
/// after a minute without a pause. kube's own back-off would reset at each attempt, since its watcher reports the
/// beginning of every list.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// let mut pauses = daemon_runtime::WatchPauses::up_to(Duration::from_secs(2));
/// let first = pauses.next().expect("they never end");
/// assert!((0.5..=1.0).contains(&first.as_secs_f64()));
/// ```
pub struct WatchPauses {
    growing: watcher::ExponentialBackoff,
    last: Option<Instant>,
}

// === impl WatchPauses ===

impl WatchPauses {
    /// Creates a back-off with this maximum, to which jitter adds up to as much again. A cluster's only client may
    /// retry often; if ten thousand clients have lost their API server, each should wait longer.
    #[must_use]
    pub fn up_to(maximum: Duration) -> Self {
        let growing = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(500))
            .with_max_delay(maximum)
            .with_jitter()
            .without_max_times();
        Self {
            growing: growing.into(),
            last: None,
        }
    }
}

impl fmt::Debug for WatchPauses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchPauses")
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}

/// Never ends.
impl Iterator for WatchPauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let last = self.last.replace(Instant::now());
        if last.is_some_and(|last| last.elapsed() > STEADY) {
            self.growing.reset();
        }
        self.growing.next()
    }
}

impl Backoff for WatchPauses {
    /// Does nothing: kube calls it at the beginning of every list.
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the next pause without its jitter is `least` seconds.
    fn at_least(pauses: &mut WatchPauses, least: f64) -> bool {
        pauses
            .next()
            .is_some_and(|pause| (least..=least * 2.0).contains(&pause.as_secs_f64()))
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_to_the_maximum_although_kube_resets_them_at_each_list() {
        let mut pauses = WatchPauses::up_to(Duration::from_secs(2));
        for least in [0.5, 1.0, 2.0, 2.0, 2.0] {
            assert!(at_least(&mut pauses, least), "not at least {least} s");
            pauses.reset();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_are_short_again_after_a_minute_without_one() {
        let mut pauses = WatchPauses::up_to(Duration::from_secs(15));
        for least in [0.5, 1.0, 2.0, 4.0] {
            assert!(at_least(&mut pauses, least), "not at least {least} s");
        }
        tokio::time::advance(STEADY).await;
        assert!(
            at_least(&mut pauses, 8.0),
            "a minute is not more than a minute"
        );
        tokio::time::advance(STEADY + Duration::from_millis(1)).await;
        assert!(at_least(&mut pauses, 0.5));
    }
}
