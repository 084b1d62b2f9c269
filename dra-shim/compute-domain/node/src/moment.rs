//! Time by a clock that does not jump, for fences that the file has in wall time.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use dra_checkpoint::{ClaimRecord, State};
use jiff::{SignedDuration, Timestamp};

use crate::device_group::DeviceGroup;

/// One moment by two clocks: the wall's, which others read too and which may be set,
/// and one that only advances, whose readings mean something in this process alone.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// What is written into the checkpoint.
    pub wall: Timestamp,
    /// What durations are measured by.
    pub steady: Instant,
}

/// Judges the fences of aborted records. Their age is the wall clock's when this
/// process sees them first, and grows with the steady clock from then on: whatever the
/// wall clock does, a fence holds for 90 s at most from then, and is not lifted early.
#[derive(Debug, Default)]
pub(crate) struct FenceClock(Mutex<HashMap<String, Seen>>);

/// When an aborted record was seen first.
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
    /// The time by which the record's fence is to be judged at this moment.
    pub(crate) fn now(
        &self,
        uid: &str,
        record: &ClaimRecord<DeviceGroup>,
        moment: Moment,
    ) -> Timestamp {
        let State::Aborted {
            at: Some(aborted_at),
        } = record.state
        else {
            return moment.wall;
        };
        let first = || Seen {
            aborted_at,
            // Aborted in the future means that the clock was set back since.
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

    /// Forgets the claims whose record is not aborted any more.
    pub(crate) fn retain(&self, is_aborted: impl Fn(&str) -> bool) {
        self.lock().retain(|uid, _| is_aborted(uid));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Seen>> {
        // No code that can panic leaves the map half-changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
