//! What the library tells a driver about the call that an attempt belongs to.

use std::time::{Duration, Instant};

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
    /// # Errors
    ///
    /// Those of `work`; [`Class::Retry`](crate::Class::Retry) when the runtime is
    /// shutting down and did not start it. A panic in `work` goes on in the
    /// caller, where the library turns it into the claim's error.
    pub async fn run_blocking<T, F>(&self, work: F) -> Result<T, ClaimError>
    where
        F: FnOnce() -> Result<T, ClaimError> + Send + 'static,
        T: Send + 'static,
    {
        // The claim's span goes along: log lines of the work name the claim, too.
        let span = tracing::Span::current();
        match tokio::task::spawn_blocking(move || span.in_scope(work)).await {
            Ok(outcome) => outcome,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(ClaimError::shutting_down()),
            },
        }
    }
}
