//! Which UIDs have to be reconciled, and when.

use std::collections::{BTreeSet, HashMap, VecDeque};

use compute_domain_core::Key;
use tokio::time::{Instant, sleep_until};

/// A queue of keys, each at most once: one that is added again keeps its place or gets an earlier
/// one, and one that is added while it is being worked on comes back afterwards. So a key is never
/// worked on twice at the same time, and no change is missed.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    ready: VecDeque<Key>,
    /// What waits for its time, the earliest first.
    delayed: BTreeSet<(Instant, Key)>,
    places: HashMap<Key, Place>,
}

/// Where a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Ready,
    Delayed(Instant),
    Running,
    /// It is being worked on, and was added since.
    RunningAgain,
}

impl Queue {
    /// Adds a key that is to be worked on now.
    pub(crate) fn add(&mut self, key: &Key) {
        let place = match self.places.get(key) {
            Some(Place::Ready | Place::RunningAgain) => return,
            Some(Place::Running) => Place::RunningAgain,
            Some(Place::Delayed(at)) => {
                self.delayed.remove(&(*at, key.clone()));
                self.ready.push_back(key.clone());
                Place::Ready
            }
            None => {
                self.ready.push_back(key.clone());
                Place::Ready
            }
        };
        self.places.insert(key.clone(), place);
    }

    /// The next key to work on, if there is one. It is being worked on until [`Queue::done`].
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Key> {
        while let Some((at, key)) = self.delayed.first()
            && *at <= now
        {
            let key = key.clone();
            self.add(&key);
        }
        let key = self.ready.pop_front()?;
        self.places.insert(key.clone(), Place::Running);
        Some(key)
    }

    /// The work on a key has ended. It comes back at `again`, or now if it was added meanwhile.
    pub(crate) fn done(&mut self, key: &Key, again: Option<Instant>) {
        let added = self.places.remove(key) == Some(Place::RunningAgain);
        if added {
            self.add(key);
        } else if let Some(at) = again {
            self.delayed.insert((at, key.clone()));
            self.places.insert(key.clone(), Place::Delayed(at));
        }
    }

    /// Returns when a key that waits is due. For ever, if there is none.
    pub(crate) async fn wait(&self) {
        match self.delayed.first() {
            Some((at, _)) => sleep_until(*at).await,
            None => std::future::pending().await,
        }
    }

    /// How many keys are to be worked on now. Those that wait for their time do not count.
    pub(crate) fn depth(&self) -> usize {
        self.ready.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(name: &str) -> Key {
        name.into()
    }

    fn after(now: Instant, seconds: u64) -> Instant {
        now + Duration::from_secs(seconds)
    }

    #[tokio::test]
    async fn keys_come_in_the_order_in_which_they_were_added_and_each_once() {
        let now = Instant::now();
        let mut queue = Queue::default();
        for name in ["a", "b", "a"] {
            queue.add(&key(name));
        }
        assert_eq!(queue.depth(), 2);
        assert_eq!(queue.pop(now), Some(key("a")));
        assert_eq!(queue.pop(now), Some(key("b")));
        assert_eq!(queue.pop(now), None);
    }

    #[tokio::test]
    async fn a_key_that_waits_comes_at_its_time_or_when_it_is_added() {
        let now = Instant::now();
        let mut queue = Queue::default();
        for name in ["late", "changed"] {
            queue.add(&key(name));
            assert_eq!(queue.pop(now), Some(key(name)));
            queue.done(&key(name), Some(after(now, 60)));
        }
        assert_eq!(queue.pop(now), None);
        queue.add(&key("changed"));
        assert_eq!(queue.pop(now), Some(key("changed")));
        queue.done(&key("changed"), None);
        assert_eq!(queue.pop(after(now, 59)), None);
        assert_eq!(queue.pop(after(now, 60)), Some(key("late")));
        queue.done(&key("late"), None);
        assert_eq!(queue.pop(after(now, 600)), None, "nothing is left behind");
    }

    #[tokio::test]
    async fn a_key_that_is_added_while_it_is_worked_on_comes_back_afterwards() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.add(&key("a"));
        assert_eq!(queue.pop(now), Some(key("a")));
        queue.add(&key("a"));
        assert_eq!(queue.pop(now), None, "not twice at the same time");
        queue.done(&key("a"), Some(after(now, 60)));
        assert_eq!(queue.pop(now), Some(key("a")));
        queue.done(&key("a"), None);
        assert_eq!(queue.pop(after(now, 60)), None);
    }
}
