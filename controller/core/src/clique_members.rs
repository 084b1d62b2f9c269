//! The members of the cliques: which node's IMEX daemon has which index in the node list of its NVLink
//! clique, where one `nvidia-imex` runs on each node for good.
//!
//! ```text
//! watch of the driver's slices ─> Nodes ─┐
//! watch of daemons' pods ───────> Pods ──┼─> what each member is ─> Members ─> MemberStep
//! watch of ComputeDomainCliques ─────────┘          ^                              │
//!                                                   └──────── answers <────────────┘
//! ```
//!
//! There is one `ComputeDomainClique` for each clique. A node is in the clique that its slice says, and
//! becomes a member when its daemon's pod has an address. An index is the member's for as long as its Node
//! object lives and stays in the clique. What is not known changes nothing: kubelet wipes slices when it
//! starts. No two daemons that may run have one index, so one is given away only when
//!
//! * its Node does not exist any more, which a request confirms, or is in another clique, and
//! * no daemon of it is known, or the one that is known is ready in the other clique, and
//! * that was so for 5 minutes.
//!
//! A Node of the same name with another UID is the same member if its daemon is the same, or if its machine
//! has the same address. Otherwise it is another machine, and gets an index that is free at once.
//!
//! A daemon that is out of date is replaced when nobody needs it: see the module `rollout`.
//!
//! The objects have all that the next leader has to know, also since when a member is absent. The controller
//! takes back what others change in an object. Changes of a clique are gathered for a moment, so that nodes that come
//! together cost one write.

mod clock;
mod drains;
mod members;
mod nodes;
mod pods;
mod rollout;
mod standing;
mod step;
mod told;
mod world;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use compute_domain_api::clique::ComputeDomainClique;
use compute_domain_api::crd::ComputeDomainState;
use k8s_openapi::api::core::v1::Pod;

use crate::cliques::Clique;
use crate::node_cliques::NodeSlice;

pub use self::clock::Clock;
use self::members::{Evaluated, Members};
use self::nodes::Nodes;
use self::pods::Pods;
pub use self::pods::{DaemonPod, template};

use self::drains::Rollout;
pub use self::drains::{Replacement, RolloutCounts, RolloutNews};
pub use self::step::MemberStep;
use self::step::Turn;
use self::world::World;

/// A clique is written when nothing about it has changed for this long.
const QUIET: Duration = Duration::from_millis(100);

/// It is written after this long although it still changes.
const LONGEST_BURST: Duration = Duration::from_millis(250);

/// After how long a request that has failed is made again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The members of all cliques, as far as the watches and the answers to requests have told.
#[derive(Debug)]
pub struct CliqueMembers {
    /// How many lines a node list has.
    max_nodes: u32,
    clock: Clock,
    nodes: Nodes,
    pods: Pods,
    cliques: BTreeMap<Clique, Members>,
    /// The cliques in which a node has an entry.
    entries_of: HashMap<Box<str>, BTreeSet<Clique>>,
    /// Which cliques are to be looked at, and when.
    due: BTreeSet<(Instant, Clique)>,
    /// The cliques that change at the moment.
    bursts: HashMap<Clique, Burst>,
    /// Nodes without an index that nobody was told of yet.
    news: Vec<Surplus>,
    rollout: Rollout,
    /// The nodes of which `ComputeDomains` may have to be told something new.
    changed_nodes: BTreeSet<Box<str>>,
    /// The objects that the list which is going on has told of.
    listing: Option<HashSet<Box<str>>>,
    /// The cliques whose object is not refused any more.
    accepted: Vec<Clique>,
}

/// Changes of one clique.
#[derive(Clone, Copy, Debug)]
struct Burst {
    ends: Instant,
    /// It ends then at the latest.
    latest: Instant,
}

/// A node for which no index is free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surplus {
    /// The node's name.
    pub node: Box<str>,
    /// Its clique.
    pub clique: Clique,
    /// How many members the clique may have.
    pub max_nodes: u32,
    /// The object of the clique, if there is one.
    pub object_uid: Option<Box<str>>,
}

/// How many members there are, of all cliques.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberCounts {
    /// Members whose daemon is ready.
    pub ready: usize,
    /// Members whose daemon is not.
    pub not_ready: usize,
    /// Nodes for which no index is free.
    pub surplus: usize,
}

// === impl CliqueMembers ===

impl CliqueMembers {
    /// Nothing is known yet. A clique may have this many members.
    pub fn new(max_nodes: u32, clock: Clock) -> Self {
        Self {
            max_nodes,
            clock,
            nodes: Nodes::default(),
            pods: Pods::default(),
            cliques: BTreeMap::new(),
            entries_of: HashMap::new(),
            due: BTreeSet::new(),
            bursts: HashMap::new(),
            news: Vec::new(),
            rollout: Rollout::default(),
            changed_nodes: BTreeSet::new(),
            listing: None,
            accepted: Vec::new(),
        }
    }

    // --- slices ---

    /// The watch begins to list all slices.
    pub fn begin_slices(&mut self) {
        self.nodes.begin();
    }

    /// The watch has listed all slices.
    pub fn finish_slices(&mut self, now: Instant) {
        for node in self.nodes.finish() {
            self.touch_node(&node, now);
            self.forget_if_gone(&node);
        }
    }

    /// The watch has this slice.
    pub fn apply_slice(&mut self, told: &NodeSlice, now: Instant) {
        let (was_in, is_news) = self.nodes.apply(told);
        if is_news {
            if let Some(clique) = was_in {
                self.touch(&clique, now);
            }
            self.touch_node(told.node(), now);
        }
    }

    /// The watch does not have this slice any more.
    pub fn remove_slice(&mut self, told: &NodeSlice, now: Instant) {
        if self.nodes.remove(told) {
            self.touch_node(told.node(), now);
            self.forget_if_gone(told.node());
        }
    }

    // --- pods ---

    /// The watch begins to list all pods.
    pub fn begin_pods(&mut self) {
        self.begin_unscheduled();
        self.pods.begin();
    }

    /// The watch has listed all pods.
    pub fn finish_pods(&mut self, now: Instant) {
        for node in self.pods.finish() {
            self.touch_node(&node, now);
            self.forget_if_gone(&node);
        }
    }

    /// The watch has this pod.
    pub fn apply_pod(&mut self, pod: &Pod, now: Instant) {
        let Some(pod) = DaemonPod::new(pod) else {
            return self.remove_pod(pod.metadata.uid.as_deref().unwrap_or_default(), now);
        };
        if self.pod(&pod.uid).is_none() {
            self.pod_came(&pod, now);
        }
        if pod.node.is_empty() {
            return self.apply_unscheduled(pod, now);
        }
        self.forget_unscheduled(&pod.uid);
        let node = pod.node.clone();
        let noted = pod.clone();
        if self.pods.apply(pod) {
            self.touch_node(&node, now);
            self.note_pod(&noted, now);
        }
    }

    /// The watch does not have the pod of this UID any more.
    pub fn remove_pod(&mut self, uid: &str, now: Instant) {
        self.forget_unscheduled(uid);
        if let Some(node) = self.pods.remove(uid) {
            self.rollout.forget(uid);
            self.touch_node(&node, now);
            self.forget_if_gone(&node);
        }
    }

    // --- objects ---

    /// The watch begins to list all objects.
    pub fn begin_cliques(&mut self) {
        self.listing = Some(HashSet::new());
    }

    /// The watch has listed all objects.
    pub fn finish_cliques(&mut self, now: Instant) {
        let Some(listed) = self.listing.take() else {
            return;
        };
        let mut gone = Vec::new();
        for (clique, members) in &mut self.cliques {
            if !listed.contains(&**clique)
                && let Some(object) = members.observed.take()
            {
                gone.push((clique.clone(), object));
            }
        }
        for (clique, object) in gone {
            self.note_object(Some(&object), None);
            self.touch(&clique, now);
        }
    }

    /// An object, as the watch or an answer has it.
    pub fn apply_clique(&mut self, object: &ComputeDomainClique, now: Instant) {
        let Some(name) = object.metadata.name.as_deref() else {
            return;
        };
        if let Some(listed) = &mut self.listing {
            listed.insert(name.into());
        }
        let clique = Clique::from(name);
        let members = self.cliques.entry(clique.clone()).or_default();
        let before = names(members);
        let object_before = members.observed.clone();
        let (nodes, pods) = (&self.nodes, &self.pods);
        let is_known = |node: &str| nodes.get(node).is_some() || pods.may_run_on(node);
        if members.merge(object, is_known, &self.clock) {
            self.accepted
                .extend(members.accept().then(|| clique.clone()));
            let after = names(members);
            self.note_object(object_before.as_ref(), Some(object));
            self.note_entries(&clique, &before, &after, now);
            self.touch(&clique, now);
            self.touch_others(&clique, &after, now);
        }
    }

    /// The object of this UID is gone.
    pub fn remove_clique(&mut self, clique: &str, uid: &str, now: Instant) {
        let Some((name, members)) = self.cliques.get_key_value(clique) else {
            return;
        };
        let observed = members.observed.as_ref();
        let is_it = observed.is_some_and(|it| it.metadata.uid.as_deref() == Some(uid));
        let name = name.clone();
        if is_it {
            let members = self.cliques.get_mut(clique);
            let object = members.and_then(|members| members.observed.take());
            self.note_object(object.as_ref(), None);
            self.touch(&name, now);
        }
    }

    // --- answers ---

    /// The Node of this name has this UID, or does not exist.
    pub fn node_is(&mut self, clique: &Clique, node: &str, uid: Option<&str>, now: Instant) {
        let members = self.cliques.get_mut(clique);
        if let Some(entry) = members.and_then(|members| members.entries.get_mut(node)) {
            entry.looked(uid, now);
        }
        self.due.insert((now, clique.clone()));
    }

    /// The request of the clique's step has failed. It is made again, unless an answer of another one or the
    /// watch changes what is wanted before.
    pub fn failed(&mut self, clique: &Clique, step: &MemberStep, now: Instant) {
        if let MemberStep::FindNode { node } = step {
            let members = self.cliques.get_mut(clique);
            if let Some(entry) = members.and_then(|members| members.entries.get_mut(node)) {
                entry.look_again(now);
            }
        }
        if let MemberStep::DeletePod { uid, .. } = step {
            self.replacing_failed(uid);
        }
        self.due.insert((now + RETRY_AFTER, clique.clone()));
    }

    /// The API server has refused the object of the clique. It is written again after a pause that grows with each
    /// refusal. Returns how many there were in a row.
    pub fn refused(&mut self, clique: &Clique, now: Instant) -> u32 {
        let members = self.cliques.get_mut(clique);
        members.map_or(0, |members| members.refused(now))
    }

    /// The cliques whose object is not refused any more since the last call: it was written, or nothing about it is to be
    /// written any more.
    pub fn take_accepted(&mut self) -> Vec<Clique> {
        std::mem::take(&mut self.accepted)
    }

    /// Whether the object of the clique was read and is still there, as far as is known.
    pub fn knows(&self, clique: &str) -> bool {
        let members = self.cliques.get(clique);
        members.is_some_and(|members| members.observed.is_some())
    }

    /// Nothing tells when the clique's request can be made, or made with another result: it is looked at then.
    pub fn look_again(&mut self, clique: &Clique, at: Instant) {
        self.due.insert((at, clique.clone()));
    }

    // --- what is to be done ---

    /// When [`next`](Self::next) may have something; `None`: not before something changes.
    pub fn due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// What is to be done next, and for which clique. To be called only when all watches have listed.
    // req: DM-1
    pub fn next(&mut self, now: Instant) -> Option<(Clique, MemberStep)> {
        while self.due()? <= now {
            let (_, clique) = self.due.pop_first()?;
            if self
                .bursts
                .get(&clique)
                .is_some_and(|burst| burst.ends > now)
            {
                continue;
            }
            self.bursts.remove(&clique);
            if let Some(step) = self.step(&clique, now) {
                return Some((clique, step));
            }
        }
        None
    }

    /// The nodes for which no index is free since the last call.
    pub fn take_news(&mut self) -> Vec<Surplus> {
        std::mem::take(&mut self.news)
    }

    /// How many members there are.
    pub fn counts(&self) -> MemberCounts {
        let mut counts = MemberCounts::default();
        for members in self.cliques.values() {
            let daemons = members.entries.values().map(|entry| &entry.daemon);
            let ready = daemons
                .filter(|it| it.status == ComputeDomainState::Ready)
                .count();
            counts.ready += ready;
            counts.not_ready += members.entries.len().saturating_sub(ready);
            counts.surplus += members.surplus.len();
        }
        counts
    }

    fn step(&mut self, clique: &Clique, now: Instant) -> Option<MemberStep> {
        // The nodes without one.
        if clique.is_empty() {
            return self.replacing_others(now);
        }
        let evaluated = self.evaluate(clique, now);
        // What is due already is in this step.
        if let Some(at) = evaluated.again.filter(|at| *at > now) {
            self.due.insert((at, clique.clone()));
        }
        if let Some(node) = evaluated.look {
            return Some(MemberStep::FindNode { node });
        }
        let members = self.cliques.get_mut(clique)?;
        let is_empty = members.observed.is_none() && members.entries.is_empty();
        let wanted = members.wanted(clique, now, &self.clock);
        let is_as_wanted = members.observed.as_ref() == Some(&wanted) && !members.is_to_go(now);
        if (is_empty || is_as_wanted) && members.accept() {
            self.accepted.push(clique.clone());
        }
        if is_empty {
            self.cliques.remove(clique);
            return None;
        }
        if let Some(at) = members.waits_until(now) {
            self.due.insert((at, clique.clone()));
            return None;
        }
        let Some(observed) = &members.observed else {
            return Some(MemberStep::Create(Box::new(wanted)));
        };
        if members.is_to_go(now) {
            let text = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
            return Some(MemberStep::Delete {
                uid: text(&observed.metadata.uid),
                resource_version: text(&observed.metadata.resource_version),
            });
        }
        if wanted != *observed {
            return Some(MemberStep::Replace(Box::new(wanted)));
        }
        match self.replacing(clique, now) {
            Turn::Marks => {
                let wanted = self.cliques.get(clique)?;
                let wanted = wanted.wanted(clique, now, &self.clock);
                Some(MemberStep::Replace(Box::new(wanted)))
            }
            Turn::Step(step) => Some(step),
            Turn::Later(at) => {
                self.due.extend(at.map(|at| (at, clique.clone())));
                None
            }
        }
    }

    /// Finds out what each member is, and who else becomes one.
    fn evaluate(&mut self, clique: &Clique, now: Instant) -> Evaluated {
        if self.nodes.of(clique).next().is_some() {
            self.cliques.entry(clique.clone()).or_default();
        }
        let before = self.cliques.get(clique).map(names).unwrap_or_default();
        let places = self.world().places(clique);
        if let Some(members) = self.cliques.get_mut(clique) {
            members.believe(&places, now);
        }
        let world = self.world();
        let Some(members) = self.cliques.get(clique) else {
            return Evaluated::default();
        };
        let entries = members.entries.iter();
        let standings =
            entries.map(|(node, entry)| (node.clone(), world.standing(clique, &entry.daemon)));
        let standings = standings.collect();
        let is_idle = world.is_idle(clique, members);
        let Some(members) = self.cliques.get_mut(clique) else {
            return Evaluated::default();
        };
        let evaluated = members.update(standings, now);
        let length = members.settle_length(self.max_nodes, is_idle);
        let members = self.cliques.get(clique);
        let candidates = members.map(|members| self.world().candidates(clique, members));
        let Some(members) = self.cliques.get_mut(clique) else {
            return evaluated;
        };
        let surplus = members.admit(clique, candidates.unwrap_or_default(), &places, length, now);
        let object_uid = members
            .observed
            .as_ref()
            .and_then(|it| it.metadata.uid.as_deref());
        let told = surplus.into_iter().map(|node| Surplus {
            node,
            clique: clique.clone(),
            max_nodes: length,
            object_uid: object_uid.map(Box::from),
        });
        self.news.extend(told);
        let after = names(members);
        self.note_entries(clique, &before, &after, now);
        evaluated
    }

    fn world(&self) -> World<'_> {
        World {
            nodes: &self.nodes,
            pods: &self.pods,
            cliques: &self.cliques,
            entries_of: &self.entries_of,
        }
    }

    fn note_entries(
        &mut self,
        clique: &Clique,
        before: &BTreeSet<Box<str>>,
        after: &BTreeSet<Box<str>>,
        now: Instant,
    ) {
        if before != after {
            self.members_changed(now);
        }
        for node in after.difference(before) {
            let cliques = self.entries_of.entry(node.clone()).or_default();
            cliques.insert(clique.clone());
        }
        for node in before.difference(after) {
            self.no_member_any_more(node);
            if let Some(cliques) = self.entries_of.get_mut(node) {
                cliques.remove(clique);
                if cliques.is_empty() {
                    self.entries_of.remove(node);
                }
            }
            self.forget_if_gone(node);
        }
    }

    /// Something about the node has changed: its cliques are looked at.
    fn touch_node(&mut self, node: &str, now: Instant) {
        self.changed_nodes.insert(node.into());
        let said = self
            .nodes
            .get(node)
            .and_then(|node| node.said.clone().into_clique());
        let entered = self.entries_of.get(node).into_iter().flatten().cloned();
        let mut cliques: BTreeSet<_> = entered.chain(said).collect();
        if !self.entries_of.contains_key(node) {
            cliques.insert(Clique::from(""));
        }
        for clique in cliques {
            self.touch(&clique, now);
        }
    }

    /// A member of this clique may have settled here now, and be none of another one any more.
    fn touch_others(&mut self, clique: &Clique, nodes: &BTreeSet<Box<str>>, now: Instant) {
        let of_nodes = nodes.iter().filter_map(|node| self.entries_of.get(node));
        let others = of_nodes.flatten().filter(|other| *other != clique);
        for other in others.cloned().collect::<BTreeSet<_>>() {
            self.touch(&other, now);
        }
    }

    fn touch(&mut self, clique: &Clique, now: Instant) {
        let burst = self.bursts.entry(clique.clone()).or_insert(Burst {
            ends: now,
            latest: now + LONGEST_BURST,
        });
        self.due.remove(&(burst.ends, clique.clone()));
        burst.ends = (now + QUIET).min(burst.latest);
        self.due.insert((burst.ends, clique.clone()));
    }

    /// A node without slice, daemon and entry is none of ours.
    fn forget_if_gone(&mut self, node: &str) {
        if !self.pods.may_run_on(node) && !self.entries_of.contains_key(node) {
            self.nodes.forget(node);
        }
    }
}

/// The nodes that have an entry.
fn names(members: &Members) -> BTreeSet<Box<str>> {
    members.entries.keys().cloned().collect()
}

#[cfg(test)]
mod tests;
