//! Waiting for a time that may never come.

use tokio::time::{Instant, sleep_until};

/// Returns at this time; `None`: never.
pub(crate) async fn wake_at(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
