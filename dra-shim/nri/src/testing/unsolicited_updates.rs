//! Unsolicited updates of the plugin.

use tokio::sync::{Mutex, MutexGuard, watch};

use crate::plugin::Changes;

/// The updates of all connections, and their lock.
pub(super) struct UnsolicitedUpdates {
    pub(super) recorded: watch::Sender<Vec<Changes>>,
    /// Containers whose updates fail.
    failing: Vec<String>,
    /// Fact: NRI has one lock for events, with all their plugins, and for these updates.
    runtime: Mutex<()>,
}

// === impl UnsolicitedUpdates ===

impl UnsolicitedUpdates {
    pub(super) fn new(failing: Vec<String>) -> Self {
        Self {
            recorded: watch::Sender::default(),
            failing,
            runtime: Mutex::default(),
        }
    }

    /// Takes the lock, for an event.
    pub(super) async fn lock(&self) -> MutexGuard<'_, ()> {
        self.runtime.lock().await
    }

    /// Records the changes. The error is NRI's text.
    pub(super) async fn apply(&self, changes: Changes) -> Result<(), String> {
        let _locked = self.lock().await;
        let has_failed = changes
            .updates
            .iter()
            .any(|update| self.failing.contains(&update.container_id) && !update.ignore_failure);
        self.recorded.send_modify(|recorded| recorded.push(changes));
        if has_failed {
            // Fact: with an error, the list of failed updates is not sent.
            return Err("NRI update of some containers failed".into());
        }
        Ok(())
    }
}
