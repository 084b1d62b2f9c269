//! Work queue of UIDs to reconcile.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use compute_domain_core::Key;
use tokio::time::Instant;

use crate::wake::wake_at;

/// A queue of keys, each at most once. A key that is added again keeps its place or gets an earlier one. A key that
/// is added while it is running is queued again afterwards. So a key never runs twice at the same time, and no change
/// is missed.
///
/// Each key belongs to a tenant. Tenants take turns, one key each, however many keys one of them has.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Keys due now. Every tenant here has at least one key.
    ready: HashMap<Tenant, VecDeque<Key>>,
    /// Number of keys in `ready`.
    depth: usize,
    /// The tenants in `ready`, each once, the next one first.
    turns: VecDeque<Tenant>,
    /// Delayed keys, earliest first.
    delayed: BTreeSet<(Instant, Key)>,
    entries: HashMap<Key, Entry>,
}

/// A namespace. Keys that are added together share one string.
type Tenant = Arc<str>;

/// A key that is queued or running.
#[derive(Debug)]
struct Entry {
    tenant: Tenant,
    place: Place,
}

/// Where a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Ready,
    Delayed(Instant),
    Running,
    /// Running, and added again since.
    RunningAgain,
}

impl Queue {
    /// Adds a key that is due now. A queued or running key keeps its tenant.
    pub(crate) fn add(&mut self, key: &Key, tenant: &str) {
        if self.entries.contains_key(key) {
            self.add_known(key);
            return;
        }
        let shared = self.ready.get_key_value(tenant);
        let tenant = shared.map_or_else(|| tenant.into(), |(shared, _)| shared.clone());
        let entry = Entry {
            tenant: Arc::clone(&tenant),
            place: Place::Ready,
        };
        self.entries.insert(key.clone(), entry);
        self.push(tenant, key);
    }

    fn add_known(&mut self, key: &Key) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        match entry.place {
            Place::Ready | Place::RunningAgain => {}
            Place::Running => entry.place = Place::RunningAgain,
            Place::Delayed(at) => {
                entry.place = Place::Ready;
                let tenant = entry.tenant.clone();
                self.delayed.remove(&(at, key.clone()));
                self.push(tenant, key);
            }
        }
    }

    fn push(&mut self, tenant: Tenant, key: &Key) {
        let keys = self.ready.entry(tenant.clone()).or_default();
        if keys.is_empty() {
            self.turns.push_back(tenant);
        }
        keys.push_back(key.clone());
        self.depth += 1;
    }

    /// Takes the next key, if there is one. It is running until [`Queue::done`].
    // req: CD-29
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Key> {
        while let Some((at, key)) = self.delayed.first()
            && *at <= now
        {
            let key = key.clone();
            self.add_known(&key);
        }
        let tenant = self.turns.pop_front()?;
        let keys = self.ready.get_mut(&tenant)?;
        let key = keys.pop_front()?;
        self.depth -= 1;
        if keys.is_empty() {
            self.ready.remove(&tenant);
        } else {
            self.turns.push_back(tenant);
        }
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.place = Place::Running;
        }
        Some(key)
    }

    /// Ends the run of a key. It is queued again for `again`, or now if it was added meanwhile.
    pub(crate) fn done(&mut self, key: &Key, again: Option<Instant>) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        match (entry.place, again) {
            (Place::RunningAgain, _) => {
                entry.place = Place::Ready;
                let tenant = entry.tenant.clone();
                self.push(tenant, key);
            }
            (_, Some(at)) => {
                entry.place = Place::Delayed(at);
                self.delayed.insert((at, key.clone()));
            }
            (_, None) => {
                self.entries.remove(key);
            }
        }
    }

    /// Returns when a delayed key is due; never, if there is none.
    pub(crate) async fn wait(&self) {
        wake_at(self.delayed.first().map(|(at, _)| *at)).await;
    }

    /// Number of keys due now, without delayed ones.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }
}

#[cfg(test)]
mod tests;
