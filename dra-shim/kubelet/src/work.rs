//! The work of claims, apart from the calls that ask for it.
//!
//! Each claim UID has at most one chain of operations. An operation runs in a task
//! of its own and outlives the call that began it. A call of the same method
//! joins the last operation of the chain; one of the other is put behind it, and an
//! Unprepare first cancels the Prepare that it follows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::attempt::Attempts;
use crate::claim::ClaimRef;
use crate::driver::{ClaimError, Device, Driver};
use crate::observer::{Method, Observer};
use crate::source::ClaimSource;

mod task;

use task::Task;

/// What an operation ends with. Unprepare answers with no devices.
pub(crate) type Outcome = Result<Vec<Device>, ClaimError>;

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
    method: Method,
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

/// The end of all work of a plugin. Dropped, it is now: every token fires, and no
/// further attempt begins.
pub(crate) struct Drain {
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// A call's place at an operation.
pub(crate) struct Ticket {
    method: Method,
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
                },
                last: Mutex::default(),
                tasks: TaskTracker::new(),
                stop: CancellationToken::new(),
            }),
        }
    }

    /// Joins the claim's running operation of this method or begins one. The work
    /// goes on whether or not the ticket is kept.
    pub(crate) fn submit(&self, method: Method, claim: ClaimRef, answer_by: Instant) -> Ticket {
        let mut last = self.shared.lock();
        let before = last.get(&claim.uid);
        if let Some(running) = before.filter(|op| op.method == method && !op.cancel.is_cancelled())
        {
            running.answer_by.send_if_modified(|by| {
                let later = answer_by > *by;
                *by = answer_by.max(*by);
                later
            });
            return Ticket {
                method,
                progress: running.progress.clone(),
            };
        }
        if let Some(prepare) = before.filter(|_| method == Method::Unprepare) {
            prepare.cancel.cancel();
        }
        let before = before.map(|op| op.progress.clone());
        let (sender, progress) = watch::channel(Progress::Working { last: None });
        let operation = Operation {
            method,
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
            began: Instant::now(),
            progress: sender,
        };
        self.shared.tasks.spawn(task.run(before));
        Ticket { method, progress }
    }

    pub(crate) fn observer(&self) -> &dyn Observer {
        &*self.shared.attempts.observer
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
    ///
    /// A future dropped midway drops the drain with it.
    pub(crate) async fn run(self, grace: Duration, after: Duration) -> bool {
        self.tasks.close();
        let by_itself = tokio::time::timeout(grace, self.tasks.wait()).await.is_ok();
        self.stop.cancel();
        by_itself || tokio::time::timeout(after, self.tasks.wait()).await.is_ok()
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        self.stop.cancel();
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
            // The task is gone without an outcome, and no panic ends one: the runtime
            // is going down.
            Progress::Working { .. } if done == Ok(false) => Err(ClaimError::shutting_down()),
            Progress::Working { last: Some(error) } => Err(error.clone()),
            Progress::Working { last: None } => Err(unfinished(self.method)),
        }
    }
}

fn unfinished(method: Method) -> ClaimError {
    ClaimError::retry(match method {
        Method::Prepare => "preparing takes longer than kubelet waits; it goes on",
        Method::Unprepare => "unpreparing takes longer than kubelet waits; it goes on",
    })
    .with_code("unfinished")
}

#[cfg(test)]
mod tests;
