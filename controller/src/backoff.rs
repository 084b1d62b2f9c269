use std::collections::HashMap;
use std::time::Duration;

use compute_domain_core::Key;
use tokio::time::Instant;

/// Exponential back-off per key, so that a key that keeps failing does not slow others down.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: HashMap<Key, Failures>,
}

/// Consecutive failures of one key.
#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    not_before: Instant,
    /// Whether its domain was being deleted.
    deleting: bool,
}

/// The delay after the first failure; each further one doubles it.
const FIRST_DELAY: Duration = Duration::from_millis(250);

/// The longest delay: reached with the ninth failure, after about a minute.
const MAX_DELAY: Duration = Duration::from_secs(60);

impl Backoff {
    /// Records a failure. Returns the number of consecutive failures, and the delay before the next attempt.
    pub(crate) fn record_failure(&mut self, key: &Key, deleting: bool) -> (u32, Duration) {
        let count = self.failures(key).saturating_add(1);
        let delay = jittered(delay_after(count));
        let failures = Failures {
            count,
            not_before: Instant::now() + delay,
            deleting,
        };
        self.failures.insert(key.clone(), failures);
        (count, delay)
    }

    /// The end of the key's delay; `None` if it need not wait. A change of the object does not shorten the delay,
    /// except its deletion, because the user waits for that.
    pub(crate) fn not_before(&self, key: &Key, deleting: bool) -> Option<Instant> {
        let failures = self.failures.get(key)?;
        let waits = failures.not_before > Instant::now() && failures.deleting == deleting;
        waits.then_some(failures.not_before)
    }

    /// Number of consecutive failures of the key.
    pub(crate) fn failures(&self, key: &Key) -> u32 {
        self.failures.get(key).map_or(0, |failures| failures.count)
    }

    /// Clears the failures of a key, because it succeeded or no longer exists.
    pub(crate) fn reset(&mut self, key: &Key) {
        self.failures.remove(key);
    }
}

/// A random delay around this one, so that keys that failed together do not retry together.
pub(crate) fn jittered(delay: Duration) -> Duration {
    delay.mul_f64(0.75 + 0.5 * fastrand::f64())
}

/// The delay after this many consecutive failures or refusals.
pub(crate) fn delay_after(count: u32) -> Duration {
    let factor = 2_u32.saturating_pow(count.saturating_sub(1));
    FIRST_DELAY.saturating_mul(factor).min(MAX_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest() {
        let millis: Vec<_> = (1..12)
            .map(|count| delay_after(count).as_millis())
            .collect();
        assert_eq!(
            millis,
            [
                250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000
            ]
        );
        assert_eq!(delay_after(u32::MAX), MAX_DELAY);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_backs_off_for_its_own_failures_until_it_is_deleted() {
        let mut backoff = Backoff::default();
        let (a, b): (Key, Key) = ("a".into(), "b".into());
        let (count, delay) = backoff.record_failure(&a, false);
        assert_eq!(count, 1);
        assert_eq!(backoff.not_before(&a, false), Some(Instant::now() + delay));
        assert_eq!(backoff.not_before(&a, true), None);
        assert_eq!(backoff.not_before(&b, false), None);
        assert_eq!(backoff.record_failure(&a, false).0, 2);
        backoff.reset(&a);
        assert_eq!(backoff.not_before(&a, false), None);
        assert_eq!(backoff.record_failure(&a, false).0, 1);
    }
}
