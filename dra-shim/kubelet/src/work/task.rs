//! One operation at one claim, from its turn in the chain to its outcome.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Operation, Outcome, Progress, Shared};
use crate::attempt::{Fetched, delays, driver_panicked};
use crate::claim::ClaimRef;
use crate::driver::{ClaimError, Class, Driver};
use crate::observer::Method;
use crate::source::ClaimSource;

/// Retries end with an attempt this long before the answer is due, so that what
/// comes right in a call's last seconds is not missed.
const LAST_ATTEMPT: Duration = Duration::from_secs(1);

/// The task behind one operation.
pub(super) struct Task<D, S> {
    pub(super) shared: Arc<Shared<D, S>>,
    pub(super) operation: Operation,
    pub(super) claim: ClaimRef,
    pub(super) began: Instant,
    pub(super) progress: watch::Sender<Progress>,
}

impl<D: Driver, S: ClaimSource> Task<D, S> {
    /// Its span names the claim in every line that the driver logs.
    #[tracing::instrument(
        name = "claim",
        skip_all,
        fields(uid = %self.claim.uid, name = %self.claim.name, method = %self.operation.method)
    )]
    pub(super) async fn run(self, before: Option<watch::Receiver<Progress>>) {
        if let Some(mut before) = before {
            // An error means that its task is gone: just as well.
            let _ = before
                .wait_for(|progress| matches!(progress, Progress::Done(_)))
                .await;
        }
        // An attempt shields what it calls. What is left is what panics when it is
        // dropped: a claim whose task unwinds would be told that the driver ends.
        let outcome = AssertUnwindSafe(self.work())
            .catch_unwind()
            .await
            .unwrap_or_else(|_| Err(driver_panicked()));
        match &outcome {
            Ok(devices) => tracing::info!(devices = devices.len(), "claim done"),
            Err(error) => tracing::warn!(%error, "claim failed"),
        }
        self.leave_chain();
        self.shared.attempts.observer.claim_ended(
            self.operation.method,
            &self.claim,
            outcome.as_ref().map(|_| ()),
            self.began.elapsed(),
        );
        self.progress.send_replace(Progress::Done(outcome));
    }

    async fn work(&self) -> Outcome {
        let mut pauses = delays();
        let mut fetched = None;
        if self.too_late() {
            return Err(
                ClaimError::retry("an earlier call for the claim is still at work")
                    .with_code("busy"),
            );
        }
        loop {
            if let Some(error) = self.unwanted() {
                return Err(error);
            }
            let error = match self.attempt(&mut fetched).await {
                // Devices that an Unprepare is about to take away are no success.
                Ok(_) if self.is_superseded() => return Err(superseded()),
                Ok(devices) => return Ok(devices),
                Err(error) => error,
            };
            if error.class() == Class::Permanent {
                return Err(error);
            }
            let Some(delay) = self.pause(pauses.next().unwrap_or_default()) else {
                return Err(error);
            };
            tracing::debug!(%error, ?delay, "will try again");
            self.progress
                .send_replace(Progress::Working { last: Some(error) });
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = self.operation.cancel.cancelled() => {}
            }
        }
    }

    async fn attempt(&self, fetched: &mut Option<Fetched>) -> Outcome {
        let answer_by = *self.operation.answer_by.borrow();
        let (attempts, cancel) = (&self.shared.attempts, &self.operation.cancel);
        match self.operation.method {
            Method::Prepare => {
                attempts
                    .prepare(&self.claim, fetched, answer_by, cancel)
                    .await
            }
            Method::Unprepare => attempts.unprepare(&self.claim, answer_by, cancel).await,
        }
    }

    /// Whether an Unprepare follows. The end of a shutdown fires the same token,
    /// but lets nothing follow.
    fn is_superseded(&self) -> bool {
        self.operation.cancel.is_cancelled() && !self.shared.stop.is_cancelled()
    }

    /// Why no further attempt may start, if so.
    fn unwanted(&self) -> Option<ClaimError> {
        if self.shared.stop.is_cancelled() {
            return Some(ClaimError::shutting_down());
        }
        self.is_superseded().then(superseded)
    }

    /// True when no call waits any more. From then on nobody can join.
    fn too_late(&self) -> bool {
        let mut last = self.shared.lock();
        let too_late = Instant::now() >= *self.operation.answer_by.borrow();
        if too_late {
            self.leave(&mut last);
        }
        too_late
    }

    /// How long to wait before the next attempt: `delay`, or less for a last one
    /// that still leaves [`LAST_ATTEMPT`]. None when the last one is over; from
    /// then on nobody can join.
    fn pause(&self, delay: Duration) -> Option<Duration> {
        let mut last = self.shared.lock();
        let answer_by = *self.operation.answer_by.borrow();
        let left = answer_by.saturating_duration_since(Instant::now());
        if left <= LAST_ATTEMPT {
            self.leave(&mut last);
            return None;
        }
        Some(delay.min(left.saturating_sub(LAST_ATTEMPT)))
    }
}

impl<D, S> Task<D, S> {
    fn leave_chain(&self) {
        self.leave(&mut self.shared.lock());
    }

    /// Forgets the operation unless a later one has taken its place.
    fn leave(&self, last: &mut HashMap<String, Operation>) {
        let ours = |op: &Operation| op.progress.same_channel(&self.operation.progress);
        if last.get(&self.claim.uid).is_some_and(ours) {
            last.remove(&self.claim.uid);
        }
    }
}

impl<D, S> Drop for Task<D, S> {
    /// Also when the task is dropped unfinished, nobody may join it.
    fn drop(&mut self) {
        self.leave_chain();
    }
}

fn superseded() -> ClaimError {
    ClaimError::retry("the claim is being unprepared").with_code("superseded")
}
