//! The context that every attempt of a driver gets: deadline, cancellation, and a
//! way to run blocking work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

use crate::error::ClaimError;

/// The context of one attempt at one claim, as Go's `context.Context`: a deadline and
/// a cancellation. Cheap to clone, so that a blocking closure can take its own.
#[derive(Clone, Debug)]
pub struct Context {
    deadline: Instant,
    cancellation: CancellationToken,
}

// === impl Context ===

impl Context {
    /// What the library does before each attempt; public for the tests of drivers.
    pub fn new(deadline: Instant, cancellation: CancellationToken) -> Self {
        Self {
            deadline,
            cancellation,
        }
    }

    /// When the library answers kubelet, even if the attempt is still running: two
    /// seconds before kubelet itself gives up, or a quarter of the call's time if that is
    /// less.
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The time left until [`Context::deadline`]; zero once it has passed.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Fires when nobody needs the attempt's result any more: kubelet unprepares the
    /// claim, or the plugin is shutting down. The attempt is not dropped; the library
    /// waits until it returns, so it should return soon.
    pub const fn cancellation(&self) -> &CancellationToken {
        &self.cancellation
    }

    /// Runs blocking work (file system, ioctl, a C library) on tokio's blocking
    /// threads, where it cannot stall other claims, the health stream or registration.
    ///
    /// The work cannot be interrupted from outside: give it a clone of the context
    /// and check [`Context::remaining`] and `context.cancellation().is_cancelled()`
    /// between its steps.
    ///
    /// How much of it runs at once is limited by the runtime's `max_blocking_threads`
    /// (512 unless set), which all claims share: with four threads, the work of a
    /// fifth claim waits until one of them is free. If the context is cancelled during
    /// that wait, the call returns at once and the work is never run. If it is
    /// cancelled already, as in a clean-up, the work does run.
    ///
    /// # Errors
    ///
    /// Those of `work`; [`ErrorClass::Retry`](crate::ErrorClass::Retry) if it was
    /// cancelled before it began, or if the runtime is shutting down.
    ///
    /// # Panics
    ///
    /// A panic in `work` continues in the caller. In a [`Driver`](crate::Driver) the
    /// library turns it into the claim's error.
    pub async fn run_blocking<T, F>(&self, work: F) -> Result<T, ClaimError>
    where
        F: FnOnce() -> Result<T, ClaimError> + Send + 'static,
        T: Send + 'static,
    {
        // The claim's span goes along: log lines of the work name the claim, too.
        let span = tracing::Span::current();
        // Whoever takes the permission first decides whether the work runs.
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

/// `None` means that the work was cancelled before it began.
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

    /// One blocking thread, and it is occupied until the sender is dropped.
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
    fn work_that_is_cancelled_while_it_waits_for_a_thread_ends_at_once_and_is_never_done() {
        let (runtime, release) = mk_full_runtime();
        let context = mk_context();
        let (done, is_done) = mpsc::channel();
        let outcome = runtime.block_on(async {
            let waiting = context.run_blocking(move || {
                done.send(()).unwrap();
                Ok(())
            });
            let cancel = async { context.cancellation().cancel() };
            // The thread is still taken: without the cancellation this hangs.
            tokio::join!(waiting, cancel).0
        });
        assert_eq!(outcome.unwrap_err().code(), "cancelled");
        drop(release);
        drop(runtime); // waits for the pool
        assert!(is_done.recv().is_err());
    }

    #[test]
    fn work_of_a_context_that_is_cancelled_already_is_done() {
        let (runtime, release) = mk_full_runtime();
        drop(release);
        let context = mk_context();
        context.cancellation().cancel();
        let outcome = runtime.block_on(context.run_blocking(|| Ok(7)));
        assert_eq!(outcome, Ok(7));
    }
}
