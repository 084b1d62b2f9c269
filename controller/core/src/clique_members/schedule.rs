//! When cliques are evaluated, and pauses that grow.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// A clique is written when nothing about it has changed for this long.
const QUIET: Duration = Duration::from_millis(100);

/// It is written after this long although it still changes.
const LONGEST_BURST: Duration = Duration::from_millis(250);

/// When each clique, or what else `K` names, is evaluated next.
#[derive(Debug, Default)]
pub(super) struct Schedule<K> {
    due: BTreeSet<(Instant, K)>,
    /// The cliques that are changing.
    bursts: BTreeMap<K, Burst>,
}

/// Changes of one clique.
#[derive(Clone, Copy, Debug)]
struct Burst {
    ends: Instant,
    /// It ends then at the latest.
    latest: Instant,
}

// === impl Schedule ===

impl<K: Clone + Ord> Schedule<K> {
    /// It has changed, and is evaluated once the changes have ended.
    pub(super) fn touch(&mut self, clique: K, now: Instant) {
        let burst = self.bursts.entry(clique.clone()).or_insert(Burst {
            ends: now,
            latest: now + LONGEST_BURST,
        });
        self.due.remove(&(burst.ends, clique.clone()));
        burst.ends = (now + QUIET).min(burst.latest);
        self.due.insert((burst.ends, clique));
    }

    /// It is evaluated at this time, too.
    pub(super) fn add(&mut self, at: Instant, clique: K) {
        self.due.insert((at, clique));
    }

    /// When [`pop`](Self::pop) may have something.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// What is to be evaluated now.
    pub(super) fn pop(&mut self, now: Instant) -> Option<K> {
        while self.next()? <= now {
            let (_, clique) = self.due.pop_first()?;
            let burst = self.bursts.get(&clique);
            if burst.is_none_or(|burst| burst.ends <= now) {
                self.bursts.remove(&clique);
                return Some(clique);
            }
        }
        None
    }
}

/// A pause that is twice as long each time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    /// How often there was one.
    pub(super) times: u32,
    pub(super) until: Option<Instant>,
}

// === impl Backoff ===

impl Backoff {
    /// The next pause begins.
    pub(super) fn grow(&mut self, first: Duration, longest: Duration, now: Instant) {
        let pause = first * 2_u32.pow(self.times.min(10));
        self.until = Some(now + pause.min(longest));
        self.times = self.times.saturating_add(1);
    }

    /// When it ends, if that is later than now.
    pub(super) fn pauses_until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|at| *at > now)
    }
}
