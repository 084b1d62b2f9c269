//! What the library tells a driver about the call that an attempt belongs to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

use crate::driver::ClaimError;

/// The context of one attempt at one claim. Cheap to clone, so that a blocking
/// closure can take its own.
#[derive(Clone, Debug)]
pub struct Call {
    deadline: Instant,
    cancel: CancellationToken,
}

impl Call {
    /// A context as the library makes it; public for tests of a driver.
    pub const fn new(deadline: Instant, cancel: CancellationToken) -> Self {
        Self { deadline, cancel }
    }

    /// When the library answers kubelet, whatever the attempt does: about two
    /// seconds before kubelet itself gives up.
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The time left until [`Call::deadline`], zero when it has passed.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Fires when the attempt's outcome is no longer wanted: kubelet unprepares
    /// the claim, or the plugin is shutting down. The library waits for the
    /// attempt to end before it goes on, so ending soon is the driver's part.
    pub const fn cancelled(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Runs blocking work (file system, ioctl, a foreign library) where it cannot
    /// stall the other claims, the health stream or registration.
    ///
    /// The work cannot be interrupted from outside: give it a clone of the call
    /// and let it look at [`Call::remaining`] and
    /// `call.cancelled().is_cancelled()` between steps.
    ///
    /// tokio's pool for blocking work is the limit of how many run at once, with its
    /// `max_blocking_threads` (512 unless set) shared by all claims: with four of
    /// them a fifth claim waits for one of four to end, however long that takes. A
    /// call that is cancelled while its work waits ends at once, and the work is
    /// never done; one that is cancelled already, as for cleaning up, does its work.
    ///
    /// # Errors
    ///
    /// Those of `work`; [`Class::Retry`](crate::Class::Retry) when it was cancelled
    /// before it began, or the runtime is shutting down and did not start it. A panic in `work` goes on in the
    /// caller, where the library turns it into the claim's error.
    pub async fn run_blocking<T, F>(&self, work: F) -> Result<T, ClaimError>
    where
        F: FnOnce() -> Result<T, ClaimError> + Send + 'static,
        T: Send + 'static,
    {
        // The claim's span goes along: log lines of the work name the claim, too.
        let span = tracing::Span::current();
        let may_begin = Arc::new(AtomicBool::new(true));
        let turn = Arc::clone(&may_begin);
        let mut running = tokio::task::spawn_blocking(move || {
            let begins = turn.swap(false, Ordering::AcqRel);
            begins.then(|| span.in_scope(work))
        });
        if !self.cancel.is_cancelled() {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => {
                    if may_begin.swap(false, Ordering::AcqRel) {
                        return Err(ClaimError::cancelled());
                    }
                }
                ended = &mut running => return settle(ended),
            }
        }
        settle(running.await)
    }
}

/// `None`: it was cancelled before it began.
fn settle<T>(ended: Result<Option<Result<T, ClaimError>>, JoinError>) -> Result<T, ClaimError> {
    match ended {
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

    /// One thread for blocking work, and it is taken until the sender is dropped.
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

    fn mk_call() -> Call {
        let deadline = Instant::now() + Duration::from_secs(60);
        Call::new(deadline, CancellationToken::new())
    }

    #[test]
    fn work_that_is_cancelled_while_it_waits_for_a_thread_ends_at_once_and_is_never_done() {
        let (runtime, release) = mk_full_runtime();
        let call = mk_call();
        let (done, is_done) = mpsc::channel();
        let outcome = runtime.block_on(async {
            let waiting = call.run_blocking(move || {
                done.send(()).unwrap();
                Ok(())
            });
            let cancel = async { call.cancelled().cancel() };
            // The thread is still taken: without the cancellation this hangs.
            tokio::join!(waiting, cancel).0
        });
        assert_eq!(outcome.unwrap_err().code(), "cancelled");
        drop(release);
        drop(runtime); // waits for the pool
        assert!(is_done.recv().is_err());
    }

    #[test]
    fn work_of_a_call_that_is_cancelled_already_is_done() {
        let (runtime, release) = mk_full_runtime();
        drop(release);
        let call = mk_call();
        call.cancelled().cancel();
        let outcome = runtime.block_on(call.run_blocking(|| Ok(7)));
        assert_eq!(outcome, Ok(7));
    }
}
