//! Metrics, under the Go driver's names, so that dashboards keep working.

use std::sync::Arc;
use std::time::Duration;

use compute_domain_api::names::DRIVER_NAME;
use dra_kubelet::{CallOutcome, ClaimError, ClaimRef, Method, Observer, Registration};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Go's: 50 ms doubling to 12.8 s, one attempt each.
const BUCKETS: [f64; 9] = [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8];

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

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct End {
    method: &'static str,
    end: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Slice {
    request: &'static str,
    outcome: &'static str,
}

/// The plugin's metrics. Cheap to clone. Calls, slices and registrations come
/// from `dra-kubelet`, which calls the [`Observer`].
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    requests: Family<Call, Counter>,
    durations: Family<Call, Histogram>,
    inflight: Family<Call, Gauge>,
    prepare_errors: Family<Failure, Counter>,
    unprepare_errors: Family<Failure, Counter>,
    prepared: Gauge,
    calls: Family<End, Counter>,
    slices: Family<Slice, Counter>,
    registrations: Counter,
}

impl Metrics {
    /// Registers everything, with the zero series that the Go driver has from its start.
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
            calls: Family::default(),
            slices: Family::default(),
            registrations: Counter::default(),
        };
        for method in [Method::Prepare, Method::Unprepare] {
            let call = call(method);
            drop(metrics.requests.get_or_create(&call));
            drop(metrics.durations.get_or_create(&call));
            drop(metrics.inflight.get_or_create(&call));
        }
        metrics.register_as_go(registry, prepared_devices);
        metrics.register_own(registry);
        Arc::new(metrics)
    }

    /// Registers what the Go driver counts, too.
    fn register_as_go(&self, registry: &mut Registry, prepared: Family<Devices, Gauge>) {
        let dra = registry.sub_registry_with_prefix("nvidia_dra");
        // The library appends `_total` to counters.
        dra.register(
            "requests",
            "Claims prepared or unprepared",
            self.requests.clone(),
        );
        dra.register(
            "request_duration_seconds",
            "Time of one successful attempt",
            self.durations.clone(),
        );
        dra.register(
            "requests_inflight",
            "Attempts under way",
            self.inflight.clone(),
        );
        dra.register(
            "prepared_devices",
            "Devices held by prepared claims",
            prepared,
        );
        dra.register(
            "node_prepare_errors",
            "Failed attempts to prepare, by cause",
            self.prepare_errors.clone(),
        );
        dra.register(
            "node_unprepare_errors",
            "Failed attempts to unprepare, by cause",
            self.unprepare_errors.clone(),
        );
    }

    /// Registers what the Go driver does not count.
    fn register_own(&self, registry: &mut Registry) {
        let own = registry.sub_registry_with_prefix("imex_dra");
        own.register(
            "kubelet_calls",
            "Calls of kubelet by outcome: ok, failed (at least one claim), cancelled",
            self.calls.clone(),
        );
        own.register(
            "slice_requests",
            "Requests to the API server for the node's ResourceSlices",
            self.slices.clone(),
        );
        own.register(
            "kubelet_registrations",
            "Registrations that kubelet accepted; it asks again after each of its restarts",
            self.registrations.clone(),
        );
    }

    pub(crate) fn prepared_channels(&self, count: usize) {
        self.prepared.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    fn failed(&self, method: Method, error: &ClaimError) {
        let failure = Failure {
            driver: DRIVER_NAME,
            error_type: error.code(),
        };
        let errors = match method {
            Method::Prepare => &self.prepare_errors,
            Method::Unprepare => &self.unprepare_errors,
        };
        errors.get_or_create(&failure).inc();
    }
}

impl Observer for Metrics {
    fn call_finished(&self, method: Method, end: CallOutcome, _: Duration) {
        let end = end.code();
        self.calls
            .get_or_create(&End {
                method: method.as_str(),
                end,
            })
            .inc();
    }

    /// A claim that cannot be read never reaches the driver: that is a failed
    /// attempt, too.
    fn claim_read(&self, _: &ClaimRef, outcome: Result<(), &ClaimError>, _: Duration) {
        if let Err(error) = outcome {
            self.failed(Method::Prepare, error);
        }
    }

    fn attempt_started(&self, method: Method, _: &ClaimRef) {
        self.inflight.get_or_create(&call(method)).inc();
    }

    fn attempt_finished(
        &self,
        method: Method,
        _: &ClaimRef,
        outcome: Result<(), &ClaimError>,
        took: Duration,
    ) {
        let call = call(method);
        self.inflight.get_or_create(&call).dec();
        match outcome {
            Ok(()) => {
                self.requests.get_or_create(&call).inc();
                let duration = self.durations.get_or_create(&call);
                duration.observe(took.as_secs_f64());
            }
            Err(error) => self.failed(method, error),
        }
    }

    fn slice_request(&self, request: &'static str, outcome: Result<(), &'static str>, _: Duration) {
        let outcome = outcome.err().unwrap_or("ok");
        let slice = Slice { request, outcome };
        self.slices.get_or_create(&slice).inc();
    }

    fn registration_changed(&self, state: &Registration) {
        if state.is_registered() {
            self.registrations.inc();
        }
    }
}

fn call(method: Method) -> Call {
    Call {
        driver: DRIVER_NAME,
        operation: method.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_and_labels_are_gos_and_ours_are_apart() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry, "node-a");
        let claim = ClaimRef {
            namespace: "ns".into(),
            name: "c".into(),
            uid: "u".into(),
        };
        let closed = ClaimError::retry("closed").with_code("checkpoint");
        let ms = Duration::from_millis(1);
        metrics.attempt_started(Method::Prepare, &claim);
        metrics.attempt_finished(Method::Prepare, &claim, Ok(()), ms);
        metrics.attempt_started(Method::Unprepare, &claim);
        metrics.attempt_finished(Method::Unprepare, &claim, Err(&closed), ms);
        metrics.call_finished(Method::Prepare, CallOutcome::Cancelled, ms);
        metrics.slice_request("create", Err("slice-request"), ms);
        metrics.registration_changed(&Registration::Registered);
        metrics.registration_changed(&Registration::Pending);
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
            r#"imex_dra_kubelet_calls_total{method="prepare",end="cancelled"} 1"#,
            r#"imex_dra_slice_requests_total{request="create",outcome="slice-request"} 1"#,
            "imex_dra_kubelet_registrations_total 1",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line}\nis not in\n{text}"
            );
        }
    }
}
