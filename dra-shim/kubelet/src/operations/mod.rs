//! Operations: Prepare and Unprepare of claims, independent of kubelet's calls.
//!
//! Each claim UID has at most one chain of operations. An operation runs in its own task and
//! outlives the call that began it. A call of the same method joins the last operation of
//! the chain. A call of the other method is queued behind it; an Unprepare first cancels
//! the Prepare that it follows.
//!
//! ```text
//! Operations ──► Chains (join or append) ──► Task (retries) ──► Attempts ──► Driver
//! ```

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::claim_source::ClaimSource;
use crate::driver::{Driver, Outcome};
use crate::error::ClaimError;
use crate::observer::{Method, Observer};
use dra_claim::ClaimRef;

mod attempt;
mod chains;
mod device_checks;
mod task;

use attempt::{Attempts, Permits};
use chains::{Chains, Place, Progress};
use task::{Shared, Task};

/// All operations of one plugin. Clones share them.
pub(crate) struct Operations<D, S> {
    shared: Arc<Shared<D, S>>,
    tasks: TaskTracker,
}

/// A call's handle on one operation.
pub(crate) struct OperationHandle {
    method: Method,
    progress: watch::Receiver<Progress>,
}

/// Ends all operations of a plugin. Dropping it cancels every operation at once, and no
/// further attempt begins.
pub(crate) struct Drain {
    tasks: TaskTracker,
    stop: CancellationToken,
}

// === impl Operations ===

impl<D, S> Clone for Operations<D, S> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            tasks: self.tasks.clone(),
        }
    }
}

impl<D: Driver, S: ClaimSource> Operations<D, S> {
    pub(crate) fn new(
        driver_name: String,
        driver: D,
        source: S,
        observer: Arc<dyn Observer>,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                attempts: Attempts {
                    driver_name,
                    driver,
                    source,
                    observer,
                    permits: Permits::new(),
                },
                chains: Chains::default(),
                stop: CancellationToken::new(),
            }),
            tasks: TaskTracker::new(),
        }
    }

    /// Joins the claim's running operation of this method, or begins one. Dropping the handle
    /// does not affect the operation.
    pub(crate) fn submit(
        &self,
        method: Method,
        claim: ClaimRef,
        answer_by: Instant,
    ) -> OperationHandle {
        let shared = Arc::clone(&self.shared);
        let place = shared
            .chains
            .place(&claim.uid, method, answer_by, &shared.stop);
        let progress = match place {
            Place::Joined(progress) => progress,
            Place::New {
                operation,
                progress: sender,
                predecessor,
            } => {
                let progress = operation.progress.clone();
                let task = Task {
                    shared,
                    operation,
                    claim,
                    began: Instant::now(),
                    progress: sender,
                };
                self.tasks.spawn(task.run(predecessor));
                progress
            }
        };
        OperationHandle { method, progress }
    }

    pub(crate) fn observer(&self) -> &dyn Observer {
        &*self.shared.attempts.observer
    }

    pub(crate) fn drain(&self) -> Drain {
        Drain {
            tasks: self.tasks.clone(),
            stop: self.shared.stop.clone(),
        }
    }
}

// === impl OperationHandle ===

impl OperationHandle {
    /// Returns the operation's outcome, or at `answer_by` its last error.
    pub(crate) async fn outcome(mut self, answer_by: Instant) -> Outcome {
        let done = self
            .progress
            .wait_for(|progress| matches!(progress, Progress::Done(_)));
        let done = tokio::time::timeout_at(answer_by, done)
            .await
            .map(|done| done.is_ok());
        match &*self.progress.borrow() {
            Progress::Done(outcome) => outcome.clone(),
            // The task ended without an outcome. Panics are caught, so the runtime is
            // shutting down.
            Progress::Running { .. } if done == Ok(false) => Err(ClaimError::shutting_down()),
            Progress::Running {
                last_error: Some(error),
            } => Err(error.clone()),
            Progress::Running { last_error: None } => Err(unfinished(self.method)),
        }
    }
}

fn unfinished(method: Method) -> ClaimError {
    ClaimError::retry(match method {
        Method::Prepare => {
            "Prepare takes longer than kubelet waits; the work continues, and kubelet retries"
        }
        Method::Unprepare => {
            "Unprepare takes longer than kubelet waits; the work continues, and kubelet retries"
        }
    })
    .with_code("unfinished")
}

// === impl Drain ===

impl Drain {
    /// Waits `grace` for running operations, then cancels them and waits another `after`.
    /// Returns false if some are still running.
    ///
    /// Dropping the future midway drops the drain.
    pub(crate) async fn run(self, grace: Duration, after: Duration) -> bool {
        self.tasks.close();
        let ended_in_time = tokio::time::timeout(grace, self.tasks.wait()).await.is_ok();
        self.stop.cancel();
        ended_in_time || tokio::time::timeout(after, self.tasks.wait()).await.is_ok()
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[cfg(test)]
mod tests;
