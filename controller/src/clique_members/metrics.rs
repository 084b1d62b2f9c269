//! What the keeper of members tells operators.

use std::sync::atomic::AtomicI64;

use compute_domain_core::{MemberCounts, RolloutCounts};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Cheap to clone; clones are the same metrics.
#[derive(Clone, Debug)]
pub(crate) struct MemberMetrics {
    members: Family<[(&'static str, &'static str); 1], Gauge<i64, AtomicI64>>,
    writes: Family<[(&'static str, &'static str); 1], Counter>,
    surplus: Gauge<i64, AtomicI64>,
    outdated: Gauge<i64, AtomicI64>,
    draining: Gauge<i64, AtomicI64>,
    stopped: Gauge<i64, AtomicI64>,
    replaced: Family<[(&'static str, &'static str); 1], Counter>,
}

impl MemberMetrics {
    /// Registers them.
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            members: Family::default(),
            writes: Family::default(),
            surplus: Gauge::default(),
            outdated: Gauge::default(),
            draining: Gauge::default(),
            stopped: Gauge::default(),
            replaced: Family::default(),
        };
        registry.register(
            "imex_dra_clique_members",
            "Nodes that are members of a ComputeDomainClique, by the state of their IMEX daemon",
            metrics.members.clone(),
        );
        // The library appends `_total`.
        registry.register(
            "imex_dra_clique_writes",
            "Requests that change a ComputeDomainClique: written, conflict or failed",
            metrics.writes.clone(),
        );
        registry.register(
            "imex_dra_clique_surplus_nodes",
            "Nodes that run an IMEX daemon and are in a clique that has the most members it may have already",
            metrics.surplus.clone(),
        );
        registry.register(
            "imex_dra_imex_daemons_outdated",
            "IMEX daemons that are made from another template than their DaemonSet has, and wait to be replaced",
            metrics.outdated.clone(),
        );
        registry.register(
            "imex_dra_imex_daemons_draining",
            "Nodes that prepare no claim until their IMEX daemon is replaced",
            metrics.draining.clone(),
        );
        registry.register(
            "imex_dra_imex_updates_stopped",
            "Cliques in which no IMEX daemon is replaced, because a new one has not become ready within 2 minutes, and DaemonSets whose new pods are not what they say",
            metrics.stopped.clone(),
        );
        registry.register(
            "imex_dra_imex_daemons_replaced",
            "IMEX daemons that were out of date and were replaced: drained, not-running, no-member or forced",
            metrics.replaced.clone(),
        );
        metrics
    }

    pub(crate) fn set_rollout(&self, counts: &RolloutCounts) {
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.outdated.set(gauge(counts.outdated));
        self.draining.set(gauge(counts.draining));
        self.stopped.set(gauge(counts.stopped));
    }

    /// A daemon was replaced, for this reason.
    pub(crate) fn replaced(&self, how: &'static str) {
        self.replaced.get_or_create(&[("how", how)]).inc();
    }

    /// What became of a write: `written`, `conflict` or `failed`.
    pub(crate) fn wrote(&self, outcome: &'static str) {
        self.writes.get_or_create(&[("outcome", outcome)]).inc();
    }

    pub(crate) fn set_counts(&self, counts: &MemberCounts) {
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        for (state, count) in [("Ready", counts.ready), ("NotReady", counts.not_ready)] {
            let members = self.members.get_or_create(&[("status", state)]);
            members.set(gauge(count));
        }
        self.surplus.set(gauge(counts.surplus));
    }
}
