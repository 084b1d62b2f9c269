//! Waiting for an optional time.

use tokio::time::{Instant, sleep_until};

/// Returns at this time; never, if `None`.
pub(crate) async fn wake_at(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
