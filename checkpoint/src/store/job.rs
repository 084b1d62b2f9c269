//! One change in the queue to the writer, and its result on the way back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use crate::claims::Claims;
use crate::error::{CommitError, StoreError};
use crate::record::Payload;

/// The writer's end of a change.
pub(super) struct Job<P> {
    /// Set once: by the writer when it runs the change, or by the caller when it
    /// withdraws it.
    taken: Arc<AtomicBool>,
    work: Box<dyn Work<P>>,
}

/// The caller's end of a change.
pub(super) struct Caller<R, E> {
    taken: Arc<AtomicBool>,
    answer: Receiver<Answer<R, E>>,
}

/// The result of a change; `Err` is its panic.
type Answer<R, E> = thread::Result<Result<R, CommitError<E>>>;

/// A [`Change`] with its types erased, so that one queue holds those of all callers.
trait Work<P>: Send {
    fn run(&mut self, claims: &mut Claims<P>);
    fn answer(self: Box<Self>, written: Result<(), StoreError>);
}

struct Change<F, R, E> {
    run: Option<F>,
    ran: Option<Answer<R, E>>,
    caller: SyncSender<Answer<R, E>>,
}

// === impl Job ===

impl<P: Payload> Job<P> {
    pub(super) fn new<F, R, E>(change: F) -> (Self, Caller<R, E>)
    where
        F: FnOnce(&mut Claims<P>) -> Result<R, E> + Send + 'static,
        R: Send + 'static,
        E: Send + 'static,
    {
        // Capacity 1, for the only answer: the writer never blocks on a caller.
        let (caller, answer) = mpsc::sync_channel(1);
        let taken = Arc::new(AtomicBool::new(false));
        let work = Box::new(Change {
            run: Some(change),
            ran: None,
            caller,
        });
        let job = Self {
            taken: Arc::clone(&taken),
            work,
        };
        (job, Caller { taken, answer })
    }

    /// Runs the change, unless its caller has withdrawn it. After an error or
    /// a panic `claims` is as before.
    pub(super) fn run(&mut self, claims: &mut Claims<P>) {
        if !self.taken.swap(true, Ordering::AcqRel) {
            self.work.run(claims);
        }
    }

    /// Sends the answer to the caller, which may have stopped waiting.
    pub(super) fn answer(self, written: Result<(), StoreError>) {
        self.work.answer(written);
    }
}

// === impl Caller ===

impl<R, E> Caller<R, E> {
    /// Waits at most `limit` for the answer; then withdraws the change, unless it
    /// is already running.
    pub(super) fn answer(&self, limit: Duration) -> Result<Answer<R, E>, StoreError> {
        match self.wait(limit) {
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Disconnected) => Err(StoreError::WriterPanicked),
            Err(RecvTimeoutError::Timeout) if self.withdraw() => {
                Err(StoreError::NotBegun { limit })
            }
            Err(RecvTimeoutError::Timeout) => Err(StoreError::Unanswered { limit }),
        }
    }

    pub(super) fn wait(&self, limit: Duration) -> Result<Answer<R, E>, RecvTimeoutError> {
        self.answer.recv_timeout(limit)
    }

    /// Withdraws the change. Returns `false` if it was already started.
    pub(super) fn withdraw(&self) -> bool {
        !self.taken.swap(true, Ordering::AcqRel)
    }
}

// === impl Change ===

impl<P, F, R, E> Work<P> for Change<F, R, E>
where
    P: Payload,
    F: FnOnce(&mut Claims<P>) -> Result<R, E> + Send,
    R: Send,
    E: Send,
{
    fn run(&mut self, claims: &mut Claims<P>) {
        let Some(change) = self.run.take() else {
            return;
        };
        let before = claims.rollback_copy();
        // Encode here, too: a payload that cannot be written, or whose Serialize
        // panics, must not fail the rest of the batch.
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let answer = change(claims).map_err(CommitError::Refused)?;
            claims.encode_changed().map_err(StoreError::from)?;
            Ok(answer)
        }));
        if !matches!(ran, Ok(Ok(_))) {
            *claims = before;
        }
        self.ran = Some(ran);
    }

    fn answer(self: Box<Self>, written: Result<(), StoreError>) {
        let answer = match (self.ran, written) {
            // The change's own failure, whether or not the write succeeded.
            (Some(own @ (Err(_) | Ok(Err(CommitError::Store(_))))), _) => own,
            // A refusal may depend on a change that is now lost.
            (_, Err(error)) => Ok(Err(error.into())),
            (Some(answer), Ok(())) => answer,
            // Withdrawn.
            (None, Ok(())) => return,
        };
        // Fails if the caller has stopped waiting.
        let _ = self.caller.send(answer);
    }
}
