//! Holders of devices that other claims need.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Limit of pending reports. A report beyond it is dropped; the next attempt reports again.
const MAX_WAITING: usize = 64;

/// A queue from the driver, which finds a device in use, to the reconciler, which checks that
/// the holder still exists. Clones share the queue.
#[derive(Clone, Default)]
pub struct ReportedHolders {
    waiting: Arc<Mutex<BTreeSet<String>>>,
    reported: Arc<Notify>,
}

impl ReportedHolders {
    /// Reports the holder with this UID. Never waits.
    pub fn report(&self, uid: &str) {
        let mut waiting = self.waiting();
        if waiting.len() < MAX_WAITING {
            waiting.insert(uid.to_owned());
            self.reported.notify_one();
        }
    }

    /// Waits for the next reported holder's UID. Cancel-safe; for one reader.
    pub async fn next(&self) -> String {
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
