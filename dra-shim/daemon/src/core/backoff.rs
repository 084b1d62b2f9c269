//! How long to wait before `nvidia-imex` is started again.

use std::time::Duration;

/// After the first exit. It may have been killed by hand: it is back at once.
const SHORTEST: Duration = Duration::from_millis(250);

/// What it grows to, doubling: two starts a minute cost nothing.
const LONGEST: Duration = Duration::from_secs(30);

/// Whoever ran for so long did not fail to start: the next pause is short again.
const STEADY: Duration = Duration::from_secs(60);

/// While another `nvidia-imex` has the driver's session. It may be gone at any time, and each attempt
/// ends within a moment.
pub(crate) const IN_USE: Duration = Duration::from_secs(5);

/// Pauses that grow while one start after the other fails.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The pause after it ran for so long.
    pub(crate) fn after(&mut self, ran: Duration) -> Duration {
        if ran >= STEADY {
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
        assert_eq!(backoff.after(STEADY), SHORTEST);
        assert_eq!(backoff.after(STEADY), SHORTEST);
    }
}
