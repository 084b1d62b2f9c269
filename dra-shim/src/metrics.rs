//! What is counted, under the Go driver's names, so that dashboards stay.

use std::sync::Arc;
use std::time::{Duration, Instant};

use compute_domain_api::names::DRIVER_NAME;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Go's: 50 ms doubling to 12.8 s, one attempt each.
const BUCKETS: [f64; 9] = [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8];

/// Which of kubelet's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Prepare,
    Unprepare,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    driver: &'static str,
    operation: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Failure {
    driver: &'static str,
    error_type: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Devices {
    node: String,
    driver: &'static str,
    device_type: &'static str,
}

/// The plugin's metrics. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    requests: Family<Call, Counter>,
    durations: Family<Call, Histogram>,
    inflight: Family<Call, Gauge>,
    prepare_errors: Family<Failure, Counter>,
    unprepare_errors: Family<Failure, Counter>,
    prepared: Gauge,
}

/// One attempt; counted as in flight until it is dropped.
pub(crate) struct Attempt {
    metrics: Metrics,
    operation: Operation,
    started: Instant,
}

impl Metrics {
    /// Registers everything, with the zero series that Go has from its start.
    pub(crate) fn register(registry: &mut Registry, node: &str) -> Arc<Self> {
        let prepared_devices: Family<Devices, Gauge> = Family::default();
        let channels = Devices {
            node: node.to_owned(),
            driver: DRIVER_NAME,
            device_type: "channel",
        };
        let metrics = Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            inflight: Family::default(),
            prepare_errors: Family::default(),
            unprepare_errors: Family::default(),
            prepared: prepared_devices.get_or_create(&channels).clone(),
        };
        for operation in [Operation::Prepare, Operation::Unprepare] {
            let call = operation.call();
            drop(metrics.requests.get_or_create(&call));
            drop(metrics.durations.get_or_create(&call));
            drop(metrics.inflight.get_or_create(&call));
        }
        let dra = registry.sub_registry_with_prefix("nvidia_dra");
        // The library appends `_total` to counters.
        dra.register(
            "requests",
            "Claims prepared or unprepared",
            metrics.requests.clone(),
        );
        dra.register(
            "request_duration_seconds",
            "Time of one successful attempt",
            metrics.durations.clone(),
        );
        dra.register(
            "requests_inflight",
            "Attempts under way",
            metrics.inflight.clone(),
        );
        dra.register(
            "prepared_devices",
            "Devices held by prepared claims",
            prepared_devices,
        );
        dra.register(
            "node_prepare_errors",
            "Failed attempts to prepare, by cause",
            metrics.prepare_errors.clone(),
        );
        dra.register(
            "node_unprepare_errors",
            "Failed attempts to unprepare, by cause",
            metrics.unprepare_errors.clone(),
        );
        Arc::new(metrics)
    }

    pub(crate) fn attempt(&self, operation: Operation) -> Attempt {
        self.inflight.get_or_create(&operation.call()).inc();
        Attempt {
            metrics: self.clone(),
            operation,
            started: Instant::now(),
        }
    }

    pub(crate) fn prepared_channels(&self, count: usize) {
        self.prepared.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

impl Attempt {
    pub(crate) fn succeeded(&self) {
        let call = self.operation.call();
        self.metrics.requests.get_or_create(&call).inc();
        let took: Duration = self.started.elapsed();
        self.metrics
            .durations
            .get_or_create(&call)
            .observe(took.as_secs_f64());
    }

    pub(crate) fn failed(&self, code: &'static str) {
        let failure = Failure {
            driver: DRIVER_NAME,
            error_type: code,
        };
        let errors = match self.operation {
            Operation::Prepare => &self.metrics.prepare_errors,
            Operation::Unprepare => &self.metrics.unprepare_errors,
        };
        errors.get_or_create(&failure).inc();
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.metrics
            .inflight
            .get_or_create(&self.operation.call())
            .dec();
    }
}

impl Operation {
    fn call(self) -> Call {
        let operation = match self {
            Self::Prepare => "prepare",
            Self::Unprepare => "unprepare",
        };
        Call {
            driver: DRIVER_NAME,
            operation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_and_labels_are_gos() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry, "node-a");
        metrics.attempt(Operation::Prepare).succeeded();
        metrics.attempt(Operation::Unprepare).failed("checkpoint");
        metrics.prepared_channels(1);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            r#"nvidia_dra_requests_total{driver="compute-domain.nvidia.com",operation="prepare"} 1"#,
            r#"nvidia_dra_requests_total{driver="compute-domain.nvidia.com",operation="unprepare"} 0"#,
            r#"nvidia_dra_requests_inflight{driver="compute-domain.nvidia.com",operation="prepare"} 0"#,
            r#"nvidia_dra_request_duration_seconds_bucket{le="0.05",driver="compute-domain.nvidia.com",operation="prepare"} 1"#,
            r#"nvidia_dra_prepared_devices{node="node-a",driver="compute-domain.nvidia.com",device_type="channel"} 1"#,
            r#"nvidia_dra_node_unprepare_errors_total{driver="compute-domain.nvidia.com",error_type="checkpoint"} 1"#,
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line}\nis not in\n{text}"
            );
        }
    }
}
