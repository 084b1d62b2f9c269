//! The chains of operations: decide whether a call joins an operation, and when an operation
//! ends.
//!
//! All decisions are made under one lock, so that no call can join an operation that has
//! decided to end.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::driver::Outcome;
use crate::error::ClaimError;
use crate::observer::Method;

/// Time of the last attempt before the answer is due, so that a success in a call's last
/// seconds is not missed.
const LAST_ATTEMPT: Duration = Duration::from_secs(1);

/// The last operation of each claim's chain, by UID. Claims without a running operation
/// have no entry.
#[derive(Default)]
pub(super) struct Chains(Mutex<HashMap<String, Operation>>);

/// A running operation, for the calls that join or follow it.
#[derive(Clone)]
pub(super) struct Operation {
    pub(super) method: Method,
    pub(super) cancellation: CancellationToken,
    /// The latest time by which a waiting call must be answered. Written only under the
    /// lock of [`Chains`].
    answer_by: watch::Sender<Instant>,
    pub(super) progress: watch::Receiver<Progress>,
}

/// The progress of an operation.
#[derive(Clone, Debug)]
pub(super) enum Progress {
    /// Waiting for its predecessor, attempting, or pausing between attempts.
    Running {
        /// The error of the last attempt.
        last_error: Option<ClaimError>,
    },
    /// Finished, and no longer in its chain.
    Done(Outcome),
}

/// A call's place in a claim's chain.
pub(super) enum Place {
    /// The call joined a running operation.
    Joined(watch::Receiver<Progress>),
    /// The call has a new operation, which the caller must run.
    New {
        operation: Operation,
        progress: watch::Sender<Progress>,
        /// The operation that must end first.
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

    /// Whether a call of this method joins the operation. A cancelled operation is not joined:
    /// its outcome will be an error.
    fn is_joined_by(&self, method: Method) -> bool {
        self.method == method && !self.cancellation.is_cancelled()
    }
}

// === impl Chains ===

impl Chains {
    /// Joins the last operation of the claim's chain, or appends one that `stop` cancels. An
    /// Unprepare cancels the Prepare that it follows.
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

    /// Whether no call waits for the operation any more. If so, removes it from its chain.
    pub(super) fn leave_if_expired(&self, uid: &str, operation: &Operation) -> bool {
        let mut chains = self.lock();
        let expired = Instant::now() >= operation.answer_by();
        if expired {
            remove(&mut chains, uid, operation);
        }
        expired
    }

    /// Returns the pause before the next attempt: `delay`, or less before the last attempt,
    /// which begins [`LAST_ATTEMPT`] before the answer is due. After the last attempt, removes
    /// the operation from its chain and returns `None`.
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

    /// Removes the operation from its chain, so that no call can join it. Idempotent.
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

/// Removes the operation, unless a later one has replaced it.
fn remove(chains: &mut HashMap<String, Operation>, uid: &str, operation: &Operation) {
    let is_same = |last: &Operation| last.progress.same_channel(&operation.progress);
    if chains.get(uid).is_some_and(is_same) {
        chains.remove(uid);
    }
}
