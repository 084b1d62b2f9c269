//! The chains of operations: which call joins which operation, and until when.
//!
//! All of it is decided under one lock, so that no call can join an operation that has
//! already decided to end.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::driver::Outcome;
use crate::error::ClaimError;
use crate::observer::Method;

/// Retries end with one attempt this long before the answer is due, so that a success
/// in a call's last seconds is not missed.
const LAST_ATTEMPT: Duration = Duration::from_secs(1);

/// The last operation of each claim's chain, by UID. Claims without a running operation
/// have no entry.
#[derive(Default)]
pub(super) struct Chains(Mutex<HashMap<String, Operation>>);

/// A running operation, as later calls see it.
#[derive(Clone)]
pub(super) struct Operation {
    pub(super) method: Method,
    pub(super) cancellation: CancellationToken,
    /// The latest of the times by which the waiting calls must be answered. Written
    /// only under the lock of [`Chains`].
    answer_by: watch::Sender<Instant>,
    pub(super) progress: watch::Receiver<Progress>,
}

/// How far an operation is.
#[derive(Clone, Debug)]
pub(super) enum Progress {
    /// Waiting for its predecessor, attempting, or pausing between attempts.
    Running {
        /// The error of the last attempt that has ended.
        last_error: Option<ClaimError>,
    },
    /// Over, and no longer in its chain.
    Done(Outcome),
}

/// A call's place in a claim's chain.
pub(super) enum Place {
    /// At a running operation.
    Joined(watch::Receiver<Progress>),
    /// At a new one, which the caller has to run.
    New {
        operation: Operation,
        progress: watch::Sender<Progress>,
        /// What has to end first.
        predecessor: Option<watch::Receiver<Progress>>,
    },
}

// === impl Operation ===

impl Operation {
    fn new(
        method: Method,
        answer_by: Instant,
        stop: &CancellationToken,
    ) -> (Self, watch::Sender<Progress>) {
        let (sender, progress) = watch::channel(Progress::Running { last_error: None });
        let operation = Self {
            method,
            cancellation: stop.child_token(),
            answer_by: watch::Sender::new(answer_by),
            progress,
        };
        (operation, sender)
    }

    pub(super) fn answer_by(&self) -> Instant {
        *self.answer_by.borrow()
    }

    /// A cancelled operation is not joined: its outcome will be an error.
    fn is_joined_by(&self, method: Method) -> bool {
        self.method == method && !self.cancellation.is_cancelled()
    }
}

// === impl Chains ===

impl Chains {
    /// Joins the last operation of the claim's chain or appends one, which is cancelled
    /// with `stop`. An Unprepare cancels the Prepare that it follows.
    // req: KUBELET-26, KUBELET-28
    pub(super) fn place(
        &self,
        uid: &str,
        method: Method,
        answer_by: Instant,
        stop: &CancellationToken,
    ) -> Place {
        let mut chains = self.lock();
        let last = chains.get(uid);
        if let Some(running) = last.filter(|last| last.is_joined_by(method)) {
            running.answer_by.send_modify(|by| *by = answer_by.max(*by));
            return Place::Joined(running.progress.clone());
        }
        if let Some(prepare) = last.filter(|_| method == Method::Unprepare) {
            prepare.cancellation.cancel();
        }
        let predecessor = last.map(|last| last.progress.clone());
        let (operation, progress) = Operation::new(method, answer_by, stop);
        chains.insert(uid.to_owned(), operation.clone());
        Place::New {
            operation,
            progress,
            predecessor,
        }
    }

    /// Whether no call waits for the operation any more. If so, it has left its chain.
    pub(super) fn leave_if_expired(&self, uid: &str, operation: &Operation) -> bool {
        let mut chains = self.lock();
        let expired = Instant::now() >= operation.answer_by();
        if expired {
            remove(&mut chains, uid, operation);
        }
        expired
    }

    /// The pause before the next attempt: `delay`, or less before the last one, which
    /// begins [`LAST_ATTEMPT`] before the answer is due. `None` after the last one; the
    /// operation has left its chain then.
    pub(super) fn pause_or_leave(
        &self,
        uid: &str,
        operation: &Operation,
        delay: Duration,
    ) -> Option<Duration> {
        let mut chains = self.lock();
        let remaining = operation
            .answer_by()
            .saturating_duration_since(Instant::now());
        if remaining <= LAST_ATTEMPT {
            remove(&mut chains, uid, operation);
            return None;
        }
        Some(delay.min(remaining.saturating_sub(LAST_ATTEMPT)))
    }

    /// Nobody can join the operation from now on. Idempotent.
    pub(super) fn leave(&self, uid: &str, operation: &Operation) {
        remove(&mut self.lock(), uid, operation);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Operation>> {
        // No code that can panic runs under the lock, and each change is one step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes the operation, unless a later one has taken its place.
fn remove(chains: &mut HashMap<String, Operation>, uid: &str, operation: &Operation) {
    let is_same = |last: &Operation| last.progress.same_channel(&operation.progress);
    if chains.get(uid).is_some_and(is_same) {
        chains.remove(uid);
    }
}
