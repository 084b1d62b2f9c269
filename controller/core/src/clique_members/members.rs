//! One clique: its object as observed, and the wanted content.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use compute_domain_api::clique::{CliqueDaemon, ComputeDomainClique, FreedIndex};
use compute_domain_api::crd::ComputeDomainState;
use compute_domain_api::driver_managed::{
    CLIQUE_ID_LABEL, DRIVER_MANAGED_LABEL, NameScheme, Place,
};

use crate::cliques::Clique;
use crate::version::Version;

use super::clock::Clock;
use super::facts::{Candidate, CliqueFacts, MemberState};
use super::pods::DaemonPod;
use super::schedule::Backoff;

/// How long an index stays reserved after the last known daemon of its former node. An unreachable machine may still
/// run a daemon whose pod is deleted in the API server.
pub(super) const FREE_AFTER: Duration = Duration::from_secs(5 * 60);

/// How long an object without members is kept: its nodes may return.
const KEPT_EMPTY: Duration = Duration::from_secs(10 * 60);

/// The pause after the first rejection of the object. It doubles up to the longest one.
const FIRST_REFUSAL: Duration = Duration::from_secs(1);
const LONGEST_REFUSAL: Duration = Duration::from_secs(60);

/// The longest time between two look-ups of a Node that exists without slice and daemon.
const MAX_LOOK_UP_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// One clique.
#[derive(Debug, Default)]
pub(super) struct Members {
    /// Its object as last observed, if it exists.
    pub(super) observed: Option<ComputeDomainClique>,
    /// The length of the node lists. Running daemons use it, even if the object has been edited.
    length: Option<u32>,
    /// Whether the length was compared with running daemons.
    is_length_checked: bool,
    /// By the name of the node. It differs from the object until that is written.
    pub(super) entries: BTreeMap<Box<str>, Entry>,
    /// Since when no daemon with these indices is known. Each can be assigned again after [`FREE_AFTER`].
    freed: BTreeMap<u32, Instant>,
    /// Nodes for which no index is free.
    pub(super) surplus: BTreeSet<Box<str>>,
    empty_since: Option<Instant>,
    /// The back-off after the API server has rejected the object.
    refusals: Backoff,
}

/// One member.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) daemon: CliqueDaemon,
    index_origin: IndexOrigin,
    /// Set while no daemon of this member is known.
    absence: Option<Absence>,
    /// Whether its address is the address of a current member.
    is_current: bool,
}

/// The time without a daemon.
#[derive(Debug)]
struct Absence {
    since: Instant,
    /// The look-ups of the Node since then.
    look_ups: Backoff,
    /// Whether the last look-up has shown that the Node is deleted.
    is_gone: bool,
}

/// The origin of a member's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IndexOrigin {
    /// Assigned by this controller, and not in a known object yet.
    Given,
    /// The object has had it, so daemons may use it.
    Written,
    /// Read from the object, and not yet compared with running daemons.
    Read,
}

/// The result of evaluating a clique.
#[derive(Debug, Default)]
pub(super) struct Evaluation {
    /// The node to look up.
    pub(super) look_up: Option<Box<str>>,
    /// When to evaluate it again if nothing changes.
    pub(super) again: Option<Instant>,
    /// The nodes that newly have no index.
    pub(super) unplaced: Vec<UnplacedNode>,
}

/// A node for which no index is free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnplacedNode {
    /// The node's name.
    pub node: Box<str>,
    /// Its clique.
    pub clique: Clique,
    /// The most members of the clique.
    pub max_nodes: u32,
    /// The UID of the clique's object, if it exists.
    pub object_uid: Option<Box<str>>,
}

// === impl Members ===

impl Members {
    /// Merges the object from the watch or a response. Returns whether it is newer than the known one.
    ///
    /// Entries that were in an earlier object do not change, because daemons run with them: only this controller
    /// changes an index. Entries that are not written yet give way, because the former leader may have written first.
    /// Unknown members are added only if `is_known` knows their node, except from the first object: its nodes may be
    /// unreachable now.
    pub(super) fn merge(
        &mut self,
        object: &ComputeDomainClique,
        is_known: impl Fn(&str) -> bool,
        clock: &Clock,
    ) -> bool {
        let version =
            |it: &ComputeDomainClique| Version::parse(it.metadata.resource_version.as_deref());
        if let Some(known) = &self.observed
            && known.metadata.uid == object.metadata.uid
            && version(known) >= version(object)
        {
            return false;
        }
        let is_known_object = self.observed.is_some();
        let mut observed = object.clone();
        observed.metadata.managed_fields = None;
        self.observed = Some(observed);
        self.length = self.length.or(object.spec.list_length);
        let limit = self.length.map_or(i64::MAX, i64::from);
        let written = self.entries.values().filter(|entry| entry.is_written());
        let mut taken: BTreeSet<_> = written.map(|entry| entry.daemon.index).collect();
        let is_first = !is_known_object && taken.is_empty();
        for daemon in &object.spec.daemons {
            let node = daemon.node_name.as_str();
            let known = self.entries.get_mut(node);
            let is_settled = known.as_ref().is_some_and(|known| known.is_written());
            let is_invented = known.is_none() && !is_first && !is_known(node);
            if is_settled
                || is_invented
                || !(0..limit).contains(&daemon.index)
                || !taken.insert(daemon.index)
            {
                continue;
            }
            match known {
                Some(known) if known.daemon.node_uid == daemon.node_uid => {
                    let own = std::mem::replace(&mut known.daemon.index, daemon.index);
                    known.index_origin = if own == daemon.index {
                        IndexOrigin::Written
                    } else {
                        IndexOrigin::Read
                    };
                }
                _ => {
                    let entry = Entry::written(daemon.clone(), clock);
                    self.entries.insert(node.into(), entry);
                }
            }
        }
        self.entries
            .retain(|_, entry| entry.is_written() || taken.insert(entry.daemon.index));
        for freed in &object.spec.freed {
            if let (Ok(index), Some(since)) = (freed.index.try_into(), clock.instant(&freed.since))
            {
                self.freed.entry(index).or_insert(since);
            }
        }
        true
    }

    /// The wanted object, with the metadata of the observed one.
    pub(super) fn wanted(&self, clique: &str, now: Instant, clock: &Clock) -> ComputeDomainClique {
        let mut object = self.observed.clone().unwrap_or_default();
        object.metadata.name = Some(clique.to_owned());
        let labels = object.metadata.labels.get_or_insert_default();
        labels.insert(DRIVER_MANAGED_LABEL.to_owned(), "true".to_owned());
        labels.insert(CLIQUE_ID_LABEL.to_owned(), clique.to_owned());
        let entries = self.entries.values().map(|entry| CliqueDaemon {
            absent_since: entry
                .absence
                .as_ref()
                .map(|absence| clock.text(absence.since))
                .unwrap_or_default(),
            ..entry.daemon.clone()
        });
        let mut daemons: Vec<_> = entries.collect();
        daemons.sort_by_key(|daemon| daemon.index);
        let ready = |it: &&CliqueDaemon| it.status == ComputeDomainState::Ready;
        object.spec.ready_count = u32::try_from(daemons.iter().filter(ready).count()).ok();
        object.spec.member_count = u32::try_from(daemons.len()).ok();
        object.spec.daemons = daemons;
        object.spec.list_length = self.length;
        let freed = self.reserved(now).map(|(index, since)| FreedIndex {
            index: i64::from(index),
            since: clock.text(since),
        });
        object.spec.freed = freed.collect();
        let scheme = object.spec.name_scheme.unwrap_or(NameScheme::Hash10);
        object.spec.name_scheme = Some(scheme);
        object
    }

    /// Updates each member and admits new ones.
    pub(super) fn evaluate(
        &mut self,
        clique: &Clique,
        facts: CliqueFacts,
        max_nodes: u32,
        now: Instant,
    ) -> Evaluation {
        self.adopt_running_places(&facts.places, now);
        let mut evaluated = self.update(facts.states, now);
        // A new maximum applies only if no daemon runs and no member's index is beyond it.
        // req: DM-5
        let fits = |entry: &Entry| entry.daemon.index < i64::from(max_nodes);
        let is_free = facts.is_idle && self.entries.values().all(fits);
        let length = self.length.filter(|_| !is_free).unwrap_or(max_nodes);
        self.length = Some(length);
        evaluated.unplaced = self.admit(clique, facts.candidates, &facts.places, length, now);
        evaluated
    }

    /// Compares the object's entries with the places with which `nvidia-imex` runs on the clique's nodes. The running
    /// places are right: the object may have been edited while no controller led. A member with a conflicting index
    /// gets one that has become free. A place is ignored if two nodes report its index, or if the index is reserved:
    /// then the slice belongs to the former machine.
    // req: DM-7
    fn adopt_running_places(&mut self, places: &BTreeMap<Box<str>, Place>, now: Instant) {
        if !self.is_length_checked
            && let Some(length) = most_frequent_length(places)
        {
            self.length = Some(length);
            self.is_length_checked = true;
        }
        if self.entries.values().all(Entry::is_checked) {
            return;
        }
        let checked = self.entries.values().filter(|entry| entry.is_checked());
        let mut taken: BTreeSet<_> = checked.map(|entry| entry.daemon.index).collect();
        taken.extend(self.reserved(now).map(|(index, _)| i64::from(index)));
        let is_sole = |index| places.values().filter(|it| it.index == index).count() == 1;
        let mut moved = Vec::new();
        for (node, place) in places {
            let index = i64::from(place.index);
            match self.entries.get_mut(node).filter(|it| !it.is_checked()) {
                Some(entry) if entry.daemon.index == index => {
                    entry.index_origin = IndexOrigin::Written;
                }
                Some(_) if !taken.contains(&index) && is_sole(place.index) => {
                    moved.push((node, index));
                }
                _ => {}
            }
        }
        let mut vacated = BTreeSet::new();
        for (node, index) in &moved {
            if let Some(entry) = self.entries.get_mut(*node) {
                vacated.insert(std::mem::replace(&mut entry.daemon.index, *index));
                entry.index_origin = IndexOrigin::Written;
            }
        }
        let now_taken: BTreeSet<_> = moved.into_iter().map(|(_, index)| index).collect();
        let mut vacated = vacated.difference(&now_taken);
        let unchecked = self
            .entries
            .values_mut()
            .filter(|entry| !entry.is_checked());
        for entry in unchecked.filter(|it| now_taken.contains(&it.daemon.index)) {
            if let Some(index) = vacated.next() {
                entry.daemon.index = *index;
            }
        }
        let limit = self.length.map_or(i64::MAX, i64::from);
        self.entries
            .retain(|_, entry| entry.is_checked() || entry.daemon.index < limit);
    }

    fn update(&mut self, states: Vec<(Box<str>, MemberState)>, now: Instant) -> Evaluation {
        let mut evaluated = Evaluation::default();
        for (node, state) in states {
            let Some(entry) = self.entries.get_mut(&node) else {
                continue;
            };
            match entry.update(state, now) {
                MemberOutcome::Freed { since } => {
                    let index = u32::try_from(entry.daemon.index).unwrap_or_default();
                    self.freed.insert(index, since);
                    self.entries.remove(&node);
                }
                MemberOutcome::LookUp => evaluated.look_up = Some(node),
                MemberOutcome::Stays(again) => evaluated.wake(again),
            }
        }
        self.blank_reused_addresses();
        let next_end = self
            .reserved(now)
            .map(|(_, since)| since + FREE_AFTER)
            .min();
        evaluated.wake(next_end);
        self.empty_since = match (&self.observed, self.entries.is_empty()) {
            (Some(_), true) => Some(self.empty_since.unwrap_or(now)),
            _ => None,
        };
        evaluated.wake(self.empty_since.map(|since| since + KEPT_EMPTY));
        evaluated
    }

    /// Assigns each new node an index: the one with which its `nvidia-imex` runs, or else the one that has been free
    /// for the longest time. Returns the nodes that newly have none.
    // req: DM-2, DM-6, DM-7
    fn admit(
        &mut self,
        clique: &Clique,
        candidates: Vec<Candidate>,
        places: &BTreeMap<Box<str>, Place>,
        length: u32,
        now: Instant,
    ) -> Vec<UnplacedNode> {
        let free = self.free_indices(length, now);
        let mut running = self.running_without_entry(places);
        running.retain(|index, _| free.contains(index));
        let free = free.into_iter().filter(|it| !running.contains_key(it));
        let mut free: VecDeque<_> = free.collect();
        let mut surplus = BTreeSet::new();
        for Candidate { node, uid, pod } in candidates {
            if self.entries.contains_key(&node) {
                continue;
            }
            let own = places.get(&node).map(|place| place.index);
            let own = own.filter(|index| running.get(index) == Some(&node));
            let Some(index) = own.or_else(|| free.pop_front()) else {
                surplus.insert(node);
                continue;
            };
            let mut entry = Entry::new(CliqueDaemon {
                node_name: node.to_string(),
                clique_id: clique.to_string(),
                index: i64::from(index),
                node_uid: uid.to_string(),
                ..CliqueDaemon::default()
            });
            entry.set_pod(Some(&pod));
            self.freed.remove(&index);
            self.entries.insert(node, entry);
        }
        let object = self.observed.as_ref();
        let object_uid = object.and_then(|it| it.metadata.uid.as_deref());
        let new = surplus.difference(&self.surplus).map(|node| UnplacedNode {
            node: node.clone(),
            clique: clique.clone(),
            max_nodes: length,
            object_uid: object_uid.map(Box::from),
        });
        let new = new.collect();
        self.surplus = surplus;
        new
    }

    /// The API server has rejected the object. Returns the number of consecutive rejections.
    // req: DM-8
    pub(super) fn refused(&mut self, now: Instant) -> u32 {
        self.refusals.grow(FIRST_REFUSAL, LONGEST_REFUSAL, now);
        self.refusals.times
    }

    /// The object has the wanted content, or was written. Returns whether it was rejected before.
    pub(super) fn accept(&mut self) -> bool {
        std::mem::take(&mut self.refusals).times > 0
    }

    /// The end of the back-off, if the object may not be written now.
    pub(super) fn waits_until(&self, now: Instant) -> Option<Instant> {
        self.refusals.pauses_until(now)
    }

    /// Whether the object has had no members for long enough to delete it.
    pub(super) fn is_due_for_deletion(&self, now: Instant) -> bool {
        self.empty_since
            .is_some_and(|since| since + KEPT_EMPTY <= now)
    }

    /// Whether the object has this pod as the member of this node.
    pub(super) fn has_member(&self, node: &str, pod: &str) -> bool {
        let observed = self.observed.iter();
        let mut daemons = observed.flat_map(|object| &object.spec.daemons);
        daemons.any(|daemon| daemon.node_name == node && daemon.pod_uid == pod)
    }

    /// Removes addresses that a current member has from other entries: an IMEX daemon finds its index by its
    /// address.
    fn blank_reused_addresses(&mut self) {
        let current = self.entries.values().filter(|entry| entry.is_current);
        let addresses: BTreeSet<_> = current.map(|it| it.daemon.ip_address.clone()).collect();
        let former = self.entries.values_mut().filter(|entry| !entry.is_current);
        for entry in former.filter(|it| addresses.contains(&it.daemon.ip_address)) {
            // The former daemon has ended: another pod has its address.
            entry.daemon.ip_address.clear();
            entry.daemon.pod_uid.clear();
        }
    }

    /// The freed indices that are still reserved, and since when no daemon with them is known.
    fn reserved(&self, now: Instant) -> impl Iterator<Item = (u32, Instant)> + '_ {
        let freed = self.freed.iter().map(|(index, since)| (*index, *since));
        freed.filter(move |(_, since)| *since + FREE_AFTER > now)
    }

    /// The indices with which `nvidia-imex` runs on nodes that are not members, each with one node.
    fn running_without_entry(&self, places: &BTreeMap<Box<str>, Place>) -> BTreeMap<u32, Box<str>> {
        let others = places
            .iter()
            .filter(|(node, _)| !self.entries.contains_key(*node));
        let by_index = others.map(|(node, place)| (place.index, node.clone()));
        by_index.collect()
    }

    fn free_indices(&self, length: u32, now: Instant) -> Vec<u32> {
        let mut taken: BTreeSet<_> = self.entries.values().map(|it| it.daemon.index).collect();
        taken.extend(self.reserved(now).map(|(index, _)| i64::from(index)));
        let mut free: Vec<_> = (0..length)
            .filter(|index| !taken.contains(&i64::from(*index)))
            .collect();
        free.sort_by_key(|index| (self.freed.get(index).copied(), *index));
        free
    }
}

/// The most frequent list length; of several, the longest.
fn most_frequent_length(places: &BTreeMap<Box<str>, Place>) -> Option<u32> {
    let count = |length| places.values().filter(|it| it.length == length).count();
    let lengths = places.values().map(|place| place.length);
    lengths.max_by_key(|length| (count(*length), *length))
}

// === impl Evaluated ===

impl Evaluation {
    fn wake(&mut self, at: Option<Instant>) {
        self.again = self.again.into_iter().chain(at).min();
    }
}

/// The result of updating a member.
enum MemberOutcome {
    /// It stays, at least until this time.
    Stays(Option<Instant>),
    /// Its Node has to be looked up.
    LookUp,
    /// It is no longer a member, and no daemon of it has been known since this time.
    Freed { since: Instant },
}

// === impl Entry ===

impl Entry {
    fn new(daemon: CliqueDaemon) -> Self {
        Self {
            daemon,
            index_origin: IndexOrigin::Given,
            absence: None,
            is_current: false,
        }
    }

    /// An entry read from the object.
    fn written(daemon: CliqueDaemon, clock: &Clock) -> Self {
        Self {
            absence: clock.instant(&daemon.absent_since).map(Absence::new),
            index_origin: IndexOrigin::Read,
            ..Self::new(daemon)
        }
    }

    fn is_written(&self) -> bool {
        self.index_origin != IndexOrigin::Given
    }

    fn is_checked(&self) -> bool {
        self.index_origin != IndexOrigin::Read
    }

    /// The Node was looked up and has this UID, if it exists.
    pub(super) fn node_looked_up(&mut self, uid: Option<&str>, now: Instant) {
        if let Some(absence) = &mut self.absence {
            absence.is_gone = uid != Some(&self.daemon.node_uid);
        }
        self.schedule_look_up(now);
    }

    /// Schedules the next look-up: after 5 minutes, then with a pause that doubles each time.
    pub(super) fn schedule_look_up(&mut self, now: Instant) {
        if let Some(absence) = &mut self.absence {
            absence.look_ups.grow(FREE_AFTER, MAX_LOOK_UP_INTERVAL, now);
        }
    }

    // req: DM-3, DM-4
    fn update(&mut self, state: MemberState, now: Instant) -> MemberOutcome {
        self.is_current = false;
        match state {
            MemberState::Member {
                pod,
                uid,
                is_known_to_live,
            } => {
                self.daemon.node_uid = uid.to_string();
                self.set_pod(pod.as_ref());
                self.check_existence(is_known_to_live, now)
            }
            MemberState::Unknown { is_known_to_live } => {
                self.check_existence(is_known_to_live, now)
            }
            MemberState::Replaced { former_may_run } => {
                // The address stays: it identifies the former daemon.
                self.daemon.status = ComputeDomainState::NotReady;
                self.daemon.draining.clear();
                self.free_when_over(!former_may_run, now)
            }
            MemberState::OtherMachine => MemberOutcome::Freed {
                since: self.absence.as_ref().map_or(now, |absence| absence.since),
            },
            MemberState::Left {
                former_may_run,
                has_settled,
            } => {
                let former = std::mem::take(&mut self.daemon.pod_uid);
                self.set_pod(None);
                if former_may_run {
                    self.daemon.pod_uid = former;
                }
                self.free_when_over(has_settled, now)
            }
        }
    }

    /// Frees the index when no daemon of the member has been known for long enough.
    fn free_when_over(&mut self, is_absent: bool, now: Instant) -> MemberOutcome {
        match self.note_absence(is_absent, now).map(|it| it.since) {
            Some(since) if since + FREE_AFTER <= now => MemberOutcome::Freed { since },
            since => MemberOutcome::Stays(since.map(|since| since + FREE_AFTER)),
        }
    }

    fn check_existence(&mut self, is_known_to_live: bool, now: Instant) -> MemberOutcome {
        let Some(absence) = self.note_absence(!is_known_to_live, now) else {
            return MemberOutcome::Stays(None);
        };
        let since = absence.since;
        let first = since + FREE_AFTER;
        if absence.is_gone && first <= now {
            return MemberOutcome::Freed { since };
        }
        match absence.look_ups.until.unwrap_or(first) {
            at if at <= now => MemberOutcome::LookUp,
            at => MemberOutcome::Stays(Some(at)),
        }
    }

    fn note_absence(&mut self, is_absent: bool, now: Instant) -> Option<&Absence> {
        if is_absent {
            return Some(self.absence.get_or_insert_with(|| Absence::new(now)));
        }
        self.absence = None;
        None
    }

    fn set_pod(&mut self, pod: Option<&DaemonPod>) {
        self.is_current = pod.is_some();
        let daemon = &mut self.daemon;
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        daemon.pod_uid = text(pod.map(|pod| &*pod.uid));
        daemon.ip_address = text(pod.map(|pod| &*pod.address));
        if let Some(pod) = pod {
            daemon.host_ip = pod.host.to_string();
        }
        daemon.status = match pod {
            Some(pod) if pod.ready => ComputeDomainState::Ready,
            _ => ComputeDomainState::NotReady,
        };
        if daemon.draining != daemon.pod_uid {
            daemon.draining.clear();
        }
    }
}

// === impl Absence ===

impl Absence {
    fn new(since: Instant) -> Self {
        Self {
            since,
            look_ups: Backoff::default(),
            is_gone: false,
        }
    }
}
