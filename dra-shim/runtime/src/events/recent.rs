//! The events that were reported in the last ten minutes.

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

/// A hash of type, object, reason and note: events with equal keys are the same. The note is included because it
/// has the cause, which may change. With [`MAX_REMEMBERED`] events, the probability of a collision is 1 in 30
/// billion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key(u64);

/// A hash of object and action: the subject of an event. The newest event of a topic shows the current state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Topic(u64);

/// The events that must not be repeated yet. Each call takes constant time, on average.
#[derive(Debug, Default)]
pub(super) struct Recent {
    hasher: RandomState,
    reported: HashMap<Key, Instant>,
    /// The newest event of each topic.
    newest: HashMap<Topic, Key>,
    /// Every report with its time, oldest first, even if it was since forgotten or repeated.
    order: VecDeque<(Instant, Key, Topic)>,
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

    pub(super) fn topic(&self, object: &ObjectReference, action: &str) -> Topic {
        let object = (&object.namespace, &object.name, &object.uid);
        Topic(self.hasher.hash_one((object, action)))
    }

    /// Whether the event was reported less than ten minutes ago and is still the newest of its topic. If a newer one
    /// was reported since, the earlier state is back, and the newest event would contradict it.
    pub(super) fn contains(&mut self, key: Key, topic: Topic, now: Instant) -> bool {
        self.expire(now);
        self.reported.contains_key(&key) && self.newest.get(&topic) == Some(&key)
    }

    /// Adds an event that is reported now and was not contained.
    pub(super) fn remember(&mut self, key: Key, topic: Topic, now: Instant) {
        if self.order.len() >= MAX_REMEMBERED {
            self.pop_oldest();
        }
        self.reported.insert(key, now);
        self.newest.insert(topic, key);
        self.order.push_back((now, key, topic));
    }

    /// Allows an immediate repetition of the event.
    pub(super) fn forget(&mut self, key: Key) {
        self.reported.remove(&key);
    }

    fn expire(&mut self, now: Instant) {
        while let Some((at, ..)) = self.order.front()
            && now.duration_since(*at) >= REPEAT_AFTER
        {
            self.pop_oldest();
        }
    }

    fn pop_oldest(&mut self) {
        let Some((at, key, topic)) = self.order.pop_front() else {
            return;
        };
        // Otherwise it was since forgotten or reported again.
        if self.reported.get(&key) == Some(&at) {
            self.reported.remove(&key);
        }
        if self.newest.get(&topic) == Some(&key) && !self.reported.contains_key(&key) {
            self.newest.remove(&topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOPIC: Topic = Topic(0);

    fn key(recent: &Recent, note: &str) -> Key {
        recent.key(
            EventType::Normal,
            &ObjectReference::default(),
            "Reason",
            note,
        )
    }

    #[test]
    fn an_event_is_repeated_after_ten_minutes_and_not_before() {
        let (mut recent, start) = (Recent::default(), Instant::now());
        let key = key(&recent, "a");
        recent.remember(key, TOPIC, start);
        assert!(recent.contains(key, TOPIC, start + REPEAT_AFTER - Duration::from_millis(1)));
        assert!(!recent.contains(key, TOPIC, start + REPEAT_AFTER));
    }

    #[test]
    fn an_event_that_was_forgotten_and_reported_again_is_kept_for_another_ten_minutes() {
        let (mut recent, start) = (Recent::default(), Instant::now());
        let key = key(&recent, "a");
        recent.remember(key, TOPIC, start);
        recent.forget(key);
        assert!(!recent.contains(key, TOPIC, start));
        let again = start + REPEAT_AFTER / 2;
        recent.remember(key, TOPIC, again);
        assert!(recent.contains(key, TOPIC, start + REPEAT_AFTER));
        assert!(!recent.contains(key, TOPIC, again + REPEAT_AFTER));
    }

    #[test]
    fn a_state_that_is_back_is_reported_again_and_an_unchanged_one_is_not() {
        let (mut recent, now) = (Recent::default(), Instant::now());
        let (good, bad) = (key(&recent, "good"), key(&recent, "bad"));
        recent.remember(good, TOPIC, now);
        recent.remember(bad, TOPIC, now);
        assert!(recent.contains(bad, TOPIC, now));
        assert!(!recent.contains(good, TOPIC, now));
        recent.remember(good, TOPIC, now);
        assert!(recent.contains(good, TOPIC, now));
        // Events of another topic have no effect.
        recent.remember(bad, Topic(1), now);
        assert!(recent.contains(good, TOPIC, now));
        assert!(!recent.contains(good, TOPIC, now + REPEAT_AFTER));
        assert!(recent.newest.is_empty());
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_event_is_forgotten_first() {
        let (mut recent, now) = (Recent::default(), Instant::now());
        let keys: Vec<_> = (0..3 * MAX_REMEMBERED)
            .map(|number| key(&recent, &number.to_string()))
            .collect();
        for (number, key) in keys.iter().enumerate() {
            recent.remember(*key, Topic(number as u64), now);
            if number % 2 == 0 {
                recent.forget(*key);
            }
        }
        assert_eq!(recent.order.len(), MAX_REMEMBERED);
        assert_eq!(recent.reported.len(), MAX_REMEMBERED / 2);
        assert!(recent.newest.len() <= MAX_REMEMBERED);
        assert!(recent.contains(keys[keys.len() - 1], Topic(keys.len() as u64 - 1), now));
        assert!(!recent.contains(keys[1], Topic(1), now));
    }
}
