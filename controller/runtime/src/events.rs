use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::error_chain;

/// The same thing about the same object is said again after this time: the API server forgets
/// events after an hour.
const SAY_AGAIN: Duration = Duration::from_secs(10 * 60);

/// The longest note that events.k8s.io takes, in bytes.
const NOTE_MAX: usize = 1024;

/// Writes Kubernetes events. Nothing depends on one: a failed write is logged and forgotten.
pub struct Events {
    client: Client,
    reporter: Reporter,
    /// When each thing was said last.
    said: Mutex<HashMap<Said, Instant>>,
}

/// What makes two events the same. The note counts: a new cause under an old reason is news.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Said {
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    reason: String,
    note: String,
}

impl Events {
    /// `controller` names the program, `instance` the pod or node that it runs on.
    pub fn new(client: Client, controller: &str, instance: &str) -> Self {
        let reporter = Reporter {
            controller: controller.to_owned(),
            instance: Some(instance.to_owned()),
        };
        Self {
            client,
            reporter,
            said: Mutex::default(),
        }
    }

    /// Says that something went as wanted. `reason` and `action` are words in upper camel case.
    pub async fn normal(&self, object: &ObjectReference, reason: &str, action: &str, note: &str) {
        self.publish(EventType::Normal, object, reason, action, note)
            .await;
    }

    /// Says that someone has to look.
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
        let said = Said {
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            uid: object.uid.clone(),
            reason: reason.to_owned(),
            note: note.to_owned(),
        };
        if !self.first_time(&said) {
            return;
        }
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note.to_owned()),
            action: action.to_owned(),
            secondary: None,
        };
        // A recorder of its own: a shared one folds a new note into the old note's event.
        let recorder = Recorder::new(self.client.clone(), self.reporter.clone());
        match recorder.publish(&event, object).await {
            Ok(()) => debug!(reason, note, object = object.name, "event written"),
            Err(err) => {
                warn!(
                    reason,
                    object = object.name,
                    error = error_chain(&err),
                    "event not written"
                );
                self.lock().remove(&said);
            }
        }
    }

    fn first_time(&self, said: &Said) -> bool {
        let now = Instant::now();
        let mut all = self.lock();
        all.retain(|_, at| now.duration_since(*at) < SAY_AGAIN);
        if all.contains_key(said) {
            return false;
        }
        all.insert(said.clone(), now);
        true
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Said, Instant>> {
        // Every statement leaves the map valid.
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The longest prefix of whole characters that fits into a note.
fn shorten(note: &str) -> &str {
    let mut end = note.len().min(NOTE_MAX);
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    note.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests;
