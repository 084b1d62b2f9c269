//! Metrics of the keeper of labels and pools.

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
    /// Registers the metrics.
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            labels: Family::default(),
            pools: Gauge::default(),
        };
        // The library appends `_total`.
        registry.register(
            "imex_dra_clique_labels",
            "Writes of the nodes' NVLink clique labels by outcome: written, owned-by-others (another field manager owns the label) or failed",
            metrics.labels.clone(),
        );
        registry.register(
            "imex_dra_clique_pools",
            "NVLink cliques with channels for group claims",
            metrics.pools.clone(),
        );
        metrics
    }

    /// Counts a label by outcome: `written`, `owned-by-others` or `failed`.
    pub(crate) fn labelled(&self, outcome: &'static str) {
        self.labels.get_or_create(&[("outcome", outcome)]).inc();
    }

    pub(super) fn set_pools(&self, count: usize) {
        self.pools.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}
