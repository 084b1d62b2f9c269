//! Monotonic time for fences, which the checkpoint stores in wall-clock time.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use dra_checkpoint::{ClaimRecord, State};
use jiff::{SignedDuration, Timestamp};

/// A point in time by two clocks: the wall clock, which other processes share but which may be
/// set; and the monotonic clock, which is only meaningful in this process.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// Written into the checkpoint.
    pub wall: Timestamp,
    /// Used to measure durations.
    pub steady: Instant,
}

/// Measures the fences of aborted records. A fence's initial age is by the wall clock, when this
/// process first sees the record. From then on, it grows with the steady clock. If the wall clock
/// jumps later, the fence still holds for 90 s at most, and does not end early.
#[derive(Debug, Default)]
pub(crate) struct FenceClock(Mutex<HashMap<String, Seen>>);

/// First observation of an aborted record.
#[derive(Debug)]
struct Seen {
    aborted_at: Timestamp,
    age: SignedDuration,
    since: Instant,
}

// === impl Moment ===

impl Moment {
    /// The current moment.
    pub fn now() -> Self {
        Self {
            wall: Timestamp::now(),
            steady: Instant::now(),
        }
    }
}

// === impl FenceClock ===

impl FenceClock {
    /// The time to compare with the record's fence at this moment.
    pub(crate) fn now<G>(&self, uid: &str, record: &ClaimRecord<G>, moment: Moment) -> Timestamp {
        let State::Aborted {
            at: Some(aborted_at),
        } = record.state
        else {
            return moment.wall;
        };
        let first = || Seen {
            aborted_at,
            // If it was aborted in the future, the clock was set back since.
            age: moment
                .wall
                .duration_since(aborted_at)
                .max(SignedDuration::ZERO),
            since: moment.steady,
        };
        let mut seen = self.lock();
        let seen = seen.entry(uid.to_owned()).or_insert_with(first);
        if seen.aborted_at != aborted_at {
            *seen = first();
        }
        let waited = moment.steady.saturating_duration_since(seen.since);
        let age = SignedDuration::try_from(waited).map(|waited| seen.age.saturating_add(waited));
        let now = age.ok().and_then(|age| aborted_at.checked_add(age).ok());
        now.unwrap_or(moment.wall)
    }

    /// Removes the claims without an aborted record.
    pub(crate) fn retain(&self, is_aborted: impl Fn(&str) -> bool) {
        self.lock().retain(|uid, _| is_aborted(uid));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Seen>> {
        // No code that can panic leaves the map half-changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
