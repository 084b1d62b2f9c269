//! Runs one operation in a task: waits for its predecessor, attempts, retries, and reports the
//! outcome.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::attempt::{Attempts, FetchedClaim, delays, driver_panicked};
use super::chains::{Chains, Operation, Progress};
use crate::claim_source::ClaimSource;
use crate::driver::{Driver, Outcome};
use crate::error::{ClaimError, ErrorClass};
use crate::observer::Method;
use dra_claim::ClaimRef;

/// The state that all operations of a plugin share.
pub(super) struct Shared<D, S> {
    pub(super) attempts: Attempts<D, S>,
    pub(super) chains: Chains,
    /// Parent of every operation's cancellation. Fires at the end of a shutdown's grace
    /// period.
    pub(super) stop: CancellationToken,
}

/// One operation with its inputs.
pub(super) struct Task<D, S> {
    pub(super) shared: Arc<Shared<D, S>>,
    pub(super) operation: Operation,
    pub(super) claim: ClaimRef,
    pub(super) began: Instant,
    pub(super) progress: watch::Sender<Progress>,
}

// === impl Task ===

impl<D: Driver, S: ClaimSource> Task<D, S> {
    /// Runs the operation in a span that names the claim in the driver's log lines. The span
    /// has level `error`, so that a filter for warnings does not remove it.
    #[tracing::instrument(
        name = "claim",
        level = "error",
        skip_all,
        fields(
            uid = %self.claim.uid,
            namespace = %self.claim.namespace,
            name = %self.claim.name,
            method = %self.operation.method,
        )
    )]
    pub(super) async fn run(self, predecessor: Option<watch::Receiver<Progress>>) {
        if let Some(mut predecessor) = predecessor {
            // An error means that its task has ended, which is enough.
            let _ = predecessor
                .wait_for(|progress| matches!(progress, Progress::Done(_)))
                .await;
        }
        let observer = &self.shared.attempts.observer;
        observer.claim_started(self.operation.method, &self.claim);
        // An attempt catches panics of the driver's methods. This catches panics in the drop
        // of a driver's value.
        let outcome = AssertUnwindSafe(self.attempts())
            .catch_unwind()
            .await
            .unwrap_or_else(|_| Err(driver_panicked()));
        match &outcome {
            Ok(devices) => tracing::info!(devices = devices.len(), "claim done"),
            Err(error) => tracing::warn!(%error, "claim failed"),
        }
        self.leave_chain();
        self.shared.attempts.observer.claim_finished(
            self.operation.method,
            &self.claim,
            outcome.as_ref().map(|_| ()),
            self.began.elapsed(),
        );
        self.progress.send_replace(Progress::Done(outcome));
    }

    /// Attempts until one succeeds or fails permanently, or no call waits any more.
    // req: KUBELET-24
    async fn attempts(&self) -> Outcome {
        let (uid, chains) = (&self.claim.uid, &self.shared.chains);
        if chains.leave_if_expired(uid, &self.operation) {
            return Err(
                ClaimError::retry("an earlier call for the claim is still in progress")
                    .with_code("busy"),
            );
        }
        let mut delays = delays();
        let mut fetched = None;
        loop {
            if let Some(error) = self.reason_to_stop() {
                return Err(error);
            }
            let error = match self.attempt(&mut fetched).await {
                // An Unprepare is about to release these devices.
                Ok(_) if self.is_superseded() => return Err(superseded()),
                Ok(devices) => return Ok(devices),
                Err(error) => error,
            };
            if error.class() == ErrorClass::Permanent {
                return Err(error);
            }
            let delay = delays.next().unwrap_or_default();
            let Some(pause) = chains.pause_or_leave(uid, &self.operation, delay) else {
                return Err(error);
            };
            tracing::debug!(%error, ?pause, "attempt failed; retrying after a pause");
            self.progress.send_replace(Progress::Running {
                last_error: Some(error),
            });
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.operation.cancellation.cancelled() => {}
            }
        }
    }

    async fn attempt(&self, fetched: &mut Option<FetchedClaim>) -> Outcome {
        let answer_by = self.operation.answer_by();
        let attempts = &self.shared.attempts;
        let cancellation = &self.operation.cancellation;
        let method = self.operation.method;
        let permits = &attempts.permits;
        let _permit = permits.acquire(method, answer_by, cancellation).await?;
        // Boxed, because the driver's futures are many times larger than the operation: an
        // operation that waits for a permit does not need space for them.
        match method {
            Method::Prepare => {
                Box::pin(attempts.prepare(&self.claim, fetched, answer_by, cancellation)).await
            }
            Method::Unprepare => {
                Box::pin(attempts.unprepare(&self.claim, answer_by, cancellation)).await
            }
        }
    }

    /// Whether an Unprepare follows. The end of a shutdown also cancels the operation, but no
    /// operation follows then.
    fn is_superseded(&self) -> bool {
        self.operation.cancellation.is_cancelled() && !self.shared.stop.is_cancelled()
    }

    /// The error if no further attempt may begin.
    // req: KUBELET-27
    fn reason_to_stop(&self) -> Option<ClaimError> {
        if self.shared.stop.is_cancelled() {
            return Some(ClaimError::shutting_down());
        }
        self.is_superseded().then(superseded)
    }
}

impl<D, S> Task<D, S> {
    fn leave_chain(&self) {
        self.shared.chains.leave(&self.claim.uid, &self.operation);
    }
}

impl<D, S> Drop for Task<D, S> {
    /// No call may join a task that is dropped unfinished.
    fn drop(&mut self) {
        self.leave_chain();
    }
}

fn superseded() -> ClaimError {
    ClaimError::retry("the claim is being unprepared").with_code("superseded")
}
