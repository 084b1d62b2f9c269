//! One clique: its object, as far as it is known, and what it is to be.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use compute_domain_api::clique::{CliqueDaemon, ComputeDomainClique};
use compute_domain_api::crd::ComputeDomainState;
use compute_domain_api::resident::{CLIQUE_ID_LABEL, NameScheme, RESIDENT_LABEL};

use crate::version::Version;

use super::standing::{PodFacts, Standing};

/// How long nobody gets an index after no daemon of its former node is known any more: an unreachable
/// machine may still run one whose pod is gone from the API server.
pub(super) const FREE_AFTER: Duration = Duration::from_secs(5 * 60);

/// How long an object without members stays: nodes may be about to come back.
const KEPT_EMPTY: Duration = Duration::from_secs(10 * 60);

/// The longest time between two looks at a Node that exists, and has neither slice nor daemon.
const LONGEST_LOOK: Duration = Duration::from_secs(60 * 60);

/// One clique.
#[derive(Debug, Default)]
pub(super) struct Members {
    /// Its object, as it was told last; `None`: there is none.
    pub(super) observed: Option<ComputeDomainClique>,
    /// The length of the lists that it had last. The daemons that run have it, also where somebody has
    /// deleted the object, or the field.
    length: Option<u32>,
    /// By the name of the node. More or less than what the object has, until that is written.
    pub(super) entries: BTreeMap<Box<str>, Entry>,
    /// When indices became free that were in use since the start.
    freed: BTreeMap<u32, Instant>,
    /// Nodes for which no index is free.
    pub(super) surplus: BTreeSet<Box<str>>,
    empty_since: Option<Instant>,
}

/// One member.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) daemon: CliqueDaemon,
    /// Since when no daemon of this member is known.
    since: Option<Instant>,
    /// How often the Node was looked at since then, and when it is next.
    looks: u32,
    look_at: Option<Instant>,
    /// The Node is known not to exist any more.
    gone: bool,
    /// Whether its address is that of a daemon that is a member.
    is_current: bool,
}

/// What evaluating a clique has led to.
#[derive(Debug, Default)]
pub(super) struct Evaluated {
    /// The node that has to be looked at.
    pub(super) look: Option<Box<str>>,
    /// When it has to be evaluated again, if nothing changes.
    pub(super) again: Option<Instant>,
}

/// A node that wants to become a member.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) node: Box<str>,
    pub(super) uid: Box<str>,
    pub(super) pod: PodFacts,
}

// === impl Members ===

impl Members {
    /// The object as the watch or an answer has it. Where it differs from what is known, it is right: a
    /// write of before may have come late, and daemons follow it at once. A member that it lacks, or whose index is none
    /// that a daemon would follow, keeps the index that is known of it if that is free.
    pub(super) fn merge(&mut self, object: &ComputeDomainClique) -> bool {
        let version =
            |it: &ComputeDomainClique| Version::parse(it.metadata.resource_version.as_deref());
        if let Some(known) = &self.observed
            && known.metadata.uid == object.metadata.uid
            && version(known) >= version(object)
        {
            return false;
        }
        let mut observed = object.clone();
        observed.metadata.managed_fields = None;
        self.observed = Some(observed);
        self.length = object.spec.list_length.or(self.length);
        let limit = self.length.map_or(i64::MAX, i64::from);
        let known_index = |daemon: &CliqueDaemon| {
            let known = self.entries.get(daemon.node_name.as_str());
            known.is_some_and(|known| known.daemon.index == daemon.index)
        };
        // Of two with one index, it is that of whom it is known of.
        let mut daemons: Vec<_> = object.spec.daemons.iter().collect();
        daemons.sort_by_key(|daemon| !known_index(daemon));
        let (mut taken, mut told) = (BTreeSet::new(), BTreeSet::new());
        for daemon in daemons {
            if !(0..limit).contains(&daemon.index) || !taken.insert(daemon.index) {
                continue;
            }
            let node = daemon.node_name.as_str();
            told.insert(node);
            match self.entries.get_mut(node) {
                Some(known) if known.is_same_member(daemon) => known.daemon.index = daemon.index,
                _ => drop(self.entries.insert(node.into(), Entry::new(daemon.clone()))),
            }
        }
        self.entries
            .retain(|node, entry| told.contains(&**node) || taken.insert(entry.daemon.index));
        true
    }

    /// What the object is to be, with the metadata that it has.
    pub(super) fn wanted(
        &self,
        clique: &str,
        max_nodes: u32,
        is_idle: bool,
    ) -> ComputeDomainClique {
        let mut object = self.observed.clone().unwrap_or_default();
        object.metadata.name = Some(clique.to_owned());
        let labels = object.metadata.labels.get_or_insert_default();
        labels.insert(RESIDENT_LABEL.to_owned(), "true".to_owned());
        labels.insert(CLIQUE_ID_LABEL.to_owned(), clique.to_owned());
        let mut daemons: Vec<_> = self.entries.values().map(|it| it.daemon.clone()).collect();
        daemons.sort_by_key(|daemon| daemon.index);
        object.spec.daemons = daemons;
        object.spec.list_length = Some(self.length(max_nodes, is_idle));
        let scheme = object.spec.name_scheme.unwrap_or(NameScheme::Hash10);
        object.spec.name_scheme = Some(scheme);
        object
    }

    /// How many lines the node lists have: what the operator says now only if no daemon runs, and no
    /// member's index is beyond it.
    // req: DM-5
    pub(super) fn length(&self, max_nodes: u32, is_idle: bool) -> u32 {
        let Some(length) = self.length else {
            return max_nodes;
        };
        let fits = |entry: &Entry| entry.daemon.index < i64::from(max_nodes);
        if is_idle && self.entries.values().all(fits) {
            max_nodes
        } else {
            length
        }
    }

    /// Lets each member be what it is.
    pub(super) fn update(
        &mut self,
        standings: Vec<(Box<str>, Standing)>,
        now: Instant,
    ) -> Evaluated {
        let mut evaluated = Evaluated::default();
        for (node, standing) in standings {
            let Some(entry) = self.entries.get_mut(&node) else {
                continue;
            };
            let fate = entry.update(standing, now);
            match fate {
                Fate::Freed => {
                    let index = u32::try_from(entry.daemon.index).unwrap_or_default();
                    self.freed.insert(index, now);
                    self.entries.remove(&node);
                }
                Fate::Look => evaluated.look = Some(node),
                Fate::Stays(again) => evaluated.wake(again),
            }
        }
        self.blank_reused_addresses();
        self.empty_since = match (&self.observed, self.entries.is_empty()) {
            (Some(_), true) => Some(self.empty_since.unwrap_or(now)),
            _ => None,
        };
        evaluated.wake(self.empty_since.map(|since| since + KEPT_EMPTY));
        evaluated
    }

    /// Gives each node that has none an index, the one that nobody has had for the longest time. Returns
    /// the nodes that are newly without one.
    // req: DM-2, DM-6
    pub(super) fn admit(
        &mut self,
        clique: &str,
        candidates: Vec<Candidate>,
        length: u32,
    ) -> Vec<Box<str>> {
        let mut free = self.free_indices(length).into_iter();
        let mut surplus = BTreeSet::new();
        for Candidate { node, uid, pod } in candidates {
            let Some(index) = free.next() else {
                surplus.insert(node);
                continue;
            };
            let mut entry = Entry::new(CliqueDaemon {
                node_name: node.to_string(),
                clique_id: clique.to_owned(),
                index: i64::from(index),
                node_uid: uid.to_string(),
                ..CliqueDaemon::default()
            });
            entry.set_pod(Some(&pod));
            self.freed.remove(&index);
            self.entries.insert(node, entry);
        }
        let new = surplus.difference(&self.surplus).cloned().collect();
        self.surplus = surplus;
        new
    }

    /// Whether the object has had no member for long.
    pub(super) fn is_to_go(&self, now: Instant) -> bool {
        self.empty_since
            .is_some_and(|since| since + KEPT_EMPTY <= now)
    }

    /// Whether the object has this pod as the member of this node.
    pub(super) fn has_member(&self, node: &str, pod: &str) -> bool {
        let observed = self.observed.iter();
        let mut daemons = observed.flat_map(|object| &object.spec.daemons);
        daemons.any(|daemon| daemon.node_name == node && daemon.pod_uid == pod)
    }

    /// An IMEX daemon finds its index by its address: no other member may have it.
    fn blank_reused_addresses(&mut self) {
        let current = self.entries.values().filter(|entry| entry.is_current);
        let addresses: BTreeSet<_> = current.map(|it| it.daemon.ip_address.clone()).collect();
        let former = self.entries.values_mut().filter(|entry| !entry.is_current);
        for entry in former.filter(|it| addresses.contains(&it.daemon.ip_address)) {
            // Nor does a daemon run at an address that another pod has got.
            entry.daemon.ip_address.clear();
            entry.daemon.pod_uid.clear();
        }
    }

    fn free_indices(&self, length: u32) -> Vec<u32> {
        let taken: BTreeSet<_> = self.entries.values().map(|it| it.daemon.index).collect();
        let mut free: Vec<_> = (0..length)
            .filter(|index| !taken.contains(&i64::from(*index)))
            .collect();
        free.sort_by_key(|index| (self.freed.get(index).copied(), *index));
        free
    }
}

// === impl Evaluated ===

impl Evaluated {
    fn wake(&mut self, at: Option<Instant>) {
        self.again = self.again.into_iter().chain(at).min();
    }
}

/// What becomes of a member.
enum Fate {
    /// It stays, at least until then.
    Stays(Option<Instant>),
    /// Its Node has to be looked at.
    Look,
    /// It is none any more.
    Freed,
}

// === impl Entry ===

impl Entry {
    fn new(daemon: CliqueDaemon) -> Self {
        Self {
            daemon,
            since: None,
            looks: 0,
            look_at: None,
            gone: false,
            is_current: false,
        }
    }

    fn is_same_member(&self, told: &CliqueDaemon) -> bool {
        self.daemon.node_uid == told.node_uid
    }

    /// The Node was looked at: whether it is still the member's.
    pub(super) fn looked(&mut self, uid: Option<&str>, now: Instant) {
        self.gone = uid != Some(&self.daemon.node_uid);
        self.look_again(now);
    }

    /// It is looked at later: after 5 minutes, then after twice as long each time.
    pub(super) fn look_again(&mut self, now: Instant) {
        let pause = FREE_AFTER * 2_u32.saturating_pow(self.looks);
        self.looks = self.looks.saturating_add(1).min(8);
        self.look_at = Some(now + pause.min(LONGEST_LOOK));
    }

    // req: DM-3, DM-4
    fn update(&mut self, standing: Standing, now: Instant) -> Fate {
        self.is_current = false;
        match standing {
            Standing::Member {
                pod,
                uid,
                is_known_to_live,
            } => {
                self.daemon.node_uid = uid.to_string();
                self.set_pod(pod.as_ref());
                self.lives_or_looks(is_known_to_live, now)
            }
            Standing::Unknown { is_known_to_live } => self.lives_or_looks(is_known_to_live, now),
            Standing::Replaced {
                uid,
                pod,
                takes_over,
                former_may_run,
            } => {
                // Its address stays, by which the former daemon is known.
                self.daemon.status = ComputeDomainState::NotReady;
                self.daemon.draining.clear();
                if self.is_over(!former_may_run, now) {
                    if !takes_over {
                        return Fate::Freed;
                    }
                    self.daemon.node_uid = uid.to_string();
                    self.set_pod(pod.as_ref());
                    self.since = None;
                    return Fate::Stays(None);
                }
                Fate::Stays(self.since.map(|since| since + FREE_AFTER))
            }
            Standing::Left {
                former_may_run,
                has_settled,
            } => {
                let former = std::mem::take(&mut self.daemon.pod_uid);
                self.set_pod(None);
                if former_may_run {
                    self.daemon.pod_uid = former;
                }
                if self.is_over(has_settled, now) {
                    return Fate::Freed;
                }
                Fate::Stays(self.since.map(|since| since + FREE_AFTER))
            }
        }
    }

    fn lives_or_looks(&mut self, is_known_to_live: bool, now: Instant) -> Fate {
        let is_over = self.is_over(!is_known_to_live, now);
        if is_known_to_live {
            (self.looks, self.look_at, self.gone) = (0, None, false);
            return Fate::Stays(None);
        }
        if is_over && self.gone {
            return Fate::Freed;
        }
        let first = self.since.map(|since| since + FREE_AFTER);
        match self.look_at.or(first) {
            Some(at) if at <= now => Fate::Look,
            at => Fate::Stays(at),
        }
    }

    /// Whether no daemon of the member was known for long enough.
    fn is_over(&mut self, is_unknown: bool, now: Instant) -> bool {
        self.since = is_unknown.then(|| self.since.unwrap_or(now));
        self.since.is_some_and(|since| since + FREE_AFTER <= now)
    }

    fn set_pod(&mut self, pod: Option<&PodFacts>) {
        self.is_current = pod.is_some();
        let daemon = &mut self.daemon;
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        daemon.pod_uid = text(pod.map(|pod| &*pod.uid));
        daemon.ip_address = text(pod.map(|pod| &*pod.address));
        daemon.status = match pod {
            Some(pod) if pod.ready => ComputeDomainState::Ready,
            _ => ComputeDomainState::NotReady,
        };
        if daemon.draining != daemon.pod_uid {
            daemon.draining.clear();
        }
    }
}
