//! Metrics of a move from the Go driver.

use std::sync::atomic::AtomicI64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Cheap to clone; clones are the same metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct GoDaemonMetrics {
    waiting: Gauge<i64, AtomicI64>,
    removed: Counter,
}

impl GoDaemonMetrics {
    /// Registers the metrics.
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "imex_dra_go_daemons_in_use",
            "ComputeDomains for which the Go driver's IMEX daemons are kept, because claims of the ComputeDomain are allocated",
            metrics.waiting.clone(),
        );
        // The library appends `_total`.
        registry.register(
            "imex_dra_go_daemons_removed",
            "ComputeDomains for which this controller has removed the Go driver's IMEX daemons",
            metrics.removed.clone(),
        );
        metrics
    }

    pub(super) fn set_waiting(&self, domains: usize) {
        self.waiting.set(i64::try_from(domains).unwrap_or(i64::MAX));
    }

    pub(super) fn removed(&self) {
        self.removed.inc();
    }
}
