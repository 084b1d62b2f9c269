//! The metrics of every plugin. Those that the Go driver has, too, have its names, so that dashboards keep working.

use std::sync::Arc;
use std::time::Duration;

use dra_kubelet::{CallOutcome, ClaimError, Method, Publication, Registration};
use node_claims::NodeClaims;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::plugin_devices::PluginDevices;

/// The Go driver's buckets for the time of one attempt: 50 ms doubling to 12.8 s.
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
struct Retried {
    method: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Failed {
    method: &'static str,
    error: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusWrite {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Slice {
    request: &'static str,
    outcome: &'static str,
}

/// The metrics of every plugin. [`CallObserver`](crate::CallObserver) feeds those about calls,
/// slices and registrations from `dra-kubelet`.
#[derive(Debug)]
pub struct Metrics {
    driver: &'static str,
    node: String,
    requests: Family<Call, Counter>,
    durations: Family<Call, Histogram>,
    inflight: Family<Call, Gauge>,
    prepare_errors: Family<Failure, Counter>,
    unprepare_errors: Family<Failure, Counter>,
    prepared: Family<Devices, Gauge>,
    calls: Family<End, Counter>,
    retries: Family<Retried, Counter>,
    failed_claims: Family<Failed, Counter>,
    status_writes: Family<StatusWrite, Counter>,
    slices: Family<Slice, Counter>,
    generation: Gauge,
    registrations: Counter,
    second_plugin: Gauge,
}

impl Metrics {
    /// Registers the metrics of `driver` on `node`, with the zero series that the Go driver has from its start:
    /// for each of `device_types`, as in [`PluginDevices::DEVICE_TYPES`].
    pub fn register(
        registry: &mut Registry,
        node: &str,
        driver: &'static str,
        device_types: &[&'static str],
    ) -> Arc<Self> {
        let metrics = Self {
            driver,
            node: node.to_owned(),
            requests: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            inflight: Family::default(),
            prepare_errors: Family::default(),
            unprepare_errors: Family::default(),
            prepared: Family::default(),
            calls: Family::default(),
            retries: Family::default(),
            failed_claims: Family::default(),
            status_writes: Family::default(),
            slices: Family::default(),
            generation: Gauge::default(),
            registrations: Counter::default(),
            second_plugin: Gauge::default(),
        };
        for method in [Method::Prepare, Method::Unprepare] {
            let call = metrics.call(method);
            drop(metrics.requests.get_or_create(&call));
            drop(metrics.durations.get_or_create(&call));
            drop(metrics.inflight.get_or_create(&call));
        }
        for device_type in device_types {
            metrics.set_prepared(device_type, 0);
        }
        metrics.register_as_go(registry);
        metrics.register_own(registry);
        Arc::new(metrics)
    }

    /// Registers the metrics that the Go driver has, too.
    // req: NODE-38
    fn register_as_go(&self, registry: &mut Registry) {
        let dra = registry.sub_registry_with_prefix("nvidia_dra");
        // The library appends `_total` to counters.
        dra.register(
            "requests",
            "Successful attempts to prepare or unprepare a claim",
            self.requests.clone(),
        );
        dra.register(
            "request_duration_seconds",
            "Duration of a successful Prepare or Unprepare",
            self.durations.clone(),
        );
        dra.register(
            "requests_inflight",
            "Attempts in progress to prepare or unprepare a claim",
            self.inflight.clone(),
        );
        dra.register(
            "prepared_devices",
            "Devices held by prepared claims",
            self.prepared.clone(),
        );
        dra.register(
            "node_prepare_errors",
            "Failed attempts to prepare a claim, by cause",
            self.prepare_errors.clone(),
        );
        dra.register(
            "node_unprepare_errors",
            "Failed attempts to unprepare a claim, by cause",
            self.unprepare_errors.clone(),
        );
    }

    /// Registers the metrics that the Go driver lacks.
    // req: NODE-38
    fn register_own(&self, registry: &mut Registry) {
        let own = registry.sub_registry_with_prefix("imex_dra");
        own.register(
            "kubelet_calls",
            "Calls from kubelet by outcome: ok, failed (for at least one claim) or cancelled",
            self.calls.clone(),
        );
        own.register(
            "claim_retries",
            "Retries of attempts to prepare or unprepare a claim",
            self.retries.clone(),
        );
        own.register(
            "failed_claims",
            "Claims for which kubelet received an error, by the claim's last error",
            self.failed_claims.clone(),
        );
        own.register(
            "claim_status_writes",
            "Writes of prepared devices to claims' status.devices, by outcome",
            self.status_writes.clone(),
        );
        own.register(
            "slice_generation",
            "Generation of the node's published pool; 0 if no pool is published",
            self.generation.clone(),
        );
        own.register(
            "slice_requests",
            "Requests to the API server for the node's ResourceSlices",
            self.slices.clone(),
        );
        own.register(
            "kubelet_registrations",
            "Registrations that kubelet accepted; each restart of kubelet adds one",
            self.registrations.clone(),
        );
        own.register(
            "second_plugin",
            "Whether another plugin on the node serves the same driver name: 1 or 0",
            self.second_plugin.clone(),
        );
    }

    pub(crate) fn second_plugin(&self, is_there: bool) {
        self.second_plugin.set(i64::from(is_there));
    }

    /// Counts the devices of prepared claims. Call this after each Prepare and Unprepare.
    pub fn count_prepared<P: PluginDevices>(&self, claims: &NodeClaims<P::Devices>) {
        for (device_type, count) in P::prepared(&claims.view()) {
            self.set_prepared(device_type, count);
        }
    }

    fn set_prepared(&self, device_type: &'static str, count: usize) {
        let devices = Devices {
            node: self.node.clone(),
            driver: self.driver,
            device_type,
        };
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.prepared.get_or_create(&devices).set(count);
    }

    pub(crate) fn status_written(&self, outcome: &'static str) {
        self.status_writes
            .get_or_create(&StatusWrite { outcome })
            .inc();
    }

    pub(crate) fn publication_changed(&self, publication: &Publication) {
        match publication {
            Publication::Published { generation, .. } => {
                self.generation.set(*generation);
            }
            Publication::Withdrawn => {
                self.generation.set(0);
            }
            // The published pool is unchanged.
            _ => {}
        }
    }

    pub(crate) fn call_finished(&self, method: Method, outcome: CallOutcome) {
        let end = End {
            method: method.as_str(),
            end: outcome.code(),
        };
        self.calls.get_or_create(&end).inc();
    }

    pub(crate) fn attempt_started(&self, method: Method) {
        self.inflight.get_or_create(&self.call(method)).inc();
    }

    pub(crate) fn attempt_finished(
        &self,
        method: Method,
        outcome: Result<(), &ClaimError>,
        took: Duration,
    ) {
        let call = self.call(method);
        self.inflight.get_or_create(&call).dec();
        match outcome {
            Ok(()) => {
                self.requests.get_or_create(&call).inc();
                let duration = self.durations.get_or_create(&call);
                duration.observe(took.as_secs_f64());
            }
            Err(error) => self.attempt_failed(method, error),
        }
    }

    pub(crate) fn attempt_failed(&self, method: Method, error: &ClaimError) {
        let failure = Failure {
            driver: self.driver,
            error_type: error.code(),
        };
        let errors = match method {
            Method::Prepare => &self.prepare_errors,
            Method::Unprepare => &self.unprepare_errors,
        };
        errors.get_or_create(&failure).inc();
    }

    pub(crate) fn retried(&self, method: Method) {
        let method = method.as_str();
        self.retries.get_or_create(&Retried { method }).inc();
    }

    pub(crate) fn claim_failed(&self, method: Method, error: &ClaimError) {
        let (method, error) = (method.as_str(), error.code());
        self.failed_claims
            .get_or_create(&Failed { method, error })
            .inc();
    }

    pub(crate) fn slice_request(&self, request: &'static str, outcome: Result<(), &'static str>) {
        let outcome = outcome.err().unwrap_or("ok");
        let slice = Slice { request, outcome };
        self.slices.get_or_create(&slice).inc();
    }

    pub(crate) fn registration_changed(&self, state: &Registration) {
        if state.is_registered() {
            self.registrations.inc();
        }
    }

    fn call(&self, method: Method) -> Call {
        Call {
            driver: self.driver,
            operation: method.as_str(),
        }
    }

    /// Adds a series to each metric: a family is served once it has one.
    #[cfg(feature = "testing")]
    pub fn add_series(&self) {
        // No `..`: a new family must be added here.
        let Self {
            driver,
            node: _,
            requests: _,
            durations: _,
            inflight: _,
            prepare_errors,
            unprepare_errors,
            prepared: _,
            calls,
            retries,
            failed_claims,
            status_writes,
            slices,
            generation: _,
            registrations: _,
            second_plugin: _,
        } = self;
        for errors in [prepare_errors, unprepare_errors] {
            let error_type = "any";
            drop(errors.get_or_create(&Failure { driver, error_type }));
        }
        let (method, end, error, outcome, request) = ("any", "any", "any", "any", "any");
        drop(calls.get_or_create(&End { method, end }));
        drop(retries.get_or_create(&Retried { method }));
        drop(failed_claims.get_or_create(&Failed { method, error }));
        drop(status_writes.get_or_create(&StatusWrite { outcome }));
        drop(slices.get_or_create(&Slice { request, outcome }));
    }
}

#[cfg(test)]
mod tests;
