use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::error_chain;

/// An event is not repeated within this time. The API server keeps events for an hour.
const REPEAT_AFTER: Duration = Duration::from_secs(10 * 60);

/// The longest note that events.k8s.io accepts, in bytes.
const MAX_NOTE_LEN: usize = 1024;

/// Writes Kubernetes events.
///
/// Events are for people: a write that fails is logged, and the caller does not learn of it. Each
/// call waits for its request, at most [`REQUEST_DEADLINE`](crate::REQUEST_DEADLINE): spawn it where
/// that is too long.
///
/// The same event (object, reason and note) is written again only after ten minutes, so callers may
/// report a lasting problem as often as they meet it. An event that could not be written is written
/// the next time.
pub struct Events {
    client: Client,
    reporter: Reporter,
    /// When each recent event was written.
    recent: Mutex<HashMap<EventKey, Instant>>,
}

/// What makes two events the same. The note counts: it has the cause, which may change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct EventKey {
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    reason: String,
    note: String,
}

// === impl Events ===

impl Events {
    /// `controller` is the name of the program, `instance` that of its pod or node: together they
    /// are the reporter of the events.
    pub fn new(client: Client, controller: &str, instance: &str) -> Self {
        let reporter = Reporter {
            controller: controller.to_owned(),
            instance: Some(instance.to_owned()),
        };
        Self {
            client,
            reporter,
            recent: Mutex::default(),
        }
    }

    /// Writes an event of type `Normal` about `object`. `reason` and `action` are identifiers in
    /// `UpperCamelCase`, `note` is for people and may be cut to 1024 bytes.
    pub async fn normal(&self, object: &ObjectReference, reason: &str, action: &str, note: &str) {
        self.publish(EventType::Normal, object, reason, action, note)
            .await;
    }

    /// Writes an event of type `Warning` about `object`: a person should act. Arguments as of
    /// [`Events::normal`].
    pub async fn warning(&self, object: &ObjectReference, reason: &str, action: &str, note: &str) {
        self.publish(EventType::Warning, object, reason, action, note)
            .await;
    }

    async fn publish(
        &self,
        type_: EventType,
        object: &ObjectReference,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        let note = shorten(note);
        let key = EventKey {
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            uid: object.uid.clone(),
            reason: reason.to_owned(),
            note: note.to_owned(),
        };
        if !self.is_new(&key) {
            return;
        }
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note.to_owned()),
            action: action.to_owned(),
            secondary: None,
        };
        // A new recorder for each event: a shared one counts a new note as the old event.
        let recorder = Recorder::new(self.client.clone(), self.reporter.clone());
        match recorder.publish(&event, object).await {
            Ok(()) => debug!(reason, note, object = object.name, "event written"),
            Err(err) => {
                warn!(
                    reason,
                    object = object.name,
                    error = error_chain(&err),
                    "cannot write the event"
                );
                self.lock().remove(&key);
            }
        }
    }

    fn is_new(&self, key: &EventKey) -> bool {
        let now = Instant::now();
        let mut recent = self.lock();
        recent.retain(|_, at| now.duration_since(*at) < REPEAT_AFTER);
        if recent.contains_key(key) {
            return false;
        }
        recent.insert(key.clone(), now);
        true
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<EventKey, Instant>> {
        // A panic elsewhere cannot leave the map half-changed.
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The longest prefix of whole characters that fits into a note.
fn shorten(note: &str) -> &str {
    let mut end = note.len().min(MAX_NOTE_LEN);
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    note.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests;
