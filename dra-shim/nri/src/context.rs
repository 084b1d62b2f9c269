//! The context of a call: its deadline and cancellation.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

/// The context of one call of a [`Plugin`](crate::Plugin)'s method, like Go's
/// `context.Context`. Cheap to clone, for blocking work.
#[derive(Clone, Debug)]
pub struct Context {
    deadline: Instant,
    cancellation: CancellationToken,
}

// === impl Context ===

impl Context {
    /// The context that the library makes for each call.
    pub const fn new(deadline: Instant, cancellation: CancellationToken) -> Self {
        Self {
            deadline,
            cancellation,
        }
    }

    /// A context with this much time left that is never cancelled: for tests of plugins.
    pub fn for_tests(remaining: Duration) -> Self {
        Self::new(Instant::now() + remaining, CancellationToken::new())
    }

    /// When the library answers in the plugin's place: before the runtime's time-out by a tenth
    /// of it, at most 200 ms.
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The time left until [`Context::deadline`]; zero once it has passed.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Fires when the answer is no longer needed: the deadline has passed, the connection is
    /// lost, or the service is shutting down. The method's future is then dropped; the token is
    /// for blocking work and tasks that it has started.
    pub const fn cancellation(&self) -> &CancellationToken {
        &self.cancellation
    }
}
