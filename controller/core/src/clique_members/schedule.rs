//! The schedule of cliques to evaluate, and exponential back-off.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// A clique is evaluated when it has not changed for this long.
const QUIET: Duration = Duration::from_millis(100);

/// A clique that keeps changing is evaluated after this long.
const LONGEST_BURST: Duration = Duration::from_millis(250);

/// The time of the next evaluation of each clique, or whatever `K` is.
#[derive(Debug, Default)]
pub(super) struct Schedule<K> {
    due: BTreeSet<(Instant, K)>,
    /// The cliques that are changing.
    bursts: BTreeMap<K, Burst>,
}

/// Changes of one clique that follow each other closely.
#[derive(Clone, Copy, Debug)]
struct Burst {
    ends: Instant,
    /// The latest end.
    latest: Instant,
}

// === impl Schedule ===

impl<K: Clone + Ord> Schedule<K> {
    /// The clique has changed. It is evaluated once the changes end.
    pub(super) fn touch(&mut self, clique: K, now: Instant) {
        let burst = self.bursts.entry(clique.clone()).or_insert(Burst {
            ends: now,
            latest: now + LONGEST_BURST,
        });
        self.due.remove(&(burst.ends, clique.clone()));
        burst.ends = (now + QUIET).min(burst.latest);
        self.due.insert((burst.ends, clique));
    }

    /// Evaluates it at this time, too.
    pub(super) fn add(&mut self, at: Instant, clique: K) {
        self.due.insert((at, clique));
    }

    /// The time at which [`pop`](Self::pop) may return something.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The next clique that is due.
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

/// Exponential back-off: each pause is twice as long.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    /// The number of pauses so far.
    pub(super) times: u32,
    pub(super) until: Option<Instant>,
}

// === impl Backoff ===

impl Backoff {
    /// Begins the next pause.
    pub(super) fn grow(&mut self, first: Duration, longest: Duration, now: Instant) {
        let pause = first * 2_u32.pow(self.times.min(10));
        self.until = Some(now + pause.min(longest));
        self.times = self.times.saturating_add(1);
    }

    /// The end of the pause, if it is later than now.
    pub(super) fn pauses_until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|at| *at > now)
    }
}
