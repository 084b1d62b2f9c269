//! The nodes of all `ComputeDomains`, which the lists of claims and the keeper of cliques' members tell, and
//! reconciles read. Only where the driver runs `nvidia-imex`: otherwise nobody says anything of nodes.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use compute_domain_api::crd::ComputeDomainNode;
use compute_domain_core::{DomainNodes, Key, Nodes};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::wake::wake_at;

/// A domain is told of its nodes when none of them has changed for this long. The daemons of a clique that
/// starts become ready one after the other.
pub(crate) const QUIET: Duration = Duration::from_millis(300);

/// It is told after this long although they still change.
pub(crate) const LONGEST_BURST: Duration = Duration::from_secs(1);

/// The nodes. It knows of none, for good, unless it is enabled.
#[derive(Debug, Default)]
pub(crate) struct NodesOfDomains {
    enabled: bool,
    state: Mutex<State>,
    /// Something may be due earlier.
    woken: Notify,
    /// Claims have come to nodes, or left them.
    uses: Notify,
}

#[derive(Debug, Default)]
struct State {
    nodes: DomainNodes,
    /// The domains whose nodes have changed, together for all of them.
    burst: Option<Burst>,
}

#[derive(Debug)]
struct Burst {
    domains: BTreeSet<Key>,
    ends: Instant,
    /// It ends then at the latest.
    latest: Instant,
}

// === impl NodesOfDomains ===

impl NodesOfDomains {
    /// Knows of no node yet, or, unless it is enabled, ever.
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

    /// Forgets everything: the watches begin anew.
    pub(crate) fn clear(&self) {
        let mut state = self.state();
        state.nodes.clear();
        state.burst = None;
        drop(state);
        self.uses.notify_one();
    }

    // === claims ===

    /// Claims of the domain are allocated to these nodes, and no others. Returns whether that is news.
    pub(crate) fn set_domain(&self, key: &Key, nodes: BTreeSet<Box<str>>) -> bool {
        if !self.enabled {
            return false;
        }
        let has_changed = self.state().nodes.set_domain(key, nodes);
        self.uses.notify_one();
        has_changed
    }

    /// The domain has no claims, or is gone. Returns whether it had nodes.
    pub(crate) fn forget_domain(&self, key: &Key) -> bool {
        let had_nodes = self.state().nodes.forget_domain(key);
        if had_nodes {
            self.uses.notify_one();
        }
        had_nodes
    }

    /// Whether the domain is known to have a node.
    pub(crate) fn has_any(&self, key: &str) -> bool {
        self.state().nodes.has_any(key)
    }

    /// The domains whose nodes are known.
    pub(crate) fn domains(&self) -> Vec<Key> {
        self.state().nodes.domains().cloned().collect()
    }

    /// The nodes of this domain, which has claims or none.
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

    /// The nodes to which claims have come, or that have none any more, since the last call.
    pub(crate) fn take_uses(&self) -> Vec<(Box<str>, bool)> {
        self.state().nodes.take_uses()
    }

    // === nodes ===

    /// These nodes are so now.
    pub(crate) fn set_nodes(&self, nodes: impl IntoIterator<Item = ComputeDomainNode>) {
        let mut state = self.state();
        let nodes = nodes.into_iter();
        let concerned: Vec<_> = nodes.flat_map(|node| state.nodes.set_node(node)).collect();
        state.touch(concerned);
        drop(state);
        self.woken.notify_one();
    }

    /// The API server refuses the object of this clique, or does not any more.
    pub(crate) fn set_refusal(&self, clique: &str, refusal: Option<&str>) {
        let mut state = self.state();
        let concerned = state.nodes.set_refusal(clique, refusal);
        state.touch(concerned);
        drop(state);
        self.woken.notify_one();
    }

    /// The watches that tell of nodes have told of all.
    pub(crate) fn all_nodes_known(&self) {
        let mut state = self.state();
        let concerned = state.nodes.all_nodes_known();
        state.touch(concerned);
        drop(state);
        self.woken.notify_one();
    }

    /// Returns when domains are due to be told. For ever, if none is.
    pub(crate) async fn wait(&self) {
        loop {
            // Before the look, so that nothing is missed in between.
            let woken = self.woken.notified();
            let due = self.state().burst.as_ref().map(|burst| burst.ends);
            tokio::select! {
                () = wake_at(due) => return,
                () = woken => {}
            }
        }
    }

    /// The domains that are to be told now.
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
