use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Exponential backoff, separate for each object, so that one that keeps failing does not slow
/// others down.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    /// Failures in a row, by namespace and name.
    failures: Mutex<HashMap<(String, String), u32>>,
}

/// The delay after the first failure; each further one doubles it.
const FIRST_DELAY: Duration = Duration::from_millis(250);

/// The longest delay: reached with the tenth failure, after about two minutes.
const MAX_DELAY: Duration = Duration::from_secs(120);

impl Backoff {
    /// Counts a failure. Returns how many there were in a row, and the delay before the next
    /// attempt.
    pub(crate) fn record_failure(&self, namespace: &str, name: &str) -> (u32, Duration) {
        let mut failures = self.lock();
        let count = failures
            .entry((namespace.to_owned(), name.to_owned()))
            .or_default();
        *count = count.saturating_add(1);
        let factor = 2_u32.saturating_pow(*count - 1);
        (*count, FIRST_DELAY.saturating_mul(factor).min(MAX_DELAY))
    }

    /// Forgets the failures of an object, because it succeeded or no longer exists.
    pub(crate) fn reset(&self, namespace: &str, name: &str) {
        self.lock().remove(&(namespace.to_owned(), name.to_owned()));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, String), u32>> {
        // A panic elsewhere cannot leave the map half-changed.
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_start_again_after_a_success() {
        let backoff = Backoff::default();
        let millis: Vec<_> = (0..12)
            .map(|_| backoff.record_failure("ns", "a").1.as_millis())
            .collect();
        assert_eq!(
            millis,
            [
                250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 120_000, 120_000,
                120_000
            ]
        );
        assert_eq!(backoff.record_failure("ns", "b"), (1, FIRST_DELAY));
        backoff.reset("ns", "a");
        assert_eq!(backoff.record_failure("ns", "a"), (1, FIRST_DELAY));
    }
}
