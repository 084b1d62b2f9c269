//! Updates that the plugin makes by itself.

use tokio::sync::{Mutex, MutexGuard, watch};

use crate::plugin::Changes;

/// The updates of all connections, and the lock that they need.
pub(super) struct UnsolicitedUpdates {
    pub(super) recorded: watch::Sender<Vec<Changes>>,
    /// Containers whose updates fail.
    failing: Vec<String>,
    /// Fact: one lock for each event, with all its plugins, and for each of these.
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

    /// The lock, for an event.
    pub(super) async fn lock(&self) -> MutexGuard<'_, ()> {
        self.runtime.lock().await
    }

    /// `Err`: what NRI says.
    pub(super) async fn apply(&self, changes: Changes) -> Result<(), String> {
        let _locked = self.lock().await;
        let has_failed = changes
            .updates
            .iter()
            .any(|update| self.failing.contains(&update.container_id) && !update.ignore_failure);
        self.recorded.send_modify(|recorded| recorded.push(changes));
        if has_failed {
            // Fact: the list of those that failed does not arrive beside an error.
            return Err("NRI update of some containers failed".into());
        }
        Ok(())
    }
}
