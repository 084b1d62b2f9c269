//! How long to wait before the next connection.

use std::time::Duration;

/// The first wait: a runtime that restarts is away for about that long.
const FIRST: Duration = Duration::from_millis(50);
/// The longest while nobody listens, where a try costs one system call.
const NO_LISTENER: Duration = Duration::from_secs(1);
/// The longest while registrations fail: a try costs the runtime a lock and log lines.
const FAILING: Duration = Duration::from_secs(5);
/// A registration that lasted this long was a good one.
const GOOD: Duration = Duration::from_secs(1);

/// Doubles, up to a limit that depends on what failed.
#[derive(Debug)]
pub(crate) struct Backoff(Duration);

// === impl Backoff ===

impl Backoff {
    pub(crate) const fn new() -> Self {
        Self(FIRST)
    }

    /// Nobody listens.
    pub(crate) fn no_listener(&mut self) -> Duration {
        self.up_to(NO_LISTENER)
    }

    /// A connection ended whose registration lasted this long; zero if there was none.
    pub(crate) fn ended(&mut self, registered: Duration) -> Duration {
        if registered >= GOOD {
            self.0 = FIRST;
        }
        self.up_to(FAILING)
    }

    fn up_to(&mut self, limit: Duration) -> Duration {
        let wait = self.0.min(limit);
        self.0 = (self.0 * 2).min(FAILING);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_that_is_away_is_asked_once_a_second() {
        let mut backoff = Backoff::new();
        let waits: Vec<_> = (0..8).map(|_| backoff.no_listener().as_millis()).collect();
        assert_eq!(waits, [50, 100, 200, 400, 800, 1000, 1000, 1000]);
    }

    #[test]
    fn only_a_registration_that_lasted_starts_over() {
        let mut backoff = Backoff::new();
        let waits: Vec<_> = (0..9)
            .map(|_| backoff.ended(Duration::ZERO).as_millis())
            .collect();
        assert_eq!(waits, [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(backoff.ended(GOOD).as_millis(), 50);
    }
}
