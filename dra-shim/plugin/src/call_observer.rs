//! Turns each `dra-kubelet` event into metrics and entries of the claims in progress, and
//! reports failed claims as Kubernetes events.

use std::sync::Arc;
use std::time::Duration;

use daemon_runtime::Events;
use dra_kubelet::{CallOutcome, ClaimError, ClaimRef, Method, Observer, Registration};
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use crate::in_flight::InFlight;
use crate::metrics::Metrics;
use crate::references::claim_reference;

/// Codes of claims for which kubelet no longer waits. They are not reported as failed.
const INTERRUPTED: [&str; 3] = ["cancelled", "superseded", "shutting-down"];

/// A Prepare that takes longer than this is reported.
const WAITS_AFTER: Duration = Duration::from_secs(5);

/// Passes events of `dra-kubelet` on to metrics, claims in progress and Kubernetes events.
#[derive(Debug)]
pub struct CallObserver {
    /// Gets every event.
    pub metrics: Arc<Metrics>,
    /// Gets the claims in progress.
    pub in_flight: InFlight,
    /// Gets failed claims, and those that wait long.
    pub events: Events,
}

/// Reports a Prepare that still runs after [`WAITS_AFTER`]. kubelet's event would come only when the call times out.
// req: NODE-46
async fn report_wait(in_flight: InFlight, events: Events, claim: ClaimRef, since: Instant) {
    sleep_until(since + WAITS_AFTER).await;
    if let Some((object, reason)) = in_flight.waiting(&claim, since) {
        let note = format!("claim {}: {reason}", claim.name);
        events.warning(&object, "PrepareWaits", "Prepare", &note);
    }
}

impl Observer for CallObserver {
    fn call_finished(&self, method: Method, outcome: CallOutcome, _: Duration) {
        self.metrics.call_finished(method, outcome);
    }

    fn claim_started(&self, method: Method, claim: &ClaimRef) {
        let since = self.in_flight.started(method, claim);
        if method == Method::Prepare {
            let (in_flight, events) = (self.in_flight.clone(), self.events.clone());
            let report = report_wait(in_flight, events, claim.clone(), since);
            let task = AbortOnDropHandle::new(tokio::spawn(report));
            self.in_flight.reported_by(claim, task);
        }
    }

    fn claim_read(&self, claim: &ClaimRef, outcome: Result<(), &ClaimError>, _: Duration) {
        if let Err(error) = outcome {
            // A claim that cannot be read never reaches the driver, but counts as a failed
            // attempt, too.
            self.metrics.attempt_failed(Method::Prepare, error);
            self.in_flight.failed(Method::Prepare, claim, error);
        }
    }

    fn attempt_started(&self, method: Method, claim: &ClaimRef) {
        self.metrics.attempt_started(method);
        if self.in_flight.attempt_started(method, claim) {
            self.metrics.retried(method);
        }
    }

    fn attempt_finished(
        &self,
        method: Method,
        claim: &ClaimRef,
        outcome: Result<(), &ClaimError>,
        took: Duration,
    ) {
        self.metrics.attempt_finished(method, outcome, took);
        if let Err(error) = outcome {
            self.in_flight.failed(method, claim, error);
        }
    }

    fn claim_finished(
        &self,
        method: Method,
        claim: &ClaimRef,
        outcome: Result<(), &ClaimError>,
        _: Duration,
    ) {
        self.in_flight.finished(method, claim);
        let Err(error) = outcome else { return };
        self.metrics.claim_failed(method, error);
        if INTERRUPTED.contains(&error.code()) {
            return;
        }
        let (reason, action) = match method {
            Method::Prepare => ("PrepareFailed", "Prepare"),
            Method::Unprepare => ("UnprepareFailed", "Unprepare"),
        };
        let note = format!("{}: {}", error.code(), error.message());
        self.events
            .warning(&claim_reference(claim), reason, action, &note);
    }

    fn slice_request(&self, request: &'static str, outcome: Result<(), &'static str>, _: Duration) {
        self.metrics.slice_request(request, outcome);
    }

    fn registration_changed(&self, state: &Registration) {
        self.metrics.registration_changed(state);
    }
}
