//! Holders of devices that stand in the way of other claims.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// How many reports wait at most. Whoever is not told now is told by the next attempt.
const MAX_WAITING: usize = 64;

/// From the driver, which sees that a device is in use, to the reconciler, which asks
/// whether its holder still exists. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct ReportedHolders {
    waiting: Arc<Mutex<BTreeSet<String>>>,
    reported: Arc<Notify>,
}

impl ReportedHolders {
    /// Reports the holder with this UID. Never waits.
    pub(crate) fn report(&self, uid: &str) {
        let mut waiting = self.waiting();
        if waiting.len() < MAX_WAITING {
            waiting.insert(uid.to_owned());
            self.reported.notify_one();
        }
    }

    /// The UID of a holder, as soon as one is reported. Cancel-safe; for one reader.
    pub(crate) async fn next(&self) -> String {
        loop {
            let reported = self.reported.notified();
            if let Some(uid) = self.waiting().pop_first() {
                return uid;
            }
            reported.await;
        }
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
