//! Back-off between restarts of `nvidia-imex`.

use std::time::Duration;

/// Pause after the first exit. Short, because it may have been killed by hand.
const SHORTEST: Duration = Duration::from_millis(250);

/// Maximum of the doubling pause: two starts a minute cost almost nothing.
const LONGEST: Duration = Duration::from_secs(30);

/// A process that ran this long did not fail to start: the next pause is short again.
const STABLE_AFTER: Duration = Duration::from_secs(60);

/// Pause while another `nvidia-imex` holds the driver's session. It may exit at any time, and each
/// attempt fails quickly.
pub(crate) const IN_USE: Duration = Duration::from_secs(5);

/// Pauses that grow with consecutive failures.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The pause after a process that ran for this long.
    pub(crate) fn after(&mut self, ran: Duration) -> Duration {
        if ran >= STABLE_AFTER {
            self.failures = 0;
        }
        let pause = SHORTEST.saturating_mul(1 << self.failures.min(10));
        self.failures += 1;
        pause.min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: DAEMON-5
    #[test]
    fn pauses_double_up_to_half_a_minute_and_are_short_again_after_a_steady_minute() {
        let mut backoff = Backoff::default();
        let pauses: Vec<_> = (0..9)
            .map(|_| backoff.after(Duration::from_secs(1)).as_millis())
            .collect();
        assert_eq!(
            pauses,
            [250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]
        );
        assert_eq!(backoff.after(STABLE_AFTER), SHORTEST);
        assert_eq!(backoff.after(STABLE_AFTER), SHORTEST);
    }
}
