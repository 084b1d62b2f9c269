//! Metrics of the keeper of clique members.

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
    /// Registers the metrics.
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
            "Writes of ComputeDomainCliques by outcome: written, conflict or failed",
            metrics.writes.clone(),
        );
        registry.register(
            "imex_dra_clique_surplus_nodes",
            "Nodes that run an IMEX daemon but are not members of their clique, because the clique already has its maximum number of members",
            metrics.surplus.clone(),
        );
        registry.register(
            "imex_dra_imex_daemons_outdated",
            "IMEX daemons to be replaced, because their pod template differs from the template of their DaemonSet",
            metrics.outdated.clone(),
        );
        registry.register(
            "imex_dra_imex_daemons_draining",
            "Nodes that prepare no claims until their IMEX daemon is replaced",
            metrics.draining.clone(),
        );
        registry.register(
            "imex_dra_imex_updates_stopped",
            "Stopped updates of IMEX daemons; an update stops if the new daemon is not ready within 2 minutes, or if the new pod lacks the template annotation",
            metrics.stopped.clone(),
        );
        registry.register(
            "imex_dra_imex_daemons_replaced",
            "Outdated IMEX daemons that were replaced, by reason: drained, not-running, no-member or forced",
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

    /// Counts a write by outcome: `written`, `conflict` or `failed`.
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
