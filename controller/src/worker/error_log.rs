//! The errors of the watches.

use dra_common::error_chain;
use kube::runtime::watcher::{self, Event};
use tracing::warn;

/// The errors of the watches. Each is logged once until it changes.
#[derive(Debug, Default)]
pub(super) struct ErrorLog {
    logged: [Option<String>; 5],
}

// === impl ErrorLog ===

impl ErrorLog {
    /// Returns the event, unless it is an error.
    pub(super) fn checked<T>(
        &mut self,
        watch: usize,
        what: &str,
        event: watcher::Result<Event<T>>,
    ) -> Option<Event<T>> {
        let logged = self.logged.get_mut(watch)?;
        match event {
            Ok(event) => {
                // Other events precede every attempt to list, even if it fails.
                if matches!(event, Event::InitDone | Event::Apply(_) | Event::Delete(_)) {
                    *logged = None;
                }
                Some(event)
            }
            Err(err) => {
                let text = error_chain(&err);
                if logged.as_ref() != Some(&text) {
                    warn!(what, error = text, "watch failed; retrying");
                    *logged = Some(text);
                }
                None
            }
        }
    }
}
