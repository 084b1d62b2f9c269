//! The controller's metrics.

use std::fmt;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use compute_domain_api::crd::ComputeDomainState;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::reconcile::{Now, SharedIndex};

/// The Go driver's name. Despite the name, the metric is a count of `ComputeDomains` by status.
const DOMAINS: &str = "nvidia_dra_compute_domain_info";

const CHANNELS: &str = "imex_dra_channels";

/// From 1 ms for a reconcile without a request, to 30 s for one with only retried requests.
const SECONDS: [f64; 10] = [0.001, 0.005, 0.02, 0.05, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0];

/// Metrics of the leader. Cheap to clone; clones are the same metrics.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    duration: Histogram,
    errors: Family<[(&'static str, String); 1], Counter>,
    queue_depth: Gauge<i64, AtomicI64>,
    leader: Gauge<i64, AtomicI64>,
    shared_cliques: Gauge<i64, AtomicI64>,
    split_domains: Gauge<i64, AtomicI64>,
}

/// Counts `ComputeDomains` in the index at each scrape, so that the numbers are right after restarts and deletions.
#[derive(Debug)]
struct DomainCounts(SharedIndex);

/// Counts the IMEX channels in the index at each scrape.
#[derive(Debug)]
struct ChannelGauges(SharedIndex, Now);

impl Metrics {
    /// Registers the metrics of channels, if each ComputeDomain has its own.
    pub(crate) fn register_channels(registry: &mut Registry, index: SharedIndex, now: Now) {
        registry.register_collector(Box::new(ChannelGauges(index, now)));
    }

    /// Registers all metrics.
    pub(crate) fn new(registry: &mut Registry, index: SharedIndex) -> Self {
        let metrics = Self {
            duration: Histogram::new(SECONDS),
            errors: Family::default(),
            queue_depth: Gauge::default(),
            leader: Gauge::default(),
            shared_cliques: Gauge::default(),
            split_domains: Gauge::default(),
        };
        registry.register(
            "imex_dra_reconcile_duration_seconds",
            "Duration of one reconcile of a ComputeDomain, including its requests",
            metrics.duration.clone(),
        );
        // The library appends `_total`.
        registry.register(
            "imex_dra_reconcile_errors",
            "Failed reconciles by HTTP status or cause; each one is retried",
            metrics.errors.clone(),
        );
        registry.register(
            "imex_dra_queue_depth",
            "ComputeDomains in the work queue or being reconciled",
            metrics.queue_depth.clone(),
        );
        registry.register(
            "imex_dra_leader",
            "Whether this replica is the leader: 1 or 0; only the leader reconciles",
            metrics.leader.clone(),
        );
        registry.register(
            "imex_dra_shared_cliques",
            "NVLink cliques in which several ComputeDomains that have no channel of their own hold prepared claims",
            metrics.shared_cliques.clone(),
        );
        registry.register(
            "imex_dra_split_domains",
            "ComputeDomains that hold prepared claims in more than one NVLink clique",
            metrics.split_domains.clone(),
        );
        registry.register_collector(Box::new(DomainCounts(index)));
        metrics
    }

    pub(crate) fn reconciled(&self, took: Duration) {
        self.duration.observe(took.as_secs_f64());
    }

    pub(crate) fn failed(&self, code: &str) {
        self.errors
            .get_or_create(&[("code", code.to_owned())])
            .inc();
    }

    pub(crate) fn set_queue_depth(&self, depth: usize) {
        self.queue_depth.set(gauge(depth));
    }

    /// Sets the number of cliques with claims of several domains, and of domains with claims in several cliques.
    pub(crate) fn set_cliques(&self, shared: usize, split: usize) {
        self.shared_cliques.set(gauge(shared));
        self.split_domains.set(gauge(split));
    }

    pub(crate) fn set_leader(&self, leader: bool) {
        self.leader.set(leader.into());
    }
}

fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Collector for DomainCounts {
    // req: CD-20
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Number of ComputeDomains by status";
        let mut family = encoder.encode_descriptor(DOMAINS, help, None, MetricType::Gauge)?;
        for state in ComputeDomainState::ALL {
            let count = self.0.lock().count(state);
            let count = u64::try_from(count).unwrap_or(u64::MAX);
            ConstGauge::new(count).encode(family.encode_family(&[("status", state.as_str())])?)?;
        }
        Ok(())
    }
}

impl Collector for ChannelGauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self(index, now) = self;
        let counts = index.lock().channel_counts(now());
        let help = "IMEX channels by state: used by a ComputeDomain, free, or cooling down after their release";
        let mut family = encoder.encode_descriptor(CHANNELS, help, None, MetricType::Gauge)?;
        for (state, count) in [
            ("used", counts.used),
            ("free", counts.free),
            ("cooling", counts.cooling),
        ] {
            ConstGauge::new(gauge(count)).encode(family.encode_family(&[("state", state)])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
