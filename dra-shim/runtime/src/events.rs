//! Kubernetes events: reported without blocking, written one by one in the background.

mod event_type;
mod recent;
mod report;
mod shared;
mod writer;

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::Instant;
use tracing::warn;

use self::event_type::EventType;
use self::report::{Report, Reporter, shorten_note};
use self::shared::Shared;
use self::writer::Writer;

/// How many events of each type may wait. With about a kilobyte each, they take a megabyte, and some ten
/// seconds to write.
const QUEUE_LEN: usize = 500;

/// Writes Kubernetes events. Cheap to clone; clones share the queues and the cache of recent events.
///
/// A report returns at once, and does not wait for the write. One task writes the events, one request at a
/// time, `Warning`s first. The task ends with the last clone or with the runtime; queued events are then lost.
///
/// An event is in the namespace of its object, or in `default` if the object has none (a node, for example).
/// There, the program needs only the verb `create` for `events` of the group `events.k8s.io`.
///
/// The same event is written again only after ten minutes, so callers may report a lasting problem as often as
/// they see it. Events are the same if type, reason, note, and the namespace, name and UID of their objects
/// are equal. If another event with the same object and action was reported in between, the event is written
/// again at once, so that the newest event shows the current state.
///
/// # When an event cannot be written
/// * No response, 401, 429, 503 or 504: the API server is unavailable. The write is retried, with a back-off
///   from half a second to 15 s, until the event is two minutes old.
/// * 409 (already exists): an earlier attempt has written it, and its response was lost.
/// * 404 for its namespace, or a terminating namespace: the event is dropped, since it would be deleted anyway.
/// * Any other response (400, 403, 422, 500), two minutes without success, or an event for which no request can
///   be built: the event is dropped, counted and logged, at most one line every ten minutes.
/// * A full queue: the event is dropped and counted. Only the first event of a flood is logged.
///
/// A dropped and counted event is written when it is reported again.
#[derive(Clone, Debug)]
pub struct Events {
    shared: Arc<Shared>,
    warnings: Sender<Report>,
    normals: Sender<Report>,
}

impl Events {
    /// Starts the writer task. The events' reporter is `controller`, the program's name, with `instance`, the
    /// name of its pod or node.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(client: Client, controller: &str, instance: &str) -> Self {
        let shared = Arc::new(Shared::default());
        let (warnings, queued_warnings) = channel(QUEUE_LEN);
        let (normals, queued_normals) = channel(QUEUE_LEN);
        let reporter = Reporter::new(controller, instance);
        let writer = Writer::new(client, reporter, Arc::clone(&shared));
        tokio::spawn(writer.run(queued_warnings, queued_normals));
        Self {
            shared,
            warnings,
            normals,
        }
    }

    /// Registers `imex_dra_events_dropped_total{type}`: the number of reported events that were not written,
    /// because their queue was full or the API server did not accept them. Events in terminating namespaces are
    /// not counted. Call it once per registry.
    pub fn register_metrics(&self, registry: &mut Registry) {
        // The library appends `_total`.
        registry.register(
            "imex_dra_events_dropped",
            "Events that were not written, because the queue was full or the API server did not accept them",
            self.shared.dropped(),
        );
    }

    /// Reports an event of type `Normal` about `object`. `reason` and `action` are identifiers in
    /// `UpperCamelCase`; `note` is human-readable and may be cut to 1024 bytes.
    pub fn normal(&self, object: &ObjectReference, reason: &str, action: &str, note: &str) {
        self.report(EventType::Normal, object, reason, action, note);
    }

    /// Reports an event of type `Warning` about `object`: the user or administrator should act. Arguments like
    /// those of [`Events::normal`].
    pub fn warning(&self, object: &ObjectReference, reason: &str, action: &str, note: &str) {
        self.report(EventType::Warning, object, reason, action, note);
    }

    fn report(
        &self,
        type_: EventType,
        object: &ObjectReference,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        let (note, now) = (shorten_note(note), Instant::now());
        let mut recent = self.shared.recent();
        let key = recent.key(type_, object, reason, note);
        let topic = recent.topic(object, action);
        if recent.contains(key, topic, now) {
            return;
        }
        let queue = match type_ {
            EventType::Normal => &self.normals,
            EventType::Warning => &self.warnings,
        };
        match queue.try_reserve() {
            Ok(place) => {
                recent.remember(key, topic, now);
                drop(recent);
                place.send(Report {
                    type_,
                    object: object.clone(),
                    reason: reason.to_owned(),
                    action: action.to_owned(),
                    note: note.to_owned(),
                    key,
                    at: Timestamp::now(),
                    since: now,
                });
            }
            Err(TrySendError::Full(())) => {
                self.shared.count_dropped(type_);
                if self.shared.start_flood() {
                    let r#type = type_.as_str();
                    warn!(
                        r#type,
                        "event queue is full; events are dropped until the API server accepts them faster"
                    );
                }
            }
            // The runtime is shutting down.
            Err(TrySendError::Closed(())) => self.shared.count_dropped(type_),
        }
    }
}

#[cfg(test)]
mod tests;
