//! Finds the cliques in which domains hold prepared claims, as nodes report it in the claims. In driver-managed mode,
//! also finds the nodes to which their claims are allocated.
//!
//! The watch of claims has only metadata, which names the field manager of a report. So a claim without a report, of
//! an older plugin, costs nothing. After a burst of reports of a domain and a quiet period, its claims are listed:
//! once per burst, one domain after the other. A finalizer shows an allocation. Workloads wait for the nodes, so
//! bursts of allocations are shorter.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use compute_domain_core::{Cliques, Key};
use tokio::time::Instant;

use crate::api_client::RequestError;
use crate::api_client::claims::ClaimsSummary;
use crate::wake::wake_at;

/// Claims of a domain are listed when none has changed for this long. Nodes write the reports of a job's pods within
/// 5 s.
pub(super) const QUIET: Duration = Duration::from_secs(15);

/// They are listed after this long even if they still change.
pub(super) const LONGEST_BURST: Duration = Duration::from_secs(60);

/// Like [`QUIET`], for allocations and deallocations: the scheduler needs a few milliseconds for each pod of a job.
pub(super) const QUIET_ALLOCATIONS: Duration = Duration::from_secs(1);

/// Like [`LONGEST_BURST`], for allocations.
pub(super) const LONGEST_ALLOCATIONS: Duration = Duration::from_secs(3);

/// Minimum time between two lists. A controller that starts with 10 000 domains in use lists all of them within 17
/// minutes, with 10 requests per second.
pub(super) const PACE: Duration = Duration::from_millis(100);

/// Minimum time after a failed list: the next one will probably fail, too.
const PACE_AFTER_FAILURE: Duration = Duration::from_secs(5);

/// When a failed list is retried.
pub(super) const RETRY: Duration = Duration::from_secs(30);

/// Known cliques, and domains whose claims are to be listed.
#[derive(Default)]
pub(super) struct ClaimCliques {
    pub(super) known: Cliques,
    bursts: HashMap<Key, Burst>,
    /// Ends of the bursts, earliest first.
    ends: BTreeSet<(Instant, Key)>,
    /// Whether the watch is still listing the claims.
    watch_lists: bool,
    is_listing: bool,
    /// No list starts before this time.
    not_before: Option<Instant>,
}

/// A series of changes to claims of one domain.
struct Burst {
    /// In [`ClaimCliques::ends`].
    ends: Instant,
    /// The latest possible end.
    latest: Instant,
    /// The burst ends after this long without a change. An urgent change shortens it.
    quiet: Duration,
}

/// The result of a list of a domain's claims.
pub(super) struct Listed {
    pub(super) key: Key,
    pub(super) seen: Result<ClaimsSummary, RequestError>,
}

// === impl ClaimCliques ===

impl ClaimCliques {
    /// Sets whether the watch is listing the claims. Meanwhile, no claims are listed here.
    pub(super) fn set_watch_lists(&mut self, watch_lists: bool) {
        self.watch_lists = watch_lists;
    }

    /// A node may have reported a claim of this domain.
    pub(super) fn changed(&mut self, key: &Key) {
        self.add(key, QUIET, LONGEST_BURST);
    }

    /// A claim of this domain was allocated or deallocated.
    pub(super) fn allocations_changed(&mut self, key: &Key) {
        self.add(key, QUIET_ALLOCATIONS, LONGEST_ALLOCATIONS);
    }

    /// Ends the domain's burst after `quiet` without a change, or after `longest`, or at its earlier limits.
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

    /// A list begins. Only one runs at a time.
    pub(super) fn start(&mut self) {
        self.is_listing = true;
    }

    /// The list of this domain has ended. A failed list is retried.
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

    /// Returns when a list is due; never, if there is none.
    pub(super) async fn wait(&self) {
        wake_at(self.due()).await;
    }
}
