//! Reports prepared devices in the status of their claims:
//!
//! ```yaml
//! status:
//!   devices:
//!   - driver: DRIVER
//!     pool: NODE
//!     device: NAME
//!     conditions: [{type: Ready, status: "True", reason: Prepared, ...}]
//!     data: {...}
//! ```
//!
//! The plugin sends a JSON patch. With a server-side apply the API server would rewrite the whole
//! claim, sort the keys of its opaque parameters, and then reject the result, because that changes
//! an allocation.
//!
//! Reports are informational and written in the background, after kubelet has its answer. At an orderly
//! shutdown the pending ones are written at once, within the time limit of the shutdown. After kill -9,
//! or while the API server is unreachable, a report is lost until kubelet calls for the claim again.
//! The API server removes it when the claim is deallocated.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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

/// A report is written at a random time within this one: the pods of a job start together on all
/// nodes, and the writes must not slow down nodes that still read their claims.
const SPREAD: Duration = Duration::from_secs(5);

/// Pauses before retries while the API server is unreachable or busy; up to 50 % longer at random.
const RETRY_AFTER: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(60)];

/// How long the shutdown waits for reports.
const FINISH_WITHIN: Duration = Duration::from_millis(1500);

/// How many reports may be pending: more than a node has pods.
const LIMIT: usize = 256;

/// The report of one prepared device.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceReport {
    /// The claim.
    pub claim: ClaimRef,
    /// The allocated device.
    pub result: DeviceResult,
    /// The message of the condition `Ready`.
    pub message: &'static str,
    /// The driver's facts about the device.
    pub data: Value,
    /// Whether the claim had reports of other devices when it was read.
    pub has_others: bool,
}

/// Writes reports. Cheap to clone.
#[derive(Clone)]
pub struct ClaimStatusWriter {
    client: Client,
    reporter: &'static str,
    metrics: Arc<Metrics>,
    permits: Arc<Semaphore>,
    /// Cancelled at shutdown; no pauses from then on.
    hurry: CancellationToken,
    /// Pending reports.
    waiting: TaskTracker,
    /// Whether a rejection was logged. Later ones most likely have the same cause.
    was_refused: Arc<AtomicBool>,
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Written,
    /// The claim is deleted, or another one has its name.
    Gone,
    /// The API server rejects it.
    Refused,
    /// A retry may succeed.
    Unanswered,
}

// === impl ClaimStatusWriter ===

impl ClaimStatusWriter {
    /// A writer with `reporter` as the field manager.
    pub fn new(client: Client, reporter: &'static str, metrics: Arc<Metrics>) -> Self {
        Self {
            client,
            reporter,
            metrics,
            permits: Arc::new(Semaphore::new(LIMIT)),
            hurry: CancellationToken::new(),
            waiting: TaskTracker::new(),
            was_refused: Arc::default(),
        }
    }

    /// Writes the report in the background.
    // req: NODE-40
    pub fn write(&self, report: DeviceReport) {
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

    /// Writes the pending reports, with one more attempt each, and returns after
    /// 1.5 s at the latest. No reports may be added afterwards.
    pub async fn finish(&self) {
        self.hurry.cancel();
        self.waiting.close();
        if timeout(FINISH_WITHIN, self.waiting.wait()).await.is_err() {
            let lost = self.waiting.len();
            warn!(
                lost,
                "prepared devices are missing in the status of some claims: the API server did not respond in time"
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
        self.hurry.run_until_cancelled(sleep(pause)).await;
    }

    async fn attempt(&self, report: &DeviceReport) -> Outcome {
        let written = match report.request(self.reporter) {
            // Not parsed: the answer is the whole claim, and other writers may have made it malformed.
            Ok(request) => self.client.request_text(request).await.map(drop),
            Err(error) => Err(error),
        };
        let outcome = Outcome::of(&written);
        if let Err(error) = &written {
            let (claim, error) = (&report.claim, error_chain(error));
            if outcome == Outcome::Refused && !self.was_refused.swap(true, Ordering::Relaxed) {
                warn!(%claim, error, "the API server rejects reports of prepared devices; further rejections are not logged, only counted in the metrics");
            } else {
                debug!(%claim, error, "cannot report the prepared device in the claim's status");
            }
        }
        outcome
    }
}

// === impl DeviceReport ===

impl DeviceReport {
    /// A patch that only adds this device's entry. The `test` operations protect another claim of
    /// the same name, and entries that another driver has written meanwhile.
    fn request(&self, reporter: &str) -> Result<http::Request<Vec<u8>>, kube::Error> {
        let ClaimRef {
            namespace,
            name,
            uid,
        } = &self.claim;
        let mut patch = vec![json!({"op": "test", "path": "/metadata/uid", "value": uid})];
        if self.has_others {
            patch.push(json!({"op": "add", "path": "/status/devices/-", "value": self.entry()}));
        } else {
            // A missing value equals null.
            patch.push(json!({"op": "test", "path": "/status/devices", "value": null}));
            patch.push(json!({"op": "add", "path": "/status/devices", "value": [self.entry()]}));
        }
        let patch = serde_json::from_value(Value::Array(patch))
            .map(Patch::<()>::Json)
            .map_err(kube::Error::SerdeError)?;
        let claims = ResourceClaim::url_path(&(), Some(namespace));
        let params = PatchParams {
            field_manager: Some(reporter.to_owned()),
            ..PatchParams::default()
        };
        Request::new(claims)
            .patch_subresource("status", name, &params, &patch)
            .map_err(kube::Error::BuildRequest)
    }

    fn entry(&self) -> Value {
        let mut entry = json!({
            "driver": self.result.driver(),
            "pool": self.result.pool(),
            "device": self.result.device(),
            "conditions": [{
                "type": "Ready",
                "status": "True",
                "reason": "Prepared",
                "message": self.message,
                "lastTransitionTime": format!("{:.0}", Timestamp::now()),
            }],
            "data": self.data,
        });
        if let (Some(share), Some(entry)) = (self.result.share_id(), entry.as_object_mut()) {
            entry.insert("shareID".to_owned(), json!(share));
        }
        entry
    }
}

/// The device reports in a claim's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reported {
    /// No reports.
    Nothing,
    /// Only reports of other devices.
    Others,
    /// A report of this device.
    ThisDevice,
}

/// Whether `status` has a report of the device of `result`, or others.
pub fn reported(status: &ClaimStatus, result: &DeviceResult) -> Reported {
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
                // 409: the UID differs.
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
