//! No write after the lease may have gone to another replica.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

/// Until when this replica may write. The elector moves the end with each renewal; a process that
/// was paused past it finds the fence closed before its first write. Cheap to clone; clones are the
/// same fence.
///
/// A request that is on its way when the fence closes may still arrive. Each tests what it relies on,
/// so it does no harm; what it creates for a ComputeDomain that is gone is collected.
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

    /// Closed until the lease is held again.
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
