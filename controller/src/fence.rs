//! Prevents writes after the lease may have gone to another replica.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

/// The time until which this replica may write. The elector extends it with each renewal. A process that was paused
/// past it finds the fence closed before its first write. Cheap to clone; clones share one fence.
///
/// A request in flight when the fence closes may still arrive. It does no harm, because each request tests its
/// preconditions; an object created for a deleted ComputeDomain is garbage-collected.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fence {
    /// `None`: without leader election, always open.
    end: Arc<Mutex<Option<Instant>>>,
}

impl Fence {
    /// Open until `end`.
    pub(crate) fn open_until(&self, end: Instant) {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
    }

    /// Closed until this replica holds the lease again.
    pub(crate) fn close(&self) {
        self.open_until(Instant::now());
    }

    // req: CD-26
    pub(crate) fn is_open(&self) -> bool {
        let end = *self.end.lock().unwrap_or_else(PoisonError::into_inner);
        end.is_none_or(|end| Instant::now() < end)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_fence_is_open_until_its_end_and_again_after_a_renewal() {
        let fence = Fence::default();
        assert!(fence.is_open(), "without leader election");
        fence.open_until(Instant::now() + Duration::from_secs(15));
        let clone = fence.clone();
        tokio::time::advance(Duration::from_secs(14)).await;
        assert!(clone.is_open());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!clone.is_open());
        fence.open_until(Instant::now() + Duration::from_secs(15));
        assert!(clone.is_open());
        fence.close();
        assert!(!clone.is_open());
    }
}
