//! What the driver-managed mode of the Go driver has made, and how it goes where this driver runs
//! `nvidia-imex` itself.
//!
//! For each ComputeDomain, the Go driver runs a `DaemonSet`, whose pods hold the IMEX session of their
//! nodes. It has a template of their claims beside it, a label on each node, and objects of cliques. Its
//! controller is gone, so nobody removes them. Programs that import memory end with their node's
//! `nvidia-imex`: nothing is removed before no claim of that ComputeDomain is allocated.
//!
//! ```text
//! watch of its DaemonSets ─┐                  ┌─> GoStep::ListClaims ──> claims_are() ─┐
//! watch of its templates ──┼──> GoDaemons ────┤                                        │
//! watch of claims ─────────┘      ^           └─> GoStep::Remove ──> removed() ────────┤
//!                                 └────────────────────────────────────────────────────┘
//! ```
//!
//! The template goes last. While it is there the ComputeDomain is rejected, so that no further claim of it is
//! prepared, and a controller that starts finds what a former one has begun.

mod object;
#[cfg(test)]
mod tests;

pub use object::{GoKind, GoObject, is_clique_of, label_removal};

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// Objects that come back within this time are left alone for as long: somebody makes them.
const COMES_BACK: Duration = Duration::from_secs(600);

/// Objects that finalizers of others keep are looked at again after this time.
const KEPT: Duration = Duration::from_secs(30);

/// From one list of claims to the next, at least.
const LIST_PAUSE: Duration = Duration::from_secs(2);

/// From the first failed attempt to the second. It doubles.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(60);

/// The `ComputeDomains` of which there are such objects, by their UIDs.
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
    /// Whether nothing is left, and not only not listed again yet.
    gone: bool,
    state: State,
    /// When there is something to do; `None`: not before something changes.
    due: Option<Instant>,
    failures: u32,
    removed_at: Option<Instant>,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    /// Whether claims are allocated is not known.
    Unknown,
    /// These are allocated.
    Waits(BTreeSet<Box<str>>),
    /// None is.
    Unused,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoStep {
    /// List the allocated claims of these `ComputeDomains`.
    ListClaims(BTreeSet<Box<str>>),
    /// Remove what there is of this one: `DaemonSets`, then labels of nodes and objects of cliques, then
    /// templates.
    Remove {
        /// Its UID.
        domain: Box<str>,
        /// `DaemonSets` and templates, in this order.
        objects: Vec<GoObject>,
    },
}

/// What users and operators are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoDaemonEvent {
    /// Claims of this ComputeDomain are allocated.
    Waits {
        /// Its UID.
        domain: Box<str>,
        /// As `NAMESPACE/NAME`.
        claims: Vec<String>,
    },
    /// Nothing is left of this one.
    Removed {
        /// Its UID.
        domain: Box<str>,
    },
    /// Objects of this one have come back.
    CameBack {
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
        let (Self::Waits { domain, .. } | Self::Removed { domain } | Self::CameBack { domain, .. }) =
            self;
        domain
    }
}

// === impl GoDaemons ===

impl GoDaemons {
    // === what the watches tell ===

    /// The watch of this kind in this namespace begins anew.
    pub fn begin(&mut self, kind: GoKind, namespace: &str) {
        for domain in self.domains.values_mut() {
            domain.objects.remove(&(kind, namespace.into()));
        }
    }

    /// There is this object, of this ComputeDomain.
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
            domain.due = Some(now + COMES_BACK);
            self.events.push(GoDaemonEvent::CameBack {
                domain: uid.into(),
                object: name,
            });
        }
    }

    /// There is no such object any more.
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

    /// All watches have told all that there is.
    pub fn listed(&mut self, now: Instant) {
        self.domains.retain(|_, domain| {
            domain.gone |= domain.objects.is_empty();
            !domain.gone || domain.was_removed_lately(now)
        });
    }

    /// This claim is gone, or is allocated no more.
    // req: MODE-35
    pub fn claim_released(&mut self, claim: &str, now: Instant) {
        for domain in self.domains.values_mut() {
            domain.release(|it| it == claim, now);
        }
    }

    /// Only these claims are allocated, of whomever.
    pub fn allocated_are(&mut self, claims: &BTreeSet<String>, now: Instant) {
        for domain in self.domains.values_mut() {
            domain.release(|it| !claims.contains(it), now);
        }
    }

    // === what is to be done ===

    /// Whether anything of the Go driver's is there. Claims need to be watched then.
    pub fn is_any(&self) -> bool {
        let mut domains = self.domains.values();
        domains.any(|domain| !domain.objects.is_empty())
    }

    /// How many `ComputeDomains` wait until their claims are gone.
    pub fn waiting(&self) -> usize {
        let waits = |it: &&Domain| !it.objects.is_empty() && matches!(it.state, State::Waits(_));
        self.domains.values().filter(waits).count()
    }

    /// When there is something to do; `None`: not before something changes.
    pub fn due(&self) -> Option<Instant> {
        let due = |domain: &Domain| {
            let due = domain.due.filter(|_| !domain.objects.is_empty())?;
            let list = self.next_list.filter(|_| domain.state == State::Unknown);
            Some(list.map_or(due, |at| at.max(due)))
        };
        self.domains.values().filter_map(due).min()
    }

    /// What is to be done now.
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
        // One list is for all.
        let unknown = self
            .domains
            .iter()
            .filter(|(_, domain)| domain.needs_list());
        Some(GoStep::ListClaims(
            unknown.map(|(uid, _)| uid.clone()).collect(),
        ))
    }

    /// These claims are allocated, of those `ComputeDomains` that were asked for.
    // req: MODE-30
    pub fn claims_are(
        &mut self,
        asked: &BTreeSet<Box<str>>,
        mut claims: HashMap<Box<str>, Vec<String>>,
        now: Instant,
    ) {
        self.next_list = Some(now + LIST_PAUSE);
        for uid in asked {
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

    /// Every request of a removal has succeeded. What finalizers of others keep is tried again later.
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

    /// A request for these has failed. It is made again later.
    pub fn failed<'a>(&mut self, uids: impl IntoIterator<Item = &'a str>, now: Instant) {
        for uid in uids {
            if let Some(domain) = self.domains.get_mut(uid) {
                let doubled = FIRST_RETRY * 2_u32.saturating_pow(domain.failures.min(10));
                domain.failures += 1;
                domain.due = Some(now + doubled.min(LAST_RETRY));
            }
        }
    }

    /// What is to be told, once.
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
        self.removed_at.is_some_and(|at| now < at + COMES_BACK)
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
