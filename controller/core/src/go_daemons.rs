//! Removes the objects of the Go driver's driver-managed mode after a switch to this driver's driver-managed mode.
//!
//! For each ComputeDomain, the Go driver runs a `DaemonSet` whose pods run `nvidia-imex`. It also has a template for
//! their claims, a label on each node, and objects of cliques. Its controller is uninstalled, so it does not remove
//! them. Stopping `nvidia-imex` kills every process on the node that has imported memory. So the objects are removed
//! only when no claim of the ComputeDomain is allocated.
//!
//! ```text
//! watch of its DaemonSets ─┐                  ┌─> GoStep::ListClaims ──> set_listed_claims() ─┐
//! watch of its templates ──┼──> GoDaemons ────┤                                        │
//! watch of claims ─────────┘      ^           └─> GoStep::Remove ──> removed() ────────┤
//!                                 └────────────────────────────────────────────────────┘
//! ```
//!
//! The template is removed last. While it exists, the ComputeDomain is rejected, so that no further claim of it is
//! prepared, and a new leader finds what the former one has begun.

mod object;
#[cfg(test)]
mod tests;

pub use object::{GoKind, GoObject, is_clique_of, label_removal};

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// Objects that reappear within this time are left alone for this time: another program creates them.
const REAPPEARS_WITHIN: Duration = Duration::from_secs(600);

/// The delay before objects that other finalizers keep are checked again.
const KEPT: Duration = Duration::from_secs(30);

/// The shortest time between two lists of claims.
const LIST_PAUSE: Duration = Duration::from_secs(2);

/// The delay between the first failed attempt and the second. It doubles each time.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(60);

/// The `ComputeDomains` with such objects, by UID.
#[derive(Debug, Default)]
pub struct GoDaemons {
    domains: BTreeMap<Box<str>, Domain>,
    /// No claims are listed before this time.
    next_list: Option<Instant>,
    events: Vec<GoDaemonEvent>,
}

#[derive(Debug)]
struct Domain {
    objects: BTreeMap<(GoKind, Box<str>), GoObject>,
    /// Whether no object is left. False if the objects are only not listed again yet.
    gone: bool,
    state: State,
    /// The time of the next step; `None` until something changes.
    due: Option<Instant>,
    failures: u32,
    removed_at: Option<Instant>,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    /// Not known whether claims are allocated.
    Unknown,
    /// These claims are allocated.
    Waits(BTreeSet<Box<str>>),
    /// No claim is allocated.
    Unused,
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoStep {
    /// List the allocated claims of these `ComputeDomains`.
    ListClaims(BTreeSet<Box<str>>),
    /// Remove the objects of this ComputeDomain: `DaemonSets`, then node labels and objects of cliques, then
    /// templates.
    Remove {
        /// Its UID.
        domain: Box<str>,
        /// `DaemonSets` and templates, in this order.
        objects: Vec<GoObject>,
    },
}

/// An event for users and administrators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoDaemonEvent {
    /// Claims of this ComputeDomain are allocated.
    Waits {
        /// Its UID.
        domain: Box<str>,
        /// The claims, as `NAMESPACE/NAME`.
        claims: Vec<String>,
    },
    /// All objects of this ComputeDomain are removed.
    Removed {
        /// Its UID.
        domain: Box<str>,
    },
    /// Objects of this ComputeDomain have reappeared.
    Reappeared {
        /// Its UID.
        domain: Box<str>,
        /// One of them.
        object: String,
    },
}

// === impl GoDaemonEvent ===

impl GoDaemonEvent {
    /// UID of the ComputeDomain that it is about.
    pub fn domain(&self) -> &str {
        let (Self::Waits { domain, .. }
        | Self::Removed { domain }
        | Self::Reappeared { domain, .. }) = self;
        domain
    }
}

// === impl GoDaemons ===

impl GoDaemons {
    // === watches ===

    /// The watch of this kind in this namespace begins again.
    pub fn begin(&mut self, kind: GoKind, namespace: &str) {
        for domain in self.domains.values_mut() {
            domain.objects.remove(&(kind, namespace.into()));
        }
    }

    /// This object of this ComputeDomain exists.
    // req: MODE-34
    pub fn apply(&mut self, uid: &str, object: GoObject, now: Instant) {
        let domain = self.domains.entry(uid.into()).or_insert_with(Domain::new);
        let name = object.to_string();
        let key = (object.kind(), object.namespace().into());
        domain.objects.insert(key, object);
        if !std::mem::take(&mut domain.gone) {
            return;
        }
        domain.state = State::Unknown;
        domain.due = Some(now);
        if domain.was_removed_lately(now) {
            domain.due = Some(now + REAPPEARS_WITHIN);
            self.events.push(GoDaemonEvent::Reappeared {
                domain: uid.into(),
                object: name,
            });
        }
    }

    /// The object is deleted.
    pub fn remove(&mut self, uid: &str, object: &GoObject) {
        let Some(domain) = self.domains.get_mut(uid) else {
            return;
        };
        let key = (object.kind(), object.namespace().into());
        let is_it = |it: &GoObject| it.uid() == object.uid();
        if domain.objects.get(&key).is_some_and(is_it) {
            domain.objects.remove(&key);
        }
        domain.gone |= domain.objects.is_empty();
    }

    /// All watches have listed all objects.
    pub fn listed(&mut self, now: Instant) {
        self.domains.retain(|_, domain| {
            domain.gone |= domain.objects.is_empty();
            !domain.gone || domain.was_removed_lately(now)
        });
    }

    /// This claim is deleted or no longer allocated.
    // req: MODE-35
    pub fn claim_released(&mut self, claim: &str, now: Instant) {
        for domain in self.domains.values_mut() {
            domain.release(|it| it == claim, now);
        }
    }

    /// Exactly these claims are allocated, of all owners.
    pub fn allocated_are(&mut self, claims: &BTreeSet<String>, now: Instant) {
        for domain in self.domains.values_mut() {
            domain.release(|it| !claims.contains(it), now);
        }
    }

    // === steps ===

    /// Whether any object of the Go driver exists, so that claims have to be watched.
    pub fn is_any(&self) -> bool {
        let mut domains = self.domains.values();
        domains.any(|domain| !domain.objects.is_empty())
    }

    /// The number of `ComputeDomains` that wait until their claims are no longer allocated.
    pub fn waiting(&self) -> usize {
        let waits = |it: &&Domain| !it.objects.is_empty() && matches!(it.state, State::Waits(_));
        self.domains.values().filter(waits).count()
    }

    /// The time of the next step; `None` until something changes.
    pub fn due(&self) -> Option<Instant> {
        let due = |domain: &Domain| {
            let due = domain.due.filter(|_| !domain.objects.is_empty())?;
            let list = self.next_list.filter(|_| domain.state == State::Unknown);
            Some(list.map_or(due, |at| at.max(due)))
        };
        self.domains.values().filter_map(due).min()
    }

    /// The step that is due, if any.
    // req: MODE-30, MODE-32
    pub fn next(&self, now: Instant) -> Option<GoStep> {
        let mut due = self.domains.iter().filter(|(_, domain)| {
            !domain.objects.is_empty() && domain.due.is_some_and(|at| at <= now)
        });
        let unused = due
            .clone()
            .find(|(_, domain)| domain.state == State::Unused);
        if let Some((uid, domain)) = unused {
            return Some(GoStep::Remove {
                domain: uid.clone(),
                objects: domain.objects.values().cloned().collect(),
            });
        }
        if self.next_list.is_some_and(|at| now < at) || due.next().is_none() {
            return None;
        }
        // One list serves all of them.
        let unknown = self
            .domains
            .iter()
            .filter(|(_, domain)| domain.needs_list());
        Some(GoStep::ListClaims(
            unknown.map(|(uid, _)| uid.clone()).collect(),
        ))
    }

    /// The response to [`GoStep::ListClaims`] for the `ComputeDomains` in `requested_uids`: their allocated claims.
    // req: MODE-30
    pub fn set_listed_claims(
        &mut self,
        requested_uids: &BTreeSet<Box<str>>,
        mut claims: HashMap<Box<str>, Vec<String>>,
        now: Instant,
    ) {
        self.next_list = Some(now + LIST_PAUSE);
        for uid in requested_uids {
            let Some(domain) = self.domains.get_mut(uid) else {
                continue;
            };
            domain.failures = 0;
            let claims = claims.remove(uid).unwrap_or_default();
            if claims.is_empty() {
                domain.state = State::Unused;
                domain.due = Some(now);
                continue;
            }
            domain.state = State::Waits(claims.iter().map(|it| it.as_str().into()).collect());
            domain.due = None;
            self.events.push(GoDaemonEvent::Waits {
                domain: uid.clone(),
                claims,
            });
        }
    }

    /// All requests of a removal have succeeded. Objects that other finalizers keep are checked again later.
    pub fn removed(&mut self, uid: &str, now: Instant) {
        let Some(domain) = self.domains.get_mut(uid) else {
            return;
        };
        domain.failures = 0;
        domain.due = Some(now + KEPT);
        if !domain.was_removed_lately(now) {
            self.events
                .push(GoDaemonEvent::Removed { domain: uid.into() });
        }
        domain.removed_at = Some(now);
    }

    /// A request for these has failed. It is retried later.
    pub fn failed<'a>(&mut self, uids: impl IntoIterator<Item = &'a str>, now: Instant) {
        for uid in uids {
            if let Some(domain) = self.domains.get_mut(uid) {
                let doubled = FIRST_RETRY * 2_u32.saturating_pow(domain.failures.min(10));
                domain.failures += 1;
                domain.due = Some(now + doubled.min(LAST_RETRY));
            }
        }
    }

    /// The new events.
    pub fn take_events(&mut self) -> Vec<GoDaemonEvent> {
        std::mem::take(&mut self.events)
    }
}

// === impl Domain ===

impl Domain {
    fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            gone: true,
            state: State::Unknown,
            due: None,
            failures: 0,
            removed_at: None,
        }
    }

    fn was_removed_lately(&self, now: Instant) -> bool {
        self.removed_at
            .is_some_and(|at| now < at + REAPPEARS_WITHIN)
    }

    fn needs_list(&self) -> bool {
        !self.objects.is_empty() && self.due.is_some() && self.state == State::Unknown
    }

    fn release(&mut self, is_released: impl Fn(&str) -> bool, now: Instant) {
        let State::Waits(claims) = &mut self.state else {
            return;
        };
        claims.retain(|claim| !is_released(claim));
        if claims.is_empty() {
            self.state = State::Unknown;
            self.due = Some(now);
        }
    }
}
