//! `ComputeDomains` with claims that wait for allocation, and for how long. Only used with
//! `imex.withoutClique=taint`, where a pod may wait for a node without seeing a reason.
//!
//! A claim waits from its first watch event. The scheduler sets a finalizer just before it writes the allocation, and
//! the finalizer is removed with the allocation. So the metadata, which are watched anyway, show whether a claim is
//! allocated.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use compute_domain_core::{ClaimName, Key, NodeCount, Waiting};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::time::Instant;

use crate::wake::wake_at;

/// How long a claim waits before its domain gets a condition. The scheduler needs seconds for the pods of a large
/// job.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// How long a count of the nodes is reused: a thousand waiting domains cost one list.
pub(crate) const COUNT_VALIDITY: Duration = Duration::from_secs(30);

/// Finalizer of claims that are allocated or about to be.
const ALLOCATED_FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// Whether the scheduler has allocated a device for the claim, or is about to.
pub(crate) fn is_allocated(claim: &ObjectMeta) -> bool {
    let finalizers = claim.finalizers.iter().flatten();
    finalizers.into_iter().any(|it| it == ALLOCATED_FINALIZER)
}

/// The waiting claims; always empty if disabled.
#[derive(Debug, Default)]
pub(crate) struct WaitingClaims {
    enabled: bool,
    state: Mutex<State>,
    last_count: tokio::sync::Mutex<Option<(Instant, NodeCount)>>,
}

#[derive(Debug, Default)]
struct State {
    domains: HashMap<Place, Claims>,
    /// When domains are due, earliest first.
    due: BTreeSet<(Instant, Place)>,
    listing: Listing,
}

/// The UID of a domain and a namespace. Anyone can create a claim with a domain's label; claims outside the domain's
/// namespace are not its claims.
type Place = (Key, Box<str>);

/// The waiting claims of one place, by name; at least one.
#[derive(Debug, Default)]
struct Claims {
    since: HashMap<Box<str>, Instant>,
    /// The node count when a claim had waited long.
    counted: Option<NodeCount>,
}

#[derive(Debug, Default)]
enum Listing {
    /// Not all claims are known yet.
    #[default]
    Never,
    Done,
    /// The watch lists again: the claims that wait so far, and whether all claims were known before.
    Again(HashSet<(Key, ClaimName)>, bool),
}

// === impl WaitingClaims ===

impl WaitingClaims {
    /// Creates an empty set, which stays empty unless enabled.
    pub(crate) fn new(enabled: bool) -> Self {
        Self {
            enabled,
            ..Self::default()
        }
    }

    /// Drops the state, because the watches start over.
    pub(crate) fn clear(&self) {
        *self.state() = State::default();
    }

    /// The watch begins to list all claims.
    pub(crate) fn begin(&self) {
        let mut state = self.state();
        let known = !matches!(state.listing, Listing::Never | Listing::Again(_, false));
        state.listing = Listing::Again(HashSet::new(), known);
    }

    /// The watch has listed all claims. Claims that it did not list no longer wait.
    pub(crate) fn finish(&self) {
        let mut state = self.state();
        if let Listing::Again(waiting, _) = std::mem::replace(&mut state.listing, Listing::Done) {
            state.domains.retain(|(key, namespace), claims| {
                claims.since.retain(|name, _| {
                    let claim = (namespace.clone(), name.clone());
                    waiting.contains(&(key.clone(), claim))
                });
                !claims.since.is_empty()
            });
        }
    }

    /// The watch reports a claim of this domain. Returns whether it was the last one that waited.
    pub(crate) fn apply(&self, key: &Key, claim: &ClaimName, is_allocated: bool) -> bool {
        if is_allocated {
            return self.remove(key, claim);
        }
        if !self.enabled {
            return false;
        }
        let now = Instant::now();
        let mut state = self.state();
        if let Listing::Again(waiting, _) = &mut state.listing {
            waiting.insert((key.clone(), claim.clone()));
        }
        let (namespace, name) = claim.clone();
        let place = (key.clone(), namespace);
        let is_first = !state.domains.contains_key(&place);
        let claims = state.domains.entry(place.clone()).or_default();
        claims.since.entry(name).or_insert(now);
        if is_first {
            state.due.insert((now + LONG, place));
        }
        false
    }

    /// The claim no longer waits. Returns whether it was the last one that did.
    pub(crate) fn remove(&self, key: &Key, claim: &ClaimName) -> bool {
        let mut state = self.state();
        let (namespace, name) = claim;
        let place = (key.clone(), namespace.clone());
        let Some(claims) = state.domains.get_mut(&place) else {
            return false;
        };
        let waited = claims.since.remove(name).is_some();
        let is_last = waited && claims.since.is_empty();
        if is_last {
            state.domains.remove(&place);
        }
        is_last
    }

    /// The wait state of this domain's claims in its namespace.
    pub(crate) fn of(&self, key: &Key, namespace: &str) -> Waiting {
        let state = self.state();
        let place = (key.clone(), namespace.into());
        match (state.domains.get(&place), &state.listing) {
            _ if !self.enabled => Waiting::Nothing,
            (Some(claims), _) => match (claims.counted, claims.oldest()) {
                (Some(count), _) => Waiting::Counted(count),
                (None, Some(since)) if since.elapsed() >= LONG => Waiting::Long,
                (None, _) => Waiting::Briefly,
            },
            (None, Listing::Done | Listing::Again(_, true)) => Waiting::Nothing,
            (None, Listing::Never | Listing::Again(_, false)) => Waiting::Unknown,
        }
    }

    /// Returns when a domain is due; never, if none is.
    pub(crate) async fn wait(&self) {
        let first = self.state().due.first().map(|(at, _)| *at);
        wake_at(first).await;
    }

    /// The domains with a claim that has waited long since the last call.
    pub(crate) fn take_due(&self) -> Vec<Key> {
        let now = Instant::now();
        let mut state = self.state();
        let mut due = Vec::new();
        while let Some((at, place)) = state.due.pop_first() {
            if at > now {
                state.due.insert((at, place));
                break;
            }
            // The claim that made it due may have been allocated meanwhile.
            match state.domains.get(&place).and_then(Claims::oldest) {
                Some(since) if since + LONG > now => {
                    state.due.insert((since + LONG, place));
                }
                Some(_) => due.push(place.0),
                None => {}
            }
        }
        due
    }

    /// Counts the nodes with `count` for this domain, or reuses a recent count. A failed count is retried later.
    pub(crate) async fn count<E>(
        &self,
        key: &Key,
        namespace: &str,
        count: impl AsyncFnOnce() -> Result<NodeCount, E>,
    ) -> Result<NodeCount, E> {
        let mut last = self.last_count.lock().await;
        let counted = match *last {
            Some((at, counted)) if at.elapsed() < COUNT_VALIDITY => Ok(counted),
            _ => count()
                .await
                .inspect(|counted| *last = Some((Instant::now(), *counted))),
        };
        let place = (key.clone(), namespace.into());
        let mut state = self.state();
        match &counted {
            Ok(counted) => {
                if let Some(claims) = state.domains.get_mut(&place) {
                    claims.counted = Some(*counted);
                }
            }
            Err(_) => {
                state.due.insert((Instant::now() + LONG, place));
            }
        }
        counted
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere cannot leave it half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Claims ===

impl Claims {
    fn oldest(&self) -> Option<Instant> {
        self.since.values().min().copied()
    }
}
