//! The inputs of the update: from watches and from responses.

use std::time::{Duration, Instant};

use crate::clique_members::CliqueMembers;
use crate::clique_members::schedule::Backoff;
use crate::cliques::Clique;

use super::outdated::Stage;
use super::{DaemonSet, RolloutCounts, RolloutEvent};

// === impl CliqueMembers ===

impl CliqueMembers {
    /// Sets the time after which an outdated daemon is replaced although claims need it.
    #[must_use]
    pub fn with_force_after(mut self, after: Option<Duration>) -> Self {
        self.rollout.force_after = after;
        self
    }

    // --- watches ---

    /// The watch begins to list the `DaemonSets`.
    pub fn begin_templates(&mut self) {
        self.rollout.listing.begin();
    }

    /// The watch has listed all `DaemonSets`.
    pub fn finish_templates(&mut self) {
        let rollout = &mut self.rollout;
        for gone in rollout.listing.finish(rollout.daemon_sets.keys()) {
            self.remove_template(&gone);
        }
    }

    /// The `DaemonSet` with this UID has this template annotation; `None`: it has none, so none of its pods is
    /// outdated.
    pub fn apply_template(&mut self, daemon_set: &str, template: Option<&str>, now: Instant) {
        self.rollout.listing.add(daemon_set);
        let known = self.rollout.daemon_sets.get(daemon_set);
        if known.map(|set| &*set.template) == template {
            return;
        }
        self.remove_template(daemon_set);
        if let Some(template) = template {
            let set = DaemonSet {
                template: template.into(),
                since: now,
                deleted: None,
                mismatches: Backoff::default(),
            };
            self.rollout.daemon_sets.insert(daemon_set.into(), set);
        }
        for clique in self.observed.cliques.keys() {
            self.schedule.touch(Some(clique.clone()), now);
        }
        self.schedule.touch(None, now);
    }

    /// The `DaemonSet` with this UID is deleted.
    pub fn remove_template(&mut self, daemon_set: &str) {
        self.rollout.daemon_sets.remove(daemon_set);
    }

    /// Sets whether claims are allocated to this node, from cached information.
    pub fn set_in_use(&mut self, node: &str, in_use: bool, now: Instant) {
        let is_changed = if in_use {
            self.rollout.in_use.insert(node.into())
        } else {
            self.rollout.in_use.remove(node)
        };
        if is_changed {
            if let Some(pod) = self.observed.pods.member_on(node)
                && let Some(outdated) = self.rollout.outdated.get_mut(&pod.uid)
            {
                outdated.forget_claims(now);
            }
            for clique in self.observed.cliques_of(node) {
                self.schedule.touch(Some(clique.clone()), now);
            }
        }
    }

    /// The progress of the update.
    pub fn rollout_counts(&self) -> RolloutCounts {
        let rollout = &self.rollout;
        let pods = self.observed.pods.all().filter(|pod| pod.node.is_some());
        let stopped = rollout.stopped.values().filter(|it| it.is_reported);
        let sets = rollout.daemon_sets.values();
        let mismatched = sets.filter(|set| set.mismatches.times > 0);
        RolloutCounts {
            outdated: pods.filter(|pod| rollout.is_outdated(pod)).count(),
            draining: self.observed.marked().count(),
            stopped: stopped.count() + mismatched.count(),
        }
    }

    /// The events since the last call.
    pub fn take_rollout_events(&mut self) -> Vec<RolloutEvent> {
        std::mem::take(&mut self.rollout.events)
    }

    // --- responses ---

    /// Exactly these claims are allocated to the node of this pod.
    pub fn set_listed_claims(
        &mut self,
        clique: &Clique,
        pod: &str,
        claims: Vec<String>,
        now: Instant,
    ) {
        if let Some(outdated) = self.rollout.outdated.get_mut(pod) {
            outdated.set_claims(claims, now);
        }
        self.schedule.add(now, Some(clique.clone()));
    }

    /// The pod is being deleted, or is deleted. The watch delivers the rest.
    pub fn pod_deleted(&mut self, clique: Option<&Clique>, uid: &str, now: Instant) {
        let rollout = &mut self.rollout;
        if let Some(pod) = self.observed.pods.get(uid) {
            rollout.outdated(pod, now).stage = Stage::Deleted;
            if let (Some(_), Some(node)) = (clique, &pod.node) {
                rollout.under_way.insert(node.clone());
            }
            let set = pod.daemon_set.as_ref();
            if let Some(set) = set.and_then(|it| rollout.daemon_sets.get_mut(it)) {
                set.deleted = Some(pod.clone());
            }
        }
        self.schedule.add(now, clique.cloned());
    }
}
