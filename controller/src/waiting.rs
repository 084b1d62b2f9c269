//! Which `ComputeDomains` have claims that wait to be allocated, and for how long. Only with
//! `imex.withoutClique=taint`, under which a pod may wait for a node without being told why.
//!
//! A claim waits from the moment in which the watch tells of it. That it is allocated is known by the
//! finalizer that the scheduler sets just before it writes the allocation, and which goes with the
//! allocation: so the metadata, which are watched anyway, are enough.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use compute_domain_core::{ClaimName, Key, NodeCount, Waiting};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::time::Instant;

use crate::wake::wake_at;

/// After how long the domain is told. The scheduler needs seconds for the pods of a large job.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// How long a count of the nodes is good for other domains, too: a thousand of them that wait cost one
/// list.
pub(crate) const COUNT_IS_GOOD: Duration = Duration::from_secs(30);

/// The finalizer of claims that are allocated, or are about to be.
const ALLOCATED_FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// Whether the scheduler has allocated a device for the claim, or is about to.
pub(crate) fn is_allocated(claim: &ObjectMeta) -> bool {
    let finalizers = claim.finalizers.iter().flatten();
    finalizers.into_iter().any(|it| it == ALLOCATED_FINALIZER)
}

/// The claims that wait. It knows of none, for good, unless it is enabled.
#[derive(Debug, Default)]
pub(crate) struct WaitingClaims {
    enabled: bool,
    state: Mutex<State>,
    last_count: tokio::sync::Mutex<Option<(Instant, NodeCount)>>,
}

#[derive(Debug, Default)]
struct State {
    domains: HashMap<Place, Claims>,
    /// When a domain is due to be told, the earliest first.
    due: BTreeSet<(Instant, Place)>,
    listing: Listing,
}

/// The UID of a domain and a namespace: anybody can make a claim with the label of a domain, and those
/// in other namespaces than its own are not its claims.
type Place = (Key, Box<str>);

/// The claims of one place that wait, by name; at least one.
#[derive(Debug, Default)]
struct Claims {
    since: HashMap<Box<str>, Instant>,
    /// What the nodes were like when one had waited long.
    counted: Option<NodeCount>,
}

#[derive(Debug, Default)]
enum Listing {
    /// Not all claims are known yet.
    #[default]
    Never,
    Done,
    /// The watch lists again: these wait. Whether all had been known before.
    Again(HashSet<(Key, ClaimName)>, bool),
}

// === impl WaitingClaims ===

impl WaitingClaims {
    /// Knows of no claim yet, or, unless it is enabled, ever.
    pub(crate) fn new(enabled: bool) -> Self {
        Self {
            enabled,
            ..Self::default()
        }
    }

    /// Forgets everything: the watches begin anew.
    pub(crate) fn clear(&self) {
        *self.state() = State::default();
    }

    /// The watch begins to list all claims.
    pub(crate) fn begin(&self) {
        let mut state = self.state();
        let known = !matches!(state.listing, Listing::Never | Listing::Again(_, false));
        state.listing = Listing::Again(HashSet::new(), known);
    }

    /// The watch has listed all claims: the others do not wait any more.
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

    /// The watch has a claim of this domain. Returns whether it was the last one that waited.
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

    /// The claim does not wait any more. Returns whether it was the last one that did.
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

    /// What is known of the claims of this domain, in its namespace.
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

    /// Returns when a domain is due to be told. For ever, if none is.
    pub(crate) async fn wait(&self) {
        let first = self.state().due.first().map(|(at, _)| *at);
        wake_at(first).await;
    }

    /// The domains of which a claim has waited long since the last call.
    pub(crate) fn take_due(&self) -> Vec<Key> {
        let now = Instant::now();
        let mut state = self.state();
        let mut due = Vec::new();
        while let Some((at, place)) = state.due.pop_first() {
            if at > now {
                state.due.insert((at, place));
                break;
            }
            // The one that it was about may have been allocated meanwhile.
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

    /// Counts the nodes with `count` for this domain, unless somebody just has. If that fails, it is
    /// tried again after a while.
    pub(crate) async fn count<E>(
        &self,
        key: &Key,
        namespace: &str,
        count: impl AsyncFnOnce() -> Result<NodeCount, E>,
    ) -> Result<NodeCount, E> {
        let mut last = self.last_count.lock().await;
        let counted = match *last {
            Some((at, counted)) if at.elapsed() < COUNT_IS_GOOD => Ok(counted),
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
