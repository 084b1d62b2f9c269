//! Templates that the API server rejects, and why.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use compute_domain_core::{Key, Rejection};
use dra_common::error_chain;
use kube::core::Status;
use tokio::time::Instant;

use crate::api_client::RequestError;
use crate::backoff::{delay_after, jittered};

/// Number of consecutive failures after which a transient error is reported as a refusal.
const PASSING_FAILURES: u32 = 3;

/// Shortest pause before a rejected request is retried. Nothing signals when a quota, policy or webhook changes. The
/// pause doubles up to [`LAST_RETRY`].
const FIRST_RETRY: Duration = Duration::from_secs(2);

/// Longest pause.
const LAST_RETRY: Duration = Duration::from_secs(60);

/// Templates that cannot be created now, by the UID of their ComputeDomain.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    by_key: HashMap<Key, Refusal>,
    /// `ComputeDomains` with a handover of a free name.
    handovers: HashMap<Key, Handover>,
    /// The next place in the order of waiting.
    next_place: u64,
}

#[derive(Clone, Debug)]
struct Refusal {
    rejection: Rejection,
    namespace: Box<str>,
    count: u32,
    retry_at: Instant,
    /// Place among the refusals that wait for the same name: the lowest has waited longest.
    place: u64,
}

/// A free name that is reserved for one waiting ComputeDomain, until the end of its next reconcile.
#[derive(Clone, Debug)]
struct Handover {
    name: TakenName,
    place: u64,
    /// Whether a reconcile has started since. A reconcile that was already running may have read the name when it was
    /// still taken.
    started: bool,
}

/// A template name that several `ComputeDomains` want.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TakenName {
    pub(crate) namespace: Box<str>,
    pub(crate) name: Box<str>,
}

impl Refusals {
    /// Why the template cannot be created; `None` if it has not been tried, or is to be retried.
    pub(crate) fn current(&self, key: &Key) -> Option<Rejection> {
        let state = self.lock();
        let refusal = state.by_key.get(key)?;
        (Instant::now() < refusal.retry_at).then(|| refusal.rejection.clone())
    }

    /// When the template is to be retried.
    pub(crate) fn retry_at(&self, key: &Key) -> Option<Instant> {
        Some(self.lock().by_key.get(key)?.retry_at)
    }

    /// Whether the last attempt found the name taken. Then a read suffices to check whether it still is.
    pub(crate) fn is_name_taken(&self, key: &Key) -> bool {
        self.is_last(key, |it| matches!(it, Rejection::NameTaken { .. }))
    }

    /// Whether another client changed the last template when it was created.
    pub(crate) fn is_changed(&self, key: &Key) -> bool {
        self.is_last(key, |it| matches!(it, Rejection::TemplateChanged { .. }))
    }

    fn is_last(&self, key: &Key, is: impl Fn(&Rejection) -> bool) -> bool {
        let state = self.lock();
        let last = state.by_key.get(key);
        last.is_some_and(|last| is(&last.rejection))
    }

    /// Records that the template could not be created.
    pub(crate) fn record(&self, key: &Key, namespace: &str, rejection: Rejection) {
        let mut state = self.lock();
        let before = state.by_key.get(key);
        let count = before.map_or(0, |before| before.count) + 1;
        let delay = (delay_after(count) * 8).clamp(FIRST_RETRY, LAST_RETRY);
        let mut refusal = Refusal {
            rejection,
            namespace: namespace.into(),
            count,
            retry_at: Instant::now() + jittered(delay),
            place: state.next_place,
        };
        let name = refusal.taken_name();
        match before {
            // It keeps its place.
            Some(before) if before.taken_name() == name => refusal.place = before.place,
            _ => state.next_place += 1,
        }
        if let Some(handover) = state.handovers.get(key)
            && name.as_ref() == Some(&handover.name)
        {
            if handover.started {
                // The present owner of the name causes the next handover when its template is deleted.
                state.handovers.remove(key);
            } else {
                refusal.retry_at = Instant::now();
            }
        }
        state.by_key.insert(key.clone(), refusal);
    }

    /// Clears the refusal: the template exists as desired, or the ComputeDomain is deleted.
    // req: CD-20
    pub(crate) fn forget(&self, key: &Key) {
        self.lock().by_key.remove(key);
    }

    /// A template of this name is deleted. Returns the key of the ComputeDomain that has waited longest for the name,
    /// which is to retry.
    // req: CD-12
    pub(crate) fn name_is_free(&self, name: &TakenName) -> Option<Key> {
        self.lock().offer_handover(name, 0)
    }

    /// A reconcile starts.
    pub(crate) fn start_handover(&self, key: &Key) {
        if let Some(handover) = self.lock().handovers.get_mut(key) {
            handover.started = true;
        }
    }

    /// The reconcile has ended, or was postponed. If this ComputeDomain had a handover and `has_taken` is false, the
    /// name goes to the next one that waits, whose key is returned.
    pub(crate) fn end_handover(
        &self,
        key: &Key,
        has_taken: impl FnOnce(&TakenName) -> bool,
    ) -> Option<Key> {
        let mut state = self.lock();
        if !state.handovers.get(key)?.started {
            return None;
        }
        let handover = state.handovers.remove(key)?;
        if has_taken(&handover.name) {
            return None;
        }
        state.offer_handover(&handover.name, handover.place + 1)
    }

    /// Any name may have become free unnoticed. Returns the keys to retry.
    pub(crate) fn names_may_be_free(&self) -> Vec<Key> {
        let now = Instant::now();
        let mut keys = Vec::new();
        for (key, refusal) in &mut self.lock().by_key {
            if refusal.is_name_taken() {
                refusal.retry_at = now;
                keys.push(key.clone());
            }
        }
        keys
    }

    /// Whether a ComputeDomain waits for a name.
    pub(crate) fn any_name_taken(&self) -> bool {
        self.lock().by_key.values().any(Refusal::is_name_taken)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere cannot leave the map half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl State ===

impl State {
    /// Hands the name over to the first refusal that waits for it, from this place on.
    fn offer_handover(&mut self, name: &TakenName, from: u64) -> Option<Key> {
        let waits = |refusal: &Refusal| refusal.place >= from && refusal.waits_for(name);
        let waiting = self.by_key.iter_mut().filter(|(_, refusal)| waits(refusal));
        let (key, first) = waiting.min_by_key(|(_, refusal)| refusal.place)?;
        first.retry_at = Instant::now();
        let handover = Handover {
            name: name.clone(),
            place: first.place,
            started: false,
        };
        self.handovers.insert(key.clone(), handover);
        Some(key.clone())
    }
}

// === impl Refusal ===

impl Refusal {
    fn is_name_taken(&self) -> bool {
        matches!(self.rejection, Rejection::NameTaken { .. })
    }

    fn waits_for(&self, free: &TakenName) -> bool {
        let Rejection::NameTaken { name, .. } = &self.rejection else {
            return false;
        };
        **name == *free.name && self.namespace == free.namespace
    }

    /// The taken name for which it waits, if any.
    fn taken_name(&self) -> Option<TakenName> {
        let Rejection::NameTaken { name, .. } = &self.rejection else {
            return None;
        };
        Some(TakenName {
            namespace: self.namespace.clone(),
            name: name.as_str().into(),
        })
    }
}

/// The API server's message if it rejects the request itself, rather than failing to answer. `failures` is the number
/// of consecutive failures: an unavailable webhook looks like an unavailable API server.
// req: CD-14
pub(crate) fn refusal_in(error: &RequestError, failures: u32) -> Option<String> {
    let lasting = |status: &Status| matches!(status.code, 400 | 403 | 405 | 413 | 422);
    match error.status() {
        Some(status) if lasting(status) || failures >= PASSING_FAILURES => {
            Some(status.message.clone())
        }
        None if failures >= PASSING_FAILURES => Some(error_chain(error)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
