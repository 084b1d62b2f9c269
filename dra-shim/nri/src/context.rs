//! The context of a call: until when, and whether anybody still waits.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

/// The context of one call of a [`Plugin`](crate::Plugin)'s method, as Go's
/// `context.Context`. Cheap to clone, so that blocking work can take its own.
#[derive(Clone, Debug)]
pub struct Context {
    deadline: Instant,
    cancellation: CancellationToken,
}

// === impl Context ===

impl Context {
    /// What the library makes for each call.
    pub const fn new(deadline: Instant, cancellation: CancellationToken) -> Self {
        Self {
            deadline,
            cancellation,
        }
    }

    /// A call for which this much time is left, and that nobody cancels: for the tests of
    /// plugins.
    pub fn for_tests(remaining: Duration) -> Self {
        Self::new(Instant::now() + remaining, CancellationToken::new())
    }

    /// When the library answers in the plugin's place: a tenth of the runtime's time-out,
    /// but at most 200 ms, before the runtime gives up.
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The time left until [`Context::deadline`]; zero once it has passed.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Fires when nobody waits for the answer any more: the deadline has passed, the
    /// connection is lost, or the service is shutting down. The method's future is then
    /// dropped; the token is for blocking work that it has started, and for tasks.
    pub const fn cancellation(&self) -> &CancellationToken {
        &self.cancellation
    }
}
