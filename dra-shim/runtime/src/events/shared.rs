//! The state that reporters of events share with the writer task.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::event_type::EventType;
use super::recent::{Key, Recent};

/// The number of events that were not written, by type.
pub(super) type Dropped = Family<[(&'static str, &'static str); 1], Counter>;

/// The shared state. It does not include the queues' senders: the task ends when they are dropped.
#[derive(Debug, Default)]
pub(super) struct Shared {
    recent: Mutex<Recent>,
    dropped: Dropped,
    /// Whether an event was dropped for a full queue since both queues were last empty.
    flooded: AtomicBool,
}

impl Shared {
    pub(super) fn recent(&self) -> MutexGuard<'_, Recent> {
        // A panic elsewhere cannot leave the data half-changed.
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called for an event that could not be written: its next report is written.
    pub(super) fn forget(&self, key: Key) {
        self.recent().forget(key);
    }

    pub(super) fn count_dropped(&self, type_: EventType) {
        self.dropped.get_or_create(&labels(type_)).inc();
    }

    /// The counters of both types, even if zero.
    pub(super) fn dropped(&self) -> Dropped {
        for type_ in [EventType::Normal, EventType::Warning] {
            drop(self.dropped.get_or_create(&labels(type_)));
        }
        self.dropped.clone()
    }

    /// Called when a queue is full. Returns whether this is the first time since both queues were empty.
    pub(super) fn start_flood(&self) -> bool {
        !self.flooded.swap(true, Ordering::Relaxed)
    }

    /// Called when both queues are empty.
    pub(super) fn end_flood(&self) {
        self.flooded.store(false, Ordering::Relaxed);
    }
}

pub(super) fn labels(type_: EventType) -> [(&'static str, &'static str); 1] {
    [("type", type_.as_str())]
}
