//! Reports prepared devices in their claims, where users and other programs see them:
//!
//! ```yaml
//! status:
//!   devices:
//!   - driver: compute-domain.nvidia.com
//!     pool: NODE
//!     device: channel-0
//!     conditions: [{type: Ready, status: "True", reason: Prepared, ...}]
//!     data: {computeDomain: UID, clique: UUID.ID, channel: 0}
//! ```
//!
//! It is written with a JSON patch. A server-side apply would have the API server write the whole
//! claim anew, opaque parameters with sorted keys included, and refuse its own result: that changes
//! an allocation.
//!
//! A report is for people. It is written after kubelet has its answer, and nobody waits for it. Those
//! that wait at an orderly end of the process are written at once, and no later than the end may take.
//! After kill -9, or while the API server is away, a report is lost until kubelet calls for the claim
//! again; the API server removes it when the claim is deallocated.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use compute_domain_api::names::{CLAIM_REPORTER, DRIVER_NAME};
use dra_common::error_chain;
use dra_kubelet::{ClaimRef, ClaimStatus, DeviceResult};
use jiff::Timestamp;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::api::{Patch, PatchParams};
use kube::core::Request;
use kube::{Client, Resource as _};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use crate::metrics::Metrics;

/// A report is written within this time, at random: the pods of a job start together on all nodes,
/// and the writes must not get in the way of those nodes that still read their claims.
const SPREAD: Duration = Duration::from_secs(5);

/// Pauses before further attempts, while the API server is away or busy; up to half as much longer.
const RETRY_AFTER: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(60)];

/// How long the end of the process waits for reports.
const FINISH_WITHIN: Duration = Duration::from_millis(1500);

/// How many reports may wait: more than a node has pods.
const LIMIT: usize = 256;

/// What a prepared device is reported with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DeviceReport {
    pub(crate) claim: ClaimRef,
    pub(crate) result: DeviceResult,
    /// The UID of the `ComputeDomain`.
    pub(crate) domain: String,
    /// `<cluster UUID>.<id>`, if the node is in one.
    pub(crate) clique: Option<String>,
    pub(crate) channel: u32,
    /// Whether the claim had reports of other devices when it was read.
    pub(crate) has_others: bool,
}

/// Writes reports. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ClaimStatusWriter {
    client: Client,
    metrics: Arc<Metrics>,
    permits: Arc<Semaphore>,
    /// Cancelled when there is no time left for pauses.
    hurry: CancellationToken,
    /// The reports that are not written yet.
    waiting: TaskTracker,
    /// Whether a refusal was logged: the next one is most likely of the same kind.
    was_refused: Arc<AtomicBool>,
}

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Written,
    /// The claim is gone, or another one has its name.
    Gone,
    /// The API server will not take it.
    Refused,
    /// It may take it later.
    Unanswered,
}

// === impl ClaimStatusWriter ===

impl ClaimStatusWriter {
    pub(crate) fn new(client: Client, metrics: Arc<Metrics>) -> Self {
        Self {
            client,
            metrics,
            permits: Arc::new(Semaphore::new(LIMIT)),
            hurry: CancellationToken::new(),
            waiting: TaskTracker::new(),
            was_refused: Arc::default(),
        }
    }

    /// Writes the report soon, in the background.
    // req: NODE-40
    pub(crate) fn write(&self, report: DeviceReport) {
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            self.metrics.status_written("dropped");
            return;
        };
        let writer = self.clone();
        self.waiting.spawn(async move {
            writer.pause(SPREAD.mul_f64(fastrand::f64())).await;
            let outcome = writer.attempts(&report).await;
            writer.metrics.status_written(outcome.code());
            drop(permit);
        });
    }

    /// Writes what waits, each once more at most, and returns after [`FINISH_WITHIN`] at the
    /// latest. Reports must not be added any more.
    pub(crate) async fn finish(&self) {
        self.hurry.cancel();
        self.waiting.close();
        if timeout(FINISH_WITHIN, self.waiting.wait()).await.is_err() {
            let lost = self.waiting.len();
            warn!(
                lost,
                "prepared devices are not reported in their claims: the API server takes too long"
            );
        }
    }

    async fn attempts(&self, report: &DeviceReport) -> Outcome {
        for pause in RETRY_AFTER {
            let is_last = self.hurry.is_cancelled();
            let outcome = self.attempt(report).await;
            if outcome != Outcome::Unanswered || is_last {
                return outcome;
            }
            self.pause(pause.mul_f64(1.0 + fastrand::f64() / 2.0)).await;
        }
        self.attempt(report).await
    }

    async fn pause(&self, pause: Duration) {
        // Whichever comes first.
        self.hurry.run_until_cancelled(sleep(pause)).await;
    }

    async fn attempt(&self, report: &DeviceReport) -> Outcome {
        let written = match report.request() {
            // The answer is the whole claim, which others may have made unreadable.
            Ok(request) => self.client.request_text(request).await.map(drop),
            Err(error) => Err(error),
        };
        let outcome = Outcome::of(&written);
        if let Err(error) = &written {
            let (claim, error) = (&report.claim, error_chain(error));
            if outcome == Outcome::Refused && !self.was_refused.swap(true, Ordering::Relaxed) {
                warn!(%claim, error, "the API server refuses reports of prepared devices; further refusals are only counted");
            } else {
                debug!(%claim, error, "the prepared device is not reported in its claim");
            }
        }
        outcome
    }
}

// === impl DeviceReport ===

impl DeviceReport {
    /// A patch that adds this device's entry and changes nothing else. The tests keep it from
    /// another claim of the same name, and from what another driver has reported meanwhile.
    fn request(&self) -> Result<http::Request<Vec<u8>>, kube::Error> {
        let ClaimRef {
            namespace,
            name,
            uid,
        } = &self.claim;
        let mut patch = vec![json!({"op": "test", "path": "/metadata/uid", "value": uid})];
        if self.has_others {
            patch.push(json!({"op": "add", "path": "/status/devices/-", "value": self.entry()}));
        } else {
            // A value that is missing is equal to null.
            patch.push(json!({"op": "test", "path": "/status/devices", "value": null}));
            patch.push(json!({"op": "add", "path": "/status/devices", "value": [self.entry()]}));
        }
        let patch = serde_json::from_value(Value::Array(patch))
            .map(Patch::<()>::Json)
            .map_err(kube::Error::SerdeError)?;
        let claims = ResourceClaim::url_path(&(), Some(namespace));
        let params = PatchParams {
            field_manager: Some(CLAIM_REPORTER.to_owned()),
            ..PatchParams::default()
        };
        Request::new(claims)
            .patch_subresource("status", name, &params, &patch)
            .map_err(kube::Error::BuildRequest)
    }

    fn entry(&self) -> Value {
        let mut entry = json!({
            "driver": DRIVER_NAME,
            "pool": self.result.pool(),
            "device": self.result.device(),
            "conditions": [{
                "type": "Ready",
                "status": "True",
                "reason": "Prepared",
                "message": "the node has prepared the IMEX channel for its pods",
                "lastTransitionTime": format!("{:.0}", Timestamp::now()),
            }],
            "data": {
                "computeDomain": self.domain,
                "clique": self.clique,
                "channel": self.channel,
            },
        });
        if let (Some(share), Some(entry)) = (self.result.share_id(), entry.as_object_mut()) {
            entry.insert("shareID".to_owned(), json!(share));
        }
        entry
    }
}

/// What a claim's status says of its devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reported {
    /// Nothing of any device.
    Nothing,
    /// Something of other devices.
    Others,
    /// This device is reported already.
    ThisDevice,
}

/// What the claim's `status` says of the device of `result`.
pub(crate) fn reported(status: &ClaimStatus, result: &DeviceResult) -> Reported {
    match status.devices() {
        [] => Reported::Nothing,
        devices if devices.iter().any(|device| device.is_of(result)) => Reported::ThisDevice,
        _ => Reported::Others,
    }
}

// === impl Outcome ===

impl Outcome {
    fn of(written: &Result<(), kube::Error>) -> Self {
        match written {
            Ok(()) => Self::Written,
            Err(kube::Error::Api(status)) => match status.code {
                // 409: the UID is another one's.
                404 | 409 => Self::Gone,
                401 | 429 | 500.. => Self::Unanswered,
                _ => Self::Refused,
            },
            Err(_) => Self::Unanswered,
        }
    }

    fn code(self) -> &'static str {
        match self {
            Self::Written => "ok",
            Self::Gone => "gone",
            Self::Refused => "refused",
            Self::Unanswered => "unanswered",
        }
    }
}

#[cfg(test)]
#[path = "claim_status_tests.rs"]
mod tests;
