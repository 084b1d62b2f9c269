//! Converts between the leader's own clock and times in objects, which the next leader reads.

use std::time::{Duration, Instant};

use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// One moment on both clocks. Later changes of the wall clock have no effect.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    instant: Instant,
    time: Timestamp,
}

// === impl Clock ===

impl Clock {
    /// Both clocks now. Times in objects have whole seconds.
    pub fn new(instant: Instant, time: Timestamp) -> Self {
        let time = Timestamp::from_second(time.as_second()).unwrap_or(time);
        Self { instant, time }
    }

    /// This moment in RFC 3339, rounded down to a second.
    pub(super) fn text(&self, at: Instant) -> String {
        let since = |a: Instant, b: Instant| {
            SignedDuration::try_from(a.saturating_duration_since(b)).unwrap_or_default()
        };
        let offset = since(at, self.instant) - since(self.instant, at);
        let time = self.time.checked_add(offset).unwrap_or(self.time);
        let time = Timestamp::from_second(time.as_second()).unwrap_or(time);
        time.to_string()
    }

    /// The moment of a time in an object; `None` if the text is not a time. A future time counts as now, because
    /// clocks differ.
    pub(super) fn instant(&self, text: &str) -> Option<Instant> {
        let time: Timestamp = text.parse().ok()?;
        let ago = self.time.duration_since(time);
        let ago = Duration::try_from(ago).unwrap_or_default();
        self.instant.checked_sub(ago)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_another_leader_has_written_is_written_again_as_it_is() {
        let time: Timestamp = "2026-01-02T03:04:05.6Z".parse().unwrap();
        let (now, minute) = (Instant::now(), Duration::from_secs(60));
        let clock = Clock::new(now, time);
        assert_eq!(clock.text(now + minute), "2026-01-02T03:05:05Z");
        let before = "2026-01-02T03:02:07Z";
        assert_eq!(clock.text(clock.instant(before).unwrap()), before);
    }

    #[test]
    fn a_future_time_counts_as_now_and_other_text_is_no_time() {
        let clock = Clock::new(Instant::now(), "2026-01-02T03:04:05Z".parse().unwrap());
        assert_eq!(clock.instant("2026-01-02T04:00:00Z"), Some(clock.instant));
        assert_eq!(clock.instant("yesterday"), None);
    }
}
