use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Delays between attempts on objects that fail, each object for itself: one that cannot succeed
/// does not slow the others down.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    /// Failures in a row, by namespace and name.
    failures: Mutex<HashMap<(String, String), u32>>,
}

/// After the first failure; it doubles with each further one.
const FIRST: Duration = Duration::from_millis(250);

/// The longest delay: reached with the tenth failure, after about four minutes.
const LONGEST: Duration = Duration::from_secs(120);

impl Backoff {
    /// Counts a failure: how many there were in a row, and the delay before the next attempt.
    pub(crate) fn failed(&self, namespace: &str, name: &str) -> (u32, Duration) {
        let mut failures = self.lock();
        let count = failures
            .entry((namespace.to_owned(), name.to_owned()))
            .or_default();
        *count = count.saturating_add(1);
        let factor = 2_u32.saturating_pow(*count - 1);
        (*count, FIRST.saturating_mul(factor).min(LONGEST))
    }

    /// Forgets the failures of an object that succeeded or is gone.
    pub(crate) fn succeeded(&self, namespace: &str, name: &str) {
        self.lock().remove(&(namespace.to_owned(), name.to_owned()));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, String), u32>> {
        // Every statement leaves the map valid.
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_start_anew_after_success() {
        let backoff = Backoff::default();
        let millis: Vec<_> = (0..12)
            .map(|_| backoff.failed("ns", "a").1.as_millis())
            .collect();
        assert_eq!(
            millis,
            [
                250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 120_000, 120_000,
                120_000
            ]
        );
        assert_eq!(backoff.failed("ns", "b"), (1, FIRST));
        backoff.succeeded("ns", "a");
        assert_eq!(backoff.failed("ns", "a"), (1, FIRST));
    }
}
