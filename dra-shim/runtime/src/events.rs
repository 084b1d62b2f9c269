//! Kubernetes events: reported at once, written one after the other in the background.

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

/// How many events of each type may wait. At about a kilobyte each, a megabyte in all, and some ten
/// seconds of an API server's time.
const QUEUE_LEN: usize = 500;

/// Writes Kubernetes events. Cheap to clone; clones share queue and memory.
///
/// Events are for people: a report returns at once, and does not tell whether the event is ever
/// written. One task writes them, one request at a time, `Warning`s first. The task ends with the last
/// clone, or with the runtime; what waits then is lost.
///
/// An event is in the namespace of its object, or in `default` if that has none (a node, say). The
/// program needs the verb `create` for `events` of the group `events.k8s.io` there, and no other verb.
///
/// The same event is written again only after ten minutes, so callers may report a lasting problem as
/// often as they meet it. Events are the same if they have the same type, reason and note, and the
/// namespace, name and UID of their objects are the same. One is written earlier if another event with the same
/// object and action was reported since: the newest one says how things are.
///
/// # When an event cannot be written
/// * No answer, 401, 429, 503 or 504: the API server is not available. The event is tried again, after
///   pauses that grow from half a second to 15 s, until it is two minutes old.
/// * 409, as it exists already: an earlier attempt has written it, and its answer was lost.
/// * 404 for its namespace, or a namespace that is being deleted: nobody could read the event. It is
///   dropped.
/// * Any other answer (400, 403, 422, 500), two minutes without success, or an event of which no
///   request can be made: it is dropped, counted and logged, in one line in ten minutes.
/// * 500 others of its type are waiting: it is dropped and counted. The first of a flood is logged.
///
/// What was dropped and counted is written when it is reported again.
#[derive(Clone, Debug)]
pub struct Events {
    shared: Arc<Shared>,
    warnings: Sender<Report>,
    normals: Sender<Report>,
}

impl Events {
    /// Starts the task that writes. `controller` is the name of the program, `instance` that of its
    /// pod or node: together they are the reporter of the events.
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

    /// Registers `imex_dra_events_dropped_total{type}`: how many events were reported but not
    /// written, because their queue was full or the API server did not take them. An event about an
    /// object whose namespace is going away is not counted. In a registry that has them, they would be
    /// twice.
    pub fn register_metrics(&self, registry: &mut Registry) {
        // The library appends `_total`.
        registry.register(
            "imex_dra_events_dropped",
            "Events that were not written: the queue was full, or the API server did not take them",
            self.shared.dropped(),
        );
    }

    /// Reports an event of type `Normal` about `object`. `reason` and `action` are identifiers in
    /// `UpperCamelCase`, `note` is for people and may be cut to 1024 bytes.
    pub fn normal(&self, object: &ObjectReference, reason: &str, action: &str, note: &str) {
        self.report(EventType::Normal, object, reason, action, note);
    }

    /// Reports an event of type `Warning` about `object`: a person should act. Arguments as of
    /// [`Events::normal`].
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
                if self.shared.flood_begins() {
                    let r#type = type_.as_str();
                    warn!(
                        r#type,
                        "events are dropped: the API server takes them too slowly"
                    );
                }
            }
            // The runtime is going down.
            Err(TrySendError::Closed(())) => self.shared.count_dropped(type_),
        }
    }
}

#[cfg(test)]
mod tests;
