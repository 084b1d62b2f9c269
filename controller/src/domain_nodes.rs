//! The nodes of all `ComputeDomains` in driver-managed mode. Lists of claims and the keeper of clique members write
//! them; reconciles read them.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use compute_domain_api::crd::ComputeDomainNode;
use compute_domain_core::{DomainNodes, Key, Nodes};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::wake::wake_at;

/// A domain is queued when none of its nodes has changed for this long. When a clique starts, its daemons become
/// ready one after the other.
pub(crate) const QUIET: Duration = Duration::from_millis(300);

/// It is queued after this long even if they still change.
pub(crate) const LONGEST_BURST: Duration = Duration::from_secs(1);

/// The nodes of domains; always empty if disabled.
#[derive(Debug, Default)]
pub(crate) struct NodesOfDomains {
    enabled: bool,
    state: Mutex<State>,
    /// A burst may end earlier.
    woken: Notify,
    /// Claims were allocated to nodes, or removed from them.
    uses: Notify,
}

#[derive(Debug, Default)]
struct State {
    nodes: DomainNodes,
    /// The domains with changed nodes, in one burst for all.
    burst: Option<Burst>,
}

#[derive(Debug)]
struct Burst {
    domains: BTreeSet<Key>,
    ends: Instant,
    /// The latest possible end.
    latest: Instant,
}

// === impl NodesOfDomains ===

impl NodesOfDomains {
    /// Creates an empty set, which stays empty unless enabled.
    pub(crate) fn new(enabled: bool) -> Self {
        Self {
            enabled,
            ..Self::default()
        }
    }

    /// Whether the driver runs IMEX.
    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Drops the state, because the watches start over.
    pub(crate) fn clear(&self) {
        let mut state = self.state();
        state.nodes.clear();
        state.burst = None;
        drop(state);
        self.uses.notify_one();
    }

    // === claims ===

    /// Sets the nodes to which claims of the domain are allocated. Returns whether they have changed.
    pub(crate) fn set_domain(&self, key: &Key, nodes: BTreeSet<Box<str>>) -> bool {
        if !self.enabled {
            return false;
        }
        let has_changed = self.state().nodes.set_domain(key, nodes);
        self.uses.notify_one();
        has_changed
    }

    /// The domain has no claims, or is deleted. Returns whether it had nodes.
    pub(crate) fn forget_domain(&self, key: &Key) -> bool {
        let had_nodes = self.state().nodes.forget_domain(key);
        if had_nodes {
            self.uses.notify_one();
        }
        had_nodes
    }

    /// Whether the domain has a known node.
    pub(crate) fn has_any(&self, key: &str) -> bool {
        self.state().nodes.has_any(key)
    }

    /// The domains with known nodes.
    pub(crate) fn domains(&self) -> Vec<Key> {
        self.state().nodes.domains().cloned().collect()
    }

    /// The nodes of this domain.
    pub(crate) fn of(&self, key: &str, has_claims: bool) -> Nodes {
        if !self.enabled {
            return Nodes::Unmanaged;
        }
        self.state().nodes.of(key, has_claims)
    }

    /// Returns when [`take_uses`](Self::take_uses) may have something.
    pub(crate) async fn uses_changed(&self) {
        self.uses.notified().await;
    }

    /// The nodes that got their first claim, or lost the last one, since the last call.
    pub(crate) fn take_uses(&self) -> Vec<(Box<str>, bool)> {
        self.state().nodes.take_uses()
    }

    // === nodes ===

    /// Updates the state of these nodes.
    pub(crate) fn set_nodes(&self, nodes: impl IntoIterator<Item = ComputeDomainNode>) {
        let mut state = self.state();
        let nodes = nodes.into_iter();
        let concerned: Vec<_> = nodes.flat_map(|node| state.nodes.set_node(node)).collect();
        state.touch(concerned);
        drop(state);
        self.woken.notify_one();
    }

    /// The API server rejects the object of this clique, or no longer does.
    pub(crate) fn set_refusal(&self, clique: &str, refusal: Option<&str>) {
        let mut state = self.state();
        let concerned = state.nodes.set_refusal(clique, refusal);
        state.touch(concerned);
        drop(state);
        self.woken.notify_one();
    }

    /// The watches have listed all nodes.
    pub(crate) fn all_nodes_known(&self) {
        let mut state = self.state();
        let concerned = state.nodes.all_nodes_known();
        state.touch(concerned);
        drop(state);
        self.woken.notify_one();
    }

    /// Returns when domains are due; never, if none is.
    pub(crate) async fn wait(&self) {
        loop {
            // Registered before the check, so that no wake-up is missed in between.
            let woken = self.woken.notified();
            let due = self.state().burst.as_ref().map(|burst| burst.ends);
            tokio::select! {
                () = wake_at(due) => return,
                () = woken => {}
            }
        }
    }

    /// Takes the domains that are due.
    pub(crate) fn take_due(&self) -> BTreeSet<Key> {
        let due = |burst: &mut Burst| burst.ends <= Instant::now();
        let burst = self.state().burst.take_if(due);
        burst.map(|burst| burst.domains).unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere cannot leave it half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl State ===

impl State {
    fn touch(&mut self, domains: Vec<Key>) {
        if domains.is_empty() {
            return;
        }
        let now = Instant::now();
        let burst = self.burst.get_or_insert_with(|| Burst {
            domains: BTreeSet::new(),
            ends: now,
            latest: now + LONGEST_BURST,
        });
        burst.domains.extend(domains);
        burst.ends = (now + QUIET).min(burst.latest);
    }
}
