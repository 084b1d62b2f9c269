//! The back-off before the next connection.

use std::time::Duration;

/// The first wait: about as long as a restart of the runtime takes.
const FIRST: Duration = Duration::from_millis(50);
/// Limit while nothing listens on the socket: a retry costs one system call.
const NO_LISTENER: Duration = Duration::from_secs(1);
/// Limit while registrations fail: a retry costs the runtime a lock and log lines.
const FAILING: Duration = Duration::from_secs(5);
/// A registration of at least this duration resets the back-off.
const GOOD: Duration = Duration::from_secs(1);

/// Doubles the wait, up to a limit that depends on the failure.
#[derive(Debug)]
pub(crate) struct Backoff(Duration);

// === impl Backoff ===

impl Backoff {
    pub(crate) const fn new() -> Self {
        Self(FIRST)
    }

    /// The wait after a failed connect.
    pub(crate) fn no_listener(&mut self) -> Duration {
        self.up_to(NO_LISTENER)
    }

    /// The wait after a connection with a registration of this duration; zero: without one.
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
    fn a_missing_runtime_is_tried_once_a_second() {
        let mut backoff = Backoff::new();
        let waits: Vec<_> = (0..8).map(|_| backoff.no_listener().as_millis()).collect();
        assert_eq!(waits, [50, 100, 200, 400, 800, 1000, 1000, 1000]);
    }

    #[test]
    fn only_a_long_registration_resets_the_back_off() {
        let mut backoff = Backoff::new();
        let waits: Vec<_> = (0..9)
            .map(|_| backoff.ended(Duration::ZERO).as_millis())
            .collect();
        assert_eq!(waits, [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(backoff.ended(GOOD).as_millis(), 50);
    }
}
