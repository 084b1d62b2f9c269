//! The work of claims, apart from the calls that ask for it.
//!
//! Each claim UID has at most one chain of operations. An operation runs in a task
//! of its own and outlives the call that began it. A call of the same kind joins
//! the last operation of the chain; one of the other kind is put behind it, and an
//! Unprepare first cancels the Prepare that it follows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::attempt::{Attempts, Fetched};
use crate::claim::ClaimRef;
use crate::driver::{ClaimError, Class, Device, Driver};
use crate::source::ClaimSource;

/// Retries end with an attempt this long before the answer is due, so that what
/// comes right in a call's last seconds is not missed.
const LAST_ATTEMPT: Duration = Duration::from_secs(1);

/// What an operation ends with. Unprepare answers with no devices.
pub(crate) type Outcome = Result<Vec<Device>, ClaimError>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Prepare,
    Unprepare,
}

/// All claims of one plugin. Clones share them.
pub(crate) struct Work<D, S> {
    shared: Arc<Shared<D, S>>,
}

struct Shared<D, S> {
    attempts: Attempts<D, S>,
    /// The last operation of each claim's chain, by UID.
    last: Mutex<HashMap<String, Operation>>,
    tasks: TaskTracker,
    /// Parent of every operation's token: fires at the end of shutdown's grace.
    stop: CancellationToken,
}

/// An operation under way, as later calls see it.
#[derive(Clone)]
struct Operation {
    kind: Kind,
    cancel: CancellationToken,
    /// The latest answer time of the calls that wait for it. Moved, and finally
    /// judged, only under the lock of `Shared::last`: no call can join an
    /// operation that has already decided to give up.
    answer_by: watch::Sender<Instant>,
    progress: watch::Receiver<Progress>,
}

#[derive(Clone, Debug)]
enum Progress {
    Working { last: Option<ClaimError> },
    Done(Outcome),
}

/// The end of all work of a plugin.
pub(crate) struct Drain {
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// A call's place at an operation.
pub(crate) struct Ticket {
    kind: Kind,
    progress: watch::Receiver<Progress>,
}

impl<D, S> Clone for Work<D, S> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<D: Driver, S: ClaimSource> Work<D, S> {
    pub(crate) fn new(driver_name: String, driver: D, source: S) -> Self {
        Self {
            shared: Arc::new(Shared {
                attempts: Attempts {
                    driver_name,
                    driver,
                    source,
                },
                last: Mutex::default(),
                tasks: TaskTracker::new(),
                stop: CancellationToken::new(),
            }),
        }
    }

    /// Joins the claim's running operation of this kind or begins one. The work
    /// goes on whether or not the ticket is kept.
    pub(crate) fn submit(&self, kind: Kind, claim: ClaimRef, answer_by: Instant) -> Ticket {
        let mut last = self.shared.lock();
        let before = last.get(&claim.uid);
        if let Some(running) = before.filter(|op| op.kind == kind && !op.cancel.is_cancelled()) {
            running.answer_by.send_if_modified(|by| {
                let later = answer_by > *by;
                *by = answer_by.max(*by);
                later
            });
            return Ticket {
                kind,
                progress: running.progress.clone(),
            };
        }
        if let Some(prepare) = before.filter(|_| kind == Kind::Unprepare) {
            prepare.cancel.cancel();
        }
        let before = before.map(|op| op.progress.clone());
        let (sender, progress) = watch::channel(Progress::Working { last: None });
        let operation = Operation {
            kind,
            cancel: self.shared.stop.child_token(),
            answer_by: watch::Sender::new(answer_by),
            progress: progress.clone(),
        };
        last.insert(claim.uid.clone(), operation.clone());
        drop(last);
        let task = Task {
            shared: Arc::clone(&self.shared),
            operation,
            claim,
            progress: sender,
        };
        self.shared.tasks.spawn(task.run(before));
        Ticket { kind, progress }
    }

    pub(crate) fn drain(&self) -> Drain {
        Drain {
            tasks: self.shared.tasks.clone(),
            stop: self.shared.stop.clone(),
        }
    }
}

impl Drain {
    /// Lets work in flight end by itself for `grace`, then cancels it and waits
    /// `after` for the steps that heed that. False when some did not.
    pub(crate) async fn run(self, grace: Duration, after: Duration) -> bool {
        self.tasks.close();
        let by_itself = tokio::time::timeout(grace, self.tasks.wait()).await.is_ok();
        self.stop.cancel();
        by_itself || tokio::time::timeout(after, self.tasks.wait()).await.is_ok()
    }
}

impl<D, S> Shared<D, S> {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Operation>> {
        // No code that can panic runs under the lock, and each change is one step.
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// The operation's outcome, or at `answer_by` the last error that is known.
    pub(crate) async fn outcome(mut self, answer_by: Instant) -> Outcome {
        let done = self
            .progress
            .wait_for(|progress| matches!(progress, Progress::Done(_)));
        let done = tokio::time::timeout_at(answer_by, done)
            .await
            .map(|done| done.is_ok());
        match &*self.progress.borrow() {
            Progress::Done(outcome) => outcome.clone(),
            // The task is gone without an outcome: the runtime is going down.
            Progress::Working { .. } if done == Ok(false) => {
                Err(ClaimError::retry("the driver is shutting down"))
            }
            Progress::Working { last: Some(error) } => Err(error.clone()),
            Progress::Working { last: None } => Err(unfinished(self.kind)),
        }
    }
}

fn superseded() -> ClaimError {
    ClaimError::retry("the claim is being unprepared")
}

fn unfinished(kind: Kind) -> ClaimError {
    ClaimError::retry(match kind {
        Kind::Prepare => "preparing takes longer than kubelet waits; it goes on",
        Kind::Unprepare => "unpreparing takes longer than kubelet waits; it goes on",
    })
}

/// The task behind one operation.
struct Task<D, S> {
    shared: Arc<Shared<D, S>>,
    operation: Operation,
    claim: ClaimRef,
    progress: watch::Sender<Progress>,
}

impl<D: Driver, S: ClaimSource> Task<D, S> {
    /// Its span names the claim in every line that the driver logs.
    #[tracing::instrument(
        name = "claim",
        skip_all,
        fields(uid = %self.claim.uid, name = %self.claim.name, kind = ?self.operation.kind)
    )]
    async fn run(self, before: Option<watch::Receiver<Progress>>) {
        if let Some(mut before) = before {
            // An error means that its task is gone: just as well.
            let _ = before
                .wait_for(|progress| matches!(progress, Progress::Done(_)))
                .await;
        }
        let outcome = self.work().await;
        match &outcome {
            Ok(devices) => tracing::info!(devices = devices.len(), "claim done"),
            Err(error) => tracing::warn!(%error, "claim failed"),
        }
        self.leave_chain();
        self.progress.send_replace(Progress::Done(outcome));
    }

    async fn work(&self) -> Outcome {
        let mut delays = crate::attempt::delays();
        let mut fetched = None;
        if self.too_late() {
            return Err(ClaimError::retry(
                "an earlier call for the claim is still at work",
            ));
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
            let Some(delay) = self.pause(delays.next().unwrap_or_default()) else {
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
        match self.operation.kind {
            Kind::Prepare => {
                attempts
                    .prepare(&self.claim, fetched, answer_by, cancel)
                    .await
            }
            Kind::Unprepare => attempts.unprepare(&self.claim, answer_by, cancel).await,
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
            return Some(ClaimError::retry("the driver is shutting down"));
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

#[cfg(test)]
mod tests;
