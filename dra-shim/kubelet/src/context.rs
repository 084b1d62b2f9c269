//! The context of an attempt: deadline, cancellation, and a way to run blocking work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

use crate::error::ClaimError;

/// The deadline and cancellation of one attempt at one claim, like Go's `context.Context`.
/// Cheap to clone, so that a blocking closure can own a copy.
#[derive(Clone, Debug)]
pub struct Context {
    deadline: Instant,
    cancellation: CancellationToken,
}

// === impl Context ===

impl Context {
    /// Creates a context. The library does so before each attempt; public for drivers' tests.
    pub fn new(deadline: Instant, cancellation: CancellationToken) -> Self {
        Self {
            deadline,
            cancellation,
        }
    }

    /// The time at which the library answers kubelet, even if the attempt is still running:
    /// two seconds before kubelet's timeout, or a quarter of the timeout if that is less.
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The time left until [`Context::deadline`]; zero once it has passed.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// The token that fires when the attempt's result is no longer needed: kubelet unprepares
    /// the claim, or the plugin shuts down. The library does not drop the attempt but waits
    /// for it, so it should return soon.
    pub const fn cancellation(&self) -> &CancellationToken {
        &self.cancellation
    }

    /// Runs blocking work (file system, ioctl, a C library) on tokio's blocking
    /// threads, where it cannot stall other claims, the health stream or registration.
    ///
    /// The work cannot be interrupted from outside. Give it a clone of the context, and
    /// check [`Context::remaining`] and `context.cancellation().is_cancelled()` between its
    /// steps.
    ///
    /// All claims share the runtime's `max_blocking_threads` (512 unless set): with four
    /// threads, the work of a fifth claim waits for a free thread. If the context is
    /// cancelled during that wait, this method returns at once and the work never runs. If
    /// the context was already cancelled before, as in a clean-up, the work does run.
    ///
    /// # Errors
    ///
    /// The errors of `work`, and [`ErrorClass::Retry`](crate::ErrorClass::Retry) if the work
    /// was cancelled before it began or the runtime is shutting down.
    ///
    /// # Panics
    ///
    /// A panic in `work` continues in the caller. In a [`Driver`](crate::Driver) it becomes
    /// the claim's error.
    pub async fn run_blocking<T, F>(&self, work: F) -> Result<T, ClaimError>
    where
        F: FnOnce() -> Result<T, ClaimError> + Send + 'static,
        T: Send + 'static,
    {
        // The work runs in the claim's span, so its log lines name the claim.
        let span = tracing::Span::current();
        // The thread and the cancellation race: the first to clear the flag decides.
        let may_begin = Arc::new(AtomicBool::new(true));
        let permission = Arc::clone(&may_begin);
        let mut running = tokio::task::spawn_blocking(move || {
            let begins = permission.swap(false, Ordering::AcqRel);
            begins.then(|| span.in_scope(work))
        });
        if !self.cancellation.is_cancelled() {
            tokio::select! {
                biased;
                () = self.cancellation.cancelled() => {
                    if may_begin.swap(false, Ordering::AcqRel) {
                        return Err(ClaimError::cancelled());
                    }
                }
                joined = &mut running => return outcome(joined),
            }
        }
        outcome(running.await)
    }
}

/// Converts the result of the blocking task; `None` means cancelled before it began.
fn outcome<T>(joined: Result<Option<Result<T, ClaimError>>, JoinError>) -> Result<T, ClaimError> {
    match joined {
        Ok(outcome) => outcome.unwrap_or_else(|| Err(ClaimError::cancelled())),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(ClaimError::shutting_down()),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A runtime with one blocking thread, which is busy until the sender is dropped.
    fn mk_full_runtime() -> (tokio::runtime::Runtime, mpsc::Sender<()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (release, released) = mpsc::channel::<()>();
        let (begins, has_begun) = mpsc::channel();
        runtime.spawn_blocking(move || {
            begins.send(()).unwrap();
            let _ = released.recv();
        });
        has_begun.recv().unwrap();
        (runtime, release)
    }

    fn mk_context() -> Context {
        let deadline = Instant::now() + Duration::from_secs(60);
        Context::new(deadline, CancellationToken::new())
    }

    #[test]
    fn work_cancelled_while_it_waits_for_a_thread_never_runs() {
        let (runtime, release) = mk_full_runtime();
        let context = mk_context();
        let (done, is_done) = mpsc::channel();
        let outcome = runtime.block_on(async {
            let waiting = context.run_blocking(move || {
                done.send(()).unwrap();
                Ok(())
            });
            let cancel = async { context.cancellation().cancel() };
            // The thread is still busy: without the cancellation this hangs.
            tokio::join!(waiting, cancel).0
        });
        assert_eq!(outcome.unwrap_err().code(), "cancelled");
        drop(release);
        drop(runtime); // waits for the pool
        assert!(is_done.recv().is_err());
    }

    #[test]
    fn work_runs_if_the_context_was_already_cancelled() {
        let (runtime, release) = mk_full_runtime();
        drop(release);
        let context = mk_context();
        context.cancellation().cancel();
        let outcome = runtime.block_on(context.run_blocking(|| Ok(7)));
        assert_eq!(outcome, Ok(7));
    }
}
