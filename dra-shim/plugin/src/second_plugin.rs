//! Reports another plugin on this node that serves the same driver name.

use std::path::PathBuf;
use std::sync::Arc;

use daemon_runtime::Events;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::metrics::Metrics;

/// Reports a second plugin: a log line and an event per change, and a metric.
pub(crate) struct SecondPluginAlarm {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) events: Events,
    /// The node, the object of the events.
    pub(crate) node: ObjectReference,
    /// How to remove the most likely other plugin.
    pub(crate) hint: &'static str,
}

// === impl SecondPluginAlarm ===

impl SecondPluginAlarm {
    /// Follows the other instances' sockets until the plugin ends.
    pub(crate) async fn follow(self, mut sockets: watch::Receiver<Vec<PathBuf>>) {
        while sockets.changed().await.is_ok() {
            let found = sockets.borrow_and_update().clone();
            self.metrics.second_plugin(!found.is_empty());
            match note(&found, self.hint) {
                None => info!("no other plugin of this driver runs on this node any more"),
                Some(note) => {
                    warn!("{note}");
                    let events = &self.events;
                    events.warning(&self.node, "SecondPlugin", "Register", &note);
                }
            }
        }
    }
}

/// The problem and the fix, in one line.
fn note(sockets: &[PathBuf], hint: &str) -> Option<String> {
    let first = sockets.first()?;
    let socket = first.display();
    Some(format!(
        "another plugin of this driver runs on this node and listens on {socket}; kubelet may call \
         either plugin, so remove one (for example, {hint})"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_names_the_socket_and_the_fix() {
        let hint = "set a.enabled=false";
        assert_eq!(note(&[], hint), None);
        let socket = "/var/lib/kubelet/plugins_registry/compute-domain.nvidia.com-reg.sock";
        let note = note(&[socket.into()], hint).unwrap();
        assert!(note.contains(socket) && note.contains(hint));
    }
}
