//! Which events were reported in the last ten minutes.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use super::event_type::EventType;

/// An event is not repeated within this time. The API server keeps events for an hour.
pub(super) const REPEAT_AFTER: Duration = Duration::from_secs(10 * 60);

/// How many events are remembered: three for each of ten thousand objects, in about 3 MB. With
/// more in ten minutes, the oldest are forgotten, and may be repeated early.
const MAX_REMEMBERED: usize = 32_768;

/// What makes two events the same, as a hash: type, object, reason and note. The note counts: it has
/// the cause, which may change. With [`MAX_REMEMBERED`] events, two different ones have the same key with
/// a probability of 1 in 30 billion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key(u64);

/// The events that are not to be repeated yet. Each call takes constant time, on average.
#[derive(Debug, Default)]
pub(super) struct Recent {
    hasher: RandomState,
    reported: HashMap<Key, Instant>,
    /// Every report with its time, oldest first, even if it was forgotten or made again since.
    order: VecDeque<(Instant, Key)>,
}

impl Recent {
    pub(super) fn key(
        &self,
        type_: EventType,
        object: &ObjectReference,
        reason: &str,
        note: &str,
    ) -> Key {
        let object = (&object.namespace, &object.name, &object.uid);
        Key(self.hasher.hash_one((type_, object, reason, note)))
    }

    /// Whether the event was reported less than ten minutes ago.
    pub(super) fn contains(&mut self, key: Key, now: Instant) -> bool {
        self.expire(now);
        self.reported.contains_key(&key)
    }

    /// An event that is reported now, and was not contained.
    pub(super) fn remember(&mut self, key: Key, now: Instant) {
        if self.order.len() >= MAX_REMEMBERED {
            self.pop_oldest();
        }
        self.reported.insert(key, now);
        self.order.push_back((now, key));
    }

    /// The event may be repeated at once.
    pub(super) fn forget(&mut self, key: Key) {
        self.reported.remove(&key);
    }

    fn expire(&mut self, now: Instant) {
        while let Some((at, _)) = self.order.front()
            && now.duration_since(*at) >= REPEAT_AFTER
        {
            self.pop_oldest();
        }
    }

    fn pop_oldest(&mut self) {
        if let Some((at, key)) = self.order.pop_front()
            // Otherwise it was forgotten, and perhaps reported again.
            && self.reported.get(&key) == Some(&at)
        {
            self.reported.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(recent: &Recent, note: &str) -> Key {
        recent.key(
            EventType::Normal,
            &ObjectReference::default(),
            "Reason",
            note,
        )
    }

    #[test]
    fn an_event_is_new_again_after_ten_minutes_and_not_before() {
        let (mut recent, start) = (Recent::default(), Instant::now());
        let key = key(&recent, "a");
        recent.remember(key, start);
        assert!(recent.contains(key, start + REPEAT_AFTER - Duration::from_millis(1)));
        assert!(!recent.contains(key, start + REPEAT_AFTER));
    }

    #[test]
    fn an_event_that_was_forgotten_and_reported_again_lives_for_ten_minutes_from_then() {
        let (mut recent, start) = (Recent::default(), Instant::now());
        let key = key(&recent, "a");
        recent.remember(key, start);
        recent.forget(key);
        assert!(!recent.contains(key, start));
        let again = start + REPEAT_AFTER / 2;
        recent.remember(key, again);
        assert!(recent.contains(key, start + REPEAT_AFTER));
        assert!(!recent.contains(key, again + REPEAT_AFTER));
    }

    #[test]
    fn memory_has_a_bound_and_the_oldest_is_forgotten_first() {
        let (mut recent, now) = (Recent::default(), Instant::now());
        let keys: Vec<_> = (0..3 * MAX_REMEMBERED)
            .map(|number| key(&recent, &number.to_string()))
            .collect();
        for (number, key) in keys.iter().enumerate() {
            recent.remember(*key, now);
            if number % 2 == 0 {
                recent.forget(*key);
            }
        }
        assert_eq!(recent.order.len(), MAX_REMEMBERED);
        assert_eq!(recent.reported.len(), MAX_REMEMBERED / 2);
        assert!(recent.contains(keys[keys.len() - 1], now));
        assert!(!recent.contains(keys[1], now));
    }
}
