//! In which cliques the domains hold prepared claims, as the nodes report it in the claims; and, where the
//! driver runs IMEX, to which nodes their claims are allocated.
//!
//! The watch of claims has their metadata only, but these name the field manager of a report: so a claim
//! without one, of an older plugin, costs nothing. When reports of a domain have come, and then none for
//! a while, its claims are listed: once for each burst, one domain after the other, never all together.
//! Allocations are told of by a finalizer. Somebody waits for the nodes, so their bursts are shorter.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use compute_domain_core::{Cliques, Key};
use tokio::time::Instant;

use crate::api_client::RequestError;
use crate::api_client::claims::ClaimsSeen;
use crate::wake::wake_at;

/// Claims are listed when none of the domain has changed for this long. The nodes write the reports of a
/// job's pods within 5 s.
pub(super) const QUIET: Duration = Duration::from_secs(15);

/// They are listed after this long although they still change.
pub(super) const LONGEST_BURST: Duration = Duration::from_secs(60);

/// The same after a claim was allocated, or is allocated no more: the scheduler needs a few milliseconds
/// for each pod of a job.
pub(super) const QUIET_ALLOCATIONS: Duration = Duration::from_secs(1);

/// The same while allocations still change.
pub(super) const LONGEST_ALLOCATIONS: Duration = Duration::from_secs(3);

/// The least time between two lists, each of one domain. A controller that starts with 10 000 domains in
/// use has looked at all after 17 minutes, with 10 requests a second.
pub(super) const PACE: Duration = Duration::from_millis(100);

/// The same after a list that failed: most likely the next one fails, too.
const PACE_AFTER_FAILURE: Duration = Duration::from_secs(5);

/// When a list that failed is made again.
pub(super) const RETRY: Duration = Duration::from_secs(30);

/// What is known, and whose claims are to be listed.
#[derive(Default)]
pub(super) struct ClaimCliques {
    pub(super) known: Cliques,
    bursts: HashMap<Key, Burst>,
    /// When the bursts end, the earliest first.
    ends: BTreeSet<(Instant, Key)>,
    /// Whether the watch lists the claims, and does not have all of them.
    watch_lists: bool,
    is_listing: bool,
    /// No list before this time.
    not_before: Option<Instant>,
}

/// Claims of one domain that change.
struct Burst {
    /// In [`ClaimCliques::ends`].
    ends: Instant,
    /// It ends then at the latest.
    latest: Instant,
    /// It ends when nothing has changed for this long: what is urgent does not wait for what is not.
    quiet: Duration,
}

/// What a list of a domain's claims has found.
pub(super) struct Listed {
    pub(super) key: Key,
    pub(super) seen: Result<ClaimsSeen, RequestError>,
}

// === impl ClaimCliques ===

impl ClaimCliques {
    /// Whether the watch lists the claims. Before it has all of them, none are listed here.
    pub(super) fn set_watch_lists(&mut self, watch_lists: bool) {
        self.watch_lists = watch_lists;
    }

    /// A node has reported a claim of this domain, or something like it.
    pub(super) fn changed(&mut self, key: &Key) {
        self.add(key, QUIET, LONGEST_BURST);
    }

    /// A claim of this domain was allocated, or is allocated no more.
    pub(super) fn allocations_changed(&mut self, key: &Key) {
        self.add(key, QUIET_ALLOCATIONS, LONGEST_ALLOCATIONS);
    }

    /// The domain's burst ends after this time without a change, and after `longest` at the latest, or
    /// earlier if it was to before.
    fn add(&mut self, key: &Key, quiet: Duration, longest: Duration) {
        let now = Instant::now();
        let mut burst = Burst {
            ends: now,
            latest: now + longest,
            quiet,
        };
        if let Some(before) = self.bursts.remove(key) {
            self.ends.remove(&(before.ends, key.clone()));
            burst.latest = burst.latest.min(before.latest);
            burst.quiet = burst.quiet.min(before.quiet);
        }
        burst.ends = (now + burst.quiet).min(burst.latest);
        self.ends.insert((burst.ends, key.clone()));
        self.bursts.insert(key.clone(), burst);
    }

    /// When the next list is due.
    fn due(&self) -> Option<Instant> {
        let (ends, _) = self.ends.first()?;
        let waits = self.watch_lists || self.is_listing;
        let due = self.not_before.map_or(*ends, |at| at.max(*ends));
        (!waits).then_some(due)
    }

    /// Takes a domain whose claims are to be listed now.
    pub(super) fn pop(&mut self) -> Option<Key> {
        self.due().filter(|at| *at <= Instant::now())?;
        let (_, key) = self.ends.pop_first()?;
        self.bursts.remove(&key);
        Some(key)
    }

    /// A list begins. There is no other one until it has ended.
    pub(super) fn start(&mut self) {
        self.is_listing = true;
    }

    /// The list of this domain has ended. One that has failed is made again.
    pub(super) fn finish(&mut self, key: &Key, succeeded: bool) {
        let now = Instant::now();
        self.is_listing = false;
        if succeeded {
            self.not_before = Some(now + PACE);
        } else {
            self.not_before = Some(now + PACE_AFTER_FAILURE);
            self.add(key, RETRY, RETRY);
        }
    }

    /// Returns when a list is due. For ever, if none is.
    pub(super) async fn wait(&self) {
        wake_at(self.due()).await;
    }
}
