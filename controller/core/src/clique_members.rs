//! The members of the cliques in driver-managed mode: the index of each node's IMEX daemon in the node list of
//! its NVLink clique.
//!
//! ```text
//! watch of the driver's slices ─> Nodes ─┐             ┌─> Members of each clique ─┐
//! watch of daemons' pods ───────> Pods ──┼─> Observed ─┤                           ├─> MemberStep
//! watch of ComputeDomainCliques ─────────┘      ^      └─> Rollout ────────────────┘       │
//! watch of DaemonSets ──────────────────────────┼─────────────^                            │
//!                                               └──────────── answers <────────────────────┘
//! ```
//!
//! Every change marks its clique in the `Schedule`. When the clique is due, it is evaluated as a whole: first the
//! wanted content of its object, then, once the object has that, the next step of the daemons' update. So every step
//! can be repeated, and a lost one is.
//!
//! There is one `ComputeDomainClique` for each clique. A node is in the clique that its slice reports. It becomes a
//! member when its daemon's pod has an address, and keeps its index as long as its Node object exists and is in
//! the clique. Missing information changes nothing: kubelet deletes slices when it starts. No two daemons that may
//! run have the same index. So an index is reused only when
//!
//! * its Node is deleted, which a request confirms, or is in another clique, and
//! * no daemon of it is known, or the known one is ready in the other clique, and
//! * this has been true for 5 minutes.
//!
//! A Node of the same name with another UID is the same member if its daemon is the same, or if its machine
//! has the same address. Otherwise it is another machine and gets a free index at once.
//!
//! An outdated daemon is replaced when it is not in use: see the module `rollout`.
//!
//! The objects have everything that the next leader needs, including since when a member is absent. The controller
//! reverts other clients' changes. It collects the changes of a clique for a moment, so that nodes that start
//! together cost one write.

mod clock;
mod facts;
mod members;
mod node_status;
mod nodes;
mod observed;
mod pods;
mod rollout;
mod schedule;
mod step;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use compute_domain_api::clique::ComputeDomainClique;
use compute_domain_api::crd::ComputeDomainState;
use k8s_openapi::api::core::v1::Pod;

use crate::cliques::Clique;
use crate::listing::Listing;
use crate::node_cliques::NodeSlice;

pub use self::clock::Clock;
pub use self::members::UnplacedNode;
use self::members::{Evaluation, Members};
use self::observed::Observed;
pub use self::pods::{DaemonPod, template};
use self::rollout::{NextStep, Rollout};
pub use self::rollout::{RolloutCounts, RolloutEvent};
use self::schedule::Schedule;
pub use self::step::{MemberStep, Replacement};

/// The delay before a failed request is retried.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The members of all cliques, from watches and responses.
#[derive(Debug)]
pub struct CliqueMembers {
    /// The number of lines of a node list.
    max_nodes: u32,
    clock: Clock,
    observed: Observed,
    /// By clique; `None` is for nodes without a clique.
    schedule: Schedule<Option<Clique>>,
    rollout: Rollout,
    /// Nodes without an index that are not reported yet.
    unplaced: Vec<UnplacedNode>,
    /// The nodes whose status in `ComputeDomains` may have changed.
    changed_nodes: BTreeSet<Box<str>>,
    /// The list of objects.
    listing: Listing,
    /// The cliques whose object is no longer rejected.
    accepted: Vec<Clique>,
}

/// The number of members of all cliques.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberCounts {
    /// Members whose daemon is ready.
    pub ready: usize,
    /// Members whose daemon is not ready.
    pub not_ready: usize,
    /// Nodes without an index, because none is free.
    pub surplus: usize,
}

// === impl CliqueMembers ===

impl CliqueMembers {
    /// Knows nothing yet. `max_nodes` is the most members of a clique.
    pub fn new(max_nodes: u32, clock: Clock) -> Self {
        Self {
            max_nodes,
            clock,
            observed: Observed::default(),
            schedule: Schedule::default(),
            rollout: Rollout::default(),
            unplaced: Vec::new(),
            changed_nodes: BTreeSet::new(),
            listing: Listing::default(),
            accepted: Vec::new(),
        }
    }

    // --- slices ---

    /// The watch begins to list all slices.
    pub fn begin_slices(&mut self) {
        self.observed.nodes.begin();
    }

    /// The watch has listed all slices.
    pub fn finish_slices(&mut self, now: Instant) {
        for node in self.observed.nodes.finish() {
            self.touch_node(&node, now);
            self.forget_if_gone(&node);
        }
    }

    /// The watch has delivered this slice.
    pub fn apply_slice(&mut self, slice: &NodeSlice, now: Instant) {
        let (was_in, is_changed) = self.observed.nodes.apply(slice);
        if is_changed {
            if let Some(clique) = was_in {
                self.schedule.touch(Some(clique), now);
            }
            self.touch_node(slice.node(), now);
        }
    }

    /// The watch has delivered that this slice is deleted.
    pub fn remove_slice(&mut self, slice: &NodeSlice, now: Instant) {
        if self.observed.nodes.remove(slice) {
            self.touch_node(slice.node(), now);
            self.forget_if_gone(slice.node());
        }
    }

    // --- pods ---

    /// The watch begins to list all pods.
    pub fn begin_pods(&mut self) {
        self.observed.pods.begin();
    }

    /// The watch has listed all pods.
    pub fn finish_pods(&mut self, now: Instant) {
        for pod in self.observed.pods.finish() {
            self.pod_removed(&pod, now);
        }
    }

    /// The watch has delivered this pod.
    pub fn apply_pod(&mut self, pod: &Pod, now: Instant) {
        let Some(pod) = DaemonPod::new(pod) else {
            return self.remove_pod(pod.metadata.uid.as_deref().unwrap_or_default(), now);
        };
        // A member's clique finds this when it is evaluated.
        if self.observed.pods.get(&pod.uid).is_none()
            && let Some(until) = self.rollout.pod_added(&pod, now)
        {
            self.schedule.add(until, None);
        }
        if !self.observed.pods.apply(pod.clone()) {
            return;
        }
        match &pod.node {
            Some(node) => self.touch_node(node, now),
            None => self.schedule.touch(None, now),
        }
        if self.rollout.pod_changed(&pod) {
            self.touch_waiting(now);
        }
    }

    /// The watch has delivered that the pod with this UID is deleted.
    pub fn remove_pod(&mut self, uid: &str, now: Instant) {
        if let Some(pod) = self.observed.pods.remove(uid) {
            self.pod_removed(&pod, now);
        }
    }

    fn pod_removed(&mut self, pod: &DaemonPod, now: Instant) {
        self.rollout.pod_removed(&pod.uid);
        if let Some(node) = &pod.node {
            self.touch_node(node, now);
            self.forget_if_gone(node);
        }
    }

    // --- objects ---

    /// The watch begins to list all objects.
    pub fn begin_cliques(&mut self) {
        self.listing.begin();
    }

    /// The watch has listed all objects.
    pub fn finish_cliques(&mut self, now: Instant) {
        for clique in self.listing.finish(self.observed.cliques.keys()) {
            self.remove_object(&clique, now);
        }
    }

    /// An object from the watch or a response.
    pub fn apply_clique(&mut self, object: &ComputeDomainClique, now: Instant) {
        let Some(name) = object.metadata.name.as_deref() else {
            return;
        };
        self.listing.add(name);
        let clique = Clique::from(name);
        let Observed {
            nodes,
            pods,
            cliques,
        } = &mut self.observed;
        let is_known = |node: &str| nodes.get(node).is_some() || pods.may_run_on(node);
        let members = cliques.entry(clique.clone()).or_default();
        let before = names(members);
        let object_before = members.observed.clone();
        if members.merge(object, is_known, &self.clock) {
            self.accepted
                .extend(members.accept().then(|| clique.clone()));
            let after = names(members);
            self.note_object(object_before.as_ref(), Some(object));
            self.note_entries(&before, &after, now);
            // A new member here may leave another clique now.
            let others = after.iter().flat_map(|node| self.observed.cliques_of(node));
            let mut touched: BTreeSet<_> = others.cloned().collect();
            touched.insert(clique);
            for clique in touched {
                self.schedule.touch(Some(clique), now);
            }
        }
    }

    /// The object with this UID is deleted.
    pub fn remove_clique(&mut self, clique: &str, uid: &str, now: Instant) {
        let Some((clique, members)) = self.observed.cliques.get_key_value(clique) else {
            return;
        };
        let object = members.observed.as_ref();
        if object.is_some_and(|it| it.metadata.uid.as_deref() == Some(uid)) {
            self.remove_object(&clique.clone(), now);
        }
    }

    fn remove_object(&mut self, clique: &Clique, now: Instant) {
        let members = self.observed.cliques.get_mut(clique);
        if let Some(object) = members.and_then(|members| members.observed.take()) {
            self.note_object(Some(&object), None);
            self.schedule.touch(Some(clique.clone()), now);
        }
    }

    // --- responses ---

    /// The Node of this name has this UID, or does not exist.
    pub fn set_node_uid(&mut self, clique: &Clique, node: &str, uid: Option<&str>, now: Instant) {
        if let Some(entry) = self.observed.entry_mut(clique, node) {
            entry.node_looked_up(uid, now);
        }
        self.schedule.add(now, Some(clique.clone()));
    }

    /// The request of the clique's step has failed. It is retried, unless a watch or another response makes it
    /// unnecessary.
    pub fn failed(&mut self, clique: Option<&Clique>, step: &MemberStep, now: Instant) {
        if let (MemberStep::FindNode { node }, Some(clique)) = (step, clique)
            && let Some(entry) = self.observed.entry_mut(clique, node)
        {
            entry.schedule_look_up(now);
        }
        self.schedule.add(now + RETRY_AFTER, clique.cloned());
    }

    /// The API server has rejected the object of the clique. The write is retried with back-off. Returns the number of
    /// consecutive rejections.
    pub fn refused(&mut self, clique: &Clique, now: Instant) -> u32 {
        let members = self.observed.cliques.get_mut(clique);
        members.map_or(0, |members| members.refused(now))
    }

    /// The cliques whose object is no longer rejected since the last call: it was written, or does not have to be.
    pub fn take_accepted(&mut self) -> Vec<Clique> {
        std::mem::take(&mut self.accepted)
    }

    /// Whether the object of the clique is known to exist.
    pub fn knows(&self, clique: &str) -> bool {
        let members = self.observed.cliques.get(clique);
        members.is_some_and(|members| members.observed.is_some())
    }

    /// Evaluates the clique at this time, because no watch shows when its request can succeed.
    pub fn schedule_look_up(&mut self, clique: &Clique, at: Instant) {
        self.schedule.add(at, Some(clique.clone()));
    }

    // --- steps ---

    /// The time of the next evaluation; `None` until something changes.
    pub fn due(&self) -> Option<Instant> {
        self.schedule.next()
    }

    /// The next step and its clique. Without a clique, the step deletes the pod of a node without one. Call it only
    /// after all watches have listed.
    // req: DM-1
    pub fn next(&mut self, now: Instant) -> Option<(Option<Clique>, MemberStep)> {
        while let Some(clique) = self.schedule.pop(now) {
            let step = match &clique {
                Some(clique) => self.step(clique, now),
                None => self.rollout.next_elsewhere(&self.observed, now),
            };
            if let Some(step) = step {
                return Some((clique, step));
            }
        }
        None
    }

    /// The nodes that have newly found no free index since the last call.
    pub fn take_unplaced(&mut self) -> Vec<UnplacedNode> {
        std::mem::take(&mut self.unplaced)
    }

    /// The number of members.
    pub fn counts(&self) -> MemberCounts {
        let mut counts = MemberCounts::default();
        for members in self.observed.cliques.values() {
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
        let evaluated = self.evaluate(clique, now);
        // This step covers what is already due.
        if let Some(at) = evaluated.again.filter(|at| *at > now) {
            self.schedule.add(at, Some(clique.clone()));
        }
        if let Some(node) = evaluated.look_up {
            return Some(MemberStep::FindNode { node });
        }
        let members = self.observed.cliques.get_mut(clique)?;
        let is_empty = members.observed.is_none() && members.entries.is_empty();
        let wanted = members.wanted(clique, now, &self.clock);
        let is_as_wanted =
            members.observed.as_ref() == Some(&wanted) && !members.is_due_for_deletion(now);
        if (is_empty || is_as_wanted) && members.accept() {
            self.accepted.push(clique.clone());
        }
        if is_empty {
            self.observed.cliques.remove(clique);
            return None;
        }
        if let Some(at) = members.waits_until(now) {
            self.schedule.add(at, Some(clique.clone()));
            return None;
        }
        let Some(object) = &members.observed else {
            return Some(MemberStep::Create(Box::new(wanted)));
        };
        if members.is_due_for_deletion(now) {
            let text = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
            return Some(MemberStep::Delete {
                uid: text(&object.metadata.uid),
                resource_version: text(&object.metadata.resource_version),
            });
        }
        if wanted != *object {
            return Some(MemberStep::Replace(Box::new(wanted)));
        }
        match self.rollout.next(&self.observed, clique, now) {
            NextStep::Mark { node, pod } => {
                if pod.is_none() {
                    self.touch_waiting(now);
                }
                let entry = self.observed.entry_mut(clique, &node)?;
                entry.daemon.draining = pod.map(String::from).unwrap_or_default();
                let wanted = self.observed.cliques.get(clique)?;
                let wanted = wanted.wanted(clique, now, &self.clock);
                Some(MemberStep::Replace(Box::new(wanted)))
            }
            NextStep::Request(step) => Some(step),
            NextStep::Later(at) => {
                if let Some(at) = at {
                    self.schedule.add(at, Some(clique.clone()));
                }
                None
            }
        }
    }

    /// Updates the state of each member and admits new ones.
    fn evaluate(&mut self, clique: &Clique, now: Instant) -> Evaluation {
        if self.observed.nodes.of(clique).next().is_some() {
            self.observed.cliques.entry(clique.clone()).or_default();
        }
        let facts = self.observed.facts(clique);
        let Some(members) = self.observed.cliques.get_mut(clique) else {
            return Evaluation::default();
        };
        let before = names(members);
        let mut evaluated = members.evaluate(clique, facts, self.max_nodes, now);
        self.unplaced.append(&mut evaluated.unplaced);
        let after = names(members);
        self.note_entries(&before, &after, now);
        evaluated
    }

    /// Handles nodes that have become members or stopped being members. Others may wait for either, and the node's
    /// own daemon may be replaced in another way.
    fn note_entries(
        &mut self,
        before: &BTreeSet<Box<str>>,
        after: &BTreeSet<Box<str>>,
        now: Instant,
    ) {
        if before != after {
            self.touch_waiting(now);
            self.schedule.touch(None, now);
        }
        for node in before.difference(after) {
            // No other daemon waits for this one.
            self.rollout.under_way.remove(node);
            self.forget_if_gone(node);
        }
    }

    /// Marks the cliques of a changed node for evaluation.
    fn touch_node(&mut self, node: &str, now: Instant) {
        self.changed_nodes.insert(node.into());
        let cliques = self.observed.cliques_of(node).cloned();
        let mut cliques: BTreeSet<_> = cliques.map(Some).collect();
        if cliques.is_empty() {
            cliques.insert(None);
        }
        let reported = self.observed.reported(node).clone().into_clique();
        cliques.extend(reported.map(Some));
        for clique in cliques {
            self.schedule.touch(clique, now);
        }
    }

    /// Marks the waiting cliques for evaluation: a daemon is ready or no longer marked.
    fn touch_waiting(&mut self, now: Instant) {
        for clique in std::mem::take(&mut self.rollout.waiting) {
            self.schedule.touch(clique, now);
        }
    }

    /// Forgets a node that has neither slice nor daemon nor entry.
    fn forget_if_gone(&mut self, node: &str) {
        if !self.observed.pods.may_run_on(node) && !self.observed.is_member(node) {
            self.observed.nodes.forget(node);
        }
    }
}

/// The nodes that have an entry.
fn names(members: &Members) -> BTreeSet<Box<str>> {
    members.entries.keys().cloned().collect()
}

#[cfg(test)]
mod tests;
