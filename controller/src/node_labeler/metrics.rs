//! What the keeper of labels and pools tells operators.

use std::sync::atomic::AtomicI64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Cheap to clone; clones are the same metrics.
#[derive(Clone, Debug)]
pub(crate) struct CliqueMetrics {
    labels: Family<[(&'static str, &'static str); 1], Counter>,
    pools: Gauge<i64, AtomicI64>,
}

impl CliqueMetrics {
    /// Registers them.
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            labels: Family::default(),
            pools: Gauge::default(),
        };
        // The library appends `_total`.
        registry.register(
            "imex_dra_clique_labels",
            "Labels of nodes for their NVLink clique: written, owned by others or failed",
            metrics.labels.clone(),
        );
        registry.register(
            "imex_dra_clique_pools",
            "NVLink cliques whose channels claims of groups can be allocated",
            metrics.pools.clone(),
        );
        metrics
    }

    /// What became of a label: `written`, `owned-by-others` or `failed`.
    pub(crate) fn labelled(&self, outcome: &'static str) {
        self.labels.get_or_create(&[("outcome", outcome)]).inc();
    }

    pub(super) fn set_pools(&self, count: usize) {
        self.pools.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}
