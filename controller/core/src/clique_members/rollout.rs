//! Which IMEX daemons are out of date, and when one may be replaced: programs that import memory end with
//! the `nvidia-imex` of their node.
//!
//! ```text
//! out of date ──mark──> draining ──the plugin has said that no claim is prepared──> claims are read
//!      ^                   │                                                         │        │
//!      │                   └── not for 30 s: the mark goes, and comes back later     │        │
//!      └──────────────────────── claims of the node are allocated: the mark goes <───┘        │
//!                                                          none: the pod is deleted <─────────┘
//! ```
//!
//! A node is marked only after a list of all claims has shown none of it: what is known of claims without
//! asking ([`CliqueMembers::set_in_use`]) is incomplete when a controller starts.
//!
//! The mark is in the clique's object, so that a controller that starts goes on with it. Everything else
//! that is remembered here only makes things later.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use crate::cliques::Clique;
use crate::node_cliques::Said;

use super::CliqueMembers;
use super::drains::{Replacement, RolloutCounts, RolloutNews, Stop};
use super::members::Entry;
use super::pods::DaemonPod;
use super::step::{MemberStep, Turn};

/// How long a node stays marked that does not tell that it has no claim.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// After this long, people are told that a new daemon does not become ready.
const STOPPED_AFTER: Duration = Duration::from_secs(2 * 60);

/// A member, as far as it matters here.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, of another source"
)]
struct Daemon {
    node: Box<str>,
    index: i64,
    /// Its slice tells that its plugin runs.
    has_slice: bool,
    pod: Option<DaemonPod>,
    is_outdated: bool,
    is_marked: bool,
    is_drained: bool,
}

// === impl CliqueMembers ===

impl CliqueMembers {
    /// From now on a daemon that has been out of date for this long is replaced although claims need it.
    #[must_use]
    pub fn with_force_after(mut self, after: Option<Duration>) -> Self {
        self.rollout.force_after = after;
        self
    }

    // --- what is known ---

    /// The watch begins to list the `DaemonSets`.
    pub fn begin_templates(&mut self) {
        self.rollout.listing = Some(HashSet::new());
    }

    /// The watch has listed all `DaemonSets`.
    pub fn finish_templates(&mut self) {
        if let Some(listed) = self.rollout.listing.take() {
            let known: Vec<_> = self.rollout.templates.keys().cloned().collect();
            for gone in known.iter().filter(|uid| !listed.contains(*uid)) {
                self.remove_template(gone);
            }
        }
    }

    /// The pods of the `DaemonSet` of this UID are to be made from what this text stands for; `None`: it does
    /// not say, so that none of them is out of date.
    pub fn apply_template(&mut self, daemon_set: &str, template: Option<&str>, now: Instant) {
        if let Some(listed) = &mut self.rollout.listing {
            listed.insert(daemon_set.into());
        }
        if self.rollout.set_template(daemon_set, template) {
            let all: Vec<_> = self.cliques.keys().cloned().collect();
            for clique in all.into_iter().chain([Clique::from("")]) {
                self.touch(&clique, now);
            }
        }
    }

    /// The `DaemonSet` of this UID is gone.
    pub fn remove_template(&mut self, daemon_set: &str) {
        self.rollout.set_template(daemon_set, None);
    }

    /// Claims are allocated to this node, or none any more, as far as is known without asking.
    pub fn set_in_use(&mut self, node: &str, in_use: bool, now: Instant) {
        let is_news = if in_use {
            self.rollout.in_use.insert(node.into())
        } else {
            self.rollout.in_use.remove(node)
        };
        if is_news {
            if let Some(pod) = self.pods.member_on(node)
                && let Some(drain) = self.rollout.drains.get_mut(&pod.uid)
            {
                drain.forget_claims(now);
            }
            self.touch_replaced(node, now);
        }
    }

    /// How far it is.
    pub fn rollout_counts(&self) -> RolloutCounts {
        let outdated = self.pods.all().filter(|pod| self.rollout.is_outdated(pod));
        let entries = self.cliques.values().flat_map(|it| it.entries.values());
        RolloutCounts {
            outdated: outdated.count(),
            draining: entries.filter(|it| !it.daemon.draining.is_empty()).count(),
            stopped: self.rollout.stops.values().filter(|it| it.told).count()
                + self.rollout.fruitless.len(),
        }
    }

    /// What has to be told since the last call.
    pub fn take_rollout_news(&mut self) -> Vec<RolloutNews> {
        std::mem::take(&mut self.rollout.news)
    }

    // --- answers ---

    /// These claims are allocated to the node of this pod, and no others.
    pub fn claims_are(&mut self, clique: &Clique, pod: &str, claims: Vec<String>, now: Instant) {
        if let Some(drain) = self.rollout.drains.get_mut(pod) {
            drain.claims = Some(claims.clone());
            drain.set_known(claims, now);
        }
        self.due.insert((now, clique.clone()));
    }

    /// The pod is being deleted, or gone: the watch tells what follows.
    pub fn pod_deleted(&mut self, clique: &Clique, node: &str, pod: &str, now: Instant) {
        self.rollout.drain(pod, now).deleted = true;
        if let Some(daemon_set) = self.pod(pod).map(|pod| pod.daemon_set.clone()) {
            self.rollout.asked.insert(daemon_set, node.into());
        }
        if !clique.is_empty() {
            self.rollout.under_way.insert(node.into());
        }
        self.due.insert((now, clique.clone()));
    }

    // --- what is to be done ---

    /// What comes next in this clique, whose object is as it has to be.
    // req: MODE-25, MODE-26, MODE-27, MODE-28
    pub(super) fn replacing(&mut self, clique: &Clique, now: Instant) -> Turn {
        let daemons = self.daemons_of(clique);
        let mut marks = Vec::new();
        let mut outdated = Vec::new();
        for daemon in &daemons {
            let Some(pod) = &daemon.pod else { continue };
            if daemon.is_marked {
                marks.push((daemon, pod));
            } else if daemon.is_outdated {
                outdated.push((daemon, pod));
            }
        }
        if let Some((daemon, pod)) = marks.first() {
            return self.go_on(clique, daemon, pod, now);
        }
        if outdated.is_empty() {
            self.rollout.stops.remove(clique);
            return Turn::Later(None);
        }
        // One after the other: the new one has to be ready before another one goes.
        let unready = |it: &&Daemon| {
            let pod = it.pod.as_ref();
            it.has_slice && pod.is_none_or(|pod| !it.is_outdated && !pod.ready)
        };
        if let Some(daemon) = daemons.iter().find(unready) {
            return self.stop(clique, &daemon.node, now);
        }
        self.rollout.stops.remove(clique);
        // The first one of the cluster is alone: one that cannot start stops all, and it is the first that a
        // correction is tried on.
        if !self.first_is_ready() {
            if !self.rollout.under_way.is_empty() {
                outdated.retain(|(daemon, _)| self.rollout.under_way.contains(&daemon.node));
            }
            if outdated.is_empty() || self.is_any_marked() {
                self.rollout.waiting.insert(clique.clone());
                return Turn::Later(None);
            }
        }
        self.mark(clique, outdated, now)
    }

    /// What comes next of the daemons that are members of no clique.
    // req: MODE-29
    pub(super) fn replacing_others(&mut self, now: Instant) -> Option<MemberStep> {
        let outdated = |pod: &&DaemonPod| self.is_due(pod, now) && self.is_no_member(&pod.node);
        // It has never run, and its DaemonSet makes no other one for that node.
        let mut waiting = self.rollout.unscheduled.values();
        if let Some(pod) = waiting.find(|pod| self.is_due(pod, now)).cloned() {
            self.rollout.drain(&pod.uid, now);
            return Some(delete(&pod, Replacement::NotRunning));
        }
        let pod = self.pods.all().find(outdated)?.clone();
        if !self.entries_of.is_empty() && !self.first_is_ready() {
            self.rollout.waiting.insert(Clique::from(""));
            return None;
        }
        self.rollout.drain(&pod.uid, now);
        Some(delete(&pod, Replacement::NoMember))
    }

    fn is_due(&self, pod: &DaemonPod, now: Instant) -> bool {
        let rollout = &self.rollout;
        let rests = rollout.rests_until(pod).is_some_and(|until| until > now);
        rollout.is_outdated(pod) && !rollout.is_deleted(pod) && !rests
    }

    /// A node is marked, or was when the controller started.
    fn go_on(&mut self, clique: &Clique, daemon: &Daemon, pod: &DaemonPod, now: Instant) -> Turn {
        let since = self.rollout.drain(&pod.uid, now).since;
        let is_forced = self.rollout.is_forced(since, now);
        let drain = self.rollout.drain(&pod.uid, now);
        if drain.deleted {
            return Turn::Later(None);
        }
        let marked = *drain.marked.get_or_insert(now);
        if !daemon.is_outdated {
            self.withdraw(clique, daemon, pod, now);
            return Turn::Marks;
        }
        // Then nvidia-imex has ended with it. One that has started since has another version.
        if !pod.running {
            return Turn::Step(delete(pod, Replacement::NotRunning));
        }
        let is_late = marked + PATIENCE <= now;
        let drained = daemon.is_drained.then(|| drain.drained.unwrap_or(now));
        if std::mem::replace(&mut drain.drained, drained) != drained
            || drained.is_none() && !is_forced
        {
            // What was read before the node drains says nothing.
            drain.claims = None;
        }
        if let Some(claims) = drain.claims.take() {
            let is_free = claims.is_empty() && drain.drained.is_some();
            if is_free || is_forced {
                let how = if is_free {
                    Replacement::Drained
                } else {
                    Replacement::Forced(claims.clone())
                };
                // Until the answer: the request may have to be made again.
                drain.claims = Some(claims);
                return Turn::Step(delete(pod, how));
            }
            self.tell_waits(daemon, pod, claims, now);
            self.withdraw(clique, daemon, pod, now);
            return Turn::Marks;
        }
        let by_force = (is_late && is_forced).then_some(now);
        let read_since = drain.drained.or(by_force);
        if let Some(since) = read_since {
            return Turn::Step(read_claims(daemon, pod, since));
        }
        if !is_late {
            return Turn::Later(Some(marked + PATIENCE));
        }
        let drain = self.rollout.drain(&pod.uid, now);
        if drain.known.is_none() && !drain.told {
            return Turn::Step(read_claims(daemon, pod, marked + PATIENCE));
        }
        let claims = drain.known.take().unwrap_or_default().claims;
        self.tell_waits(daemon, pod, claims, now);
        self.withdraw(clique, daemon, pod, now);
        Turn::Marks
    }

    /// Marks one of these, if one can be: those that do not run first, for which nothing is lost. Those that run and
    /// are not ready are the last, so that none of them is taken for one that the update has broken.
    fn mark(
        &mut self,
        clique: &Clique,
        outdated: Vec<(&Daemon, &DaemonPod)>,
        now: Instant,
    ) -> Turn {
        let mut candidates = Vec::new();
        let mut again: Option<Instant> = None;
        let mut later = |at: Option<Instant>| again = again.into_iter().chain(at).min();
        let asked = *self.rollout.asked_since.get_or_insert(now);
        for (daemon, pod) in outdated {
            let in_use = self.rollout.in_use.contains(&daemon.node);
            let force_after = self.rollout.force_after;
            let rests_until = self.rollout.rests_until(pod);
            let drain = self.rollout.drain(&pod.uid, now);
            let forced_at = force_after.map(|after| drain.since + after);
            let not_before = drain.not_before.max(rests_until);
            if not_before.is_some_and(|at| at > now) {
                later(not_before);
                continue;
            }
            let known = drain.known.as_ref().filter(|known| known.is_true(now));
            let is_free = known.map(|known| known.claims.is_empty());
            let waits = in_use || is_free == Some(false);
            if waits && forced_at.is_none_or(|at| at > now) {
                if !drain.told && is_free.is_none() {
                    return Turn::Step(read_claims(daemon, pod, drain.asked_since(asked)));
                }
                later(forced_at);
                // Of what is in use, it is heard when it no longer is.
                later(known.and_then(|known| known.until).filter(|_| !in_use));
                let claims = known.map_or_else(Vec::new, |known| known.claims.clone());
                if !claims.is_empty() {
                    self.tell_waits(daemon, pod, claims, now);
                }
            } else if daemon.has_slice && !daemon.is_drained {
                // A slice that still says what it said of a former mark would be taken for an answer.
                let rank = (pod.running, !pod.ready, waits, daemon.index);
                candidates.push((rank, daemon, pod, is_free.is_some() || !pod.running));
            }
        }
        let first = candidates.into_iter().min_by_key(|(rank, ..)| *rank);
        let Some((_, daemon, pod, is_known)) = first else {
            return Turn::Later(again);
        };
        let drain = self.rollout.drain(&pod.uid, now);
        if !is_known {
            return Turn::Step(read_claims(daemon, pod, drain.asked_since(asked)));
        }
        drain.marked = Some(now);
        drain.known = None;
        self.set_mark(clique, &daemon.node, &pod.uid);
        Turn::Marks
    }

    fn withdraw(&mut self, clique: &Clique, daemon: &Daemon, pod: &DaemonPod, now: Instant) {
        self.rollout.drain(&pod.uid, now).withdraw(now);
        self.set_mark(clique, &daemon.node, "");
        self.touch_waiting(now);
        // The write tells when it is settled; the pause of this one has to end, too.
        let at = self.rollout.drain(&pod.uid, now).not_before;
        self.due.insert((at.unwrap_or(now), clique.clone()));
    }

    fn set_mark(&mut self, clique: &Clique, node: &str, pod: &str) {
        let members = self.cliques.get_mut(clique);
        if let Some(entry) = members.and_then(|members| members.entries.get_mut(node)) {
            pod.clone_into(&mut entry.daemon.draining);
        }
    }

    fn tell_waits(&mut self, daemon: &Daemon, pod: &DaemonPod, claims: Vec<String>, now: Instant) {
        let node = daemon.node.clone();
        if !std::mem::replace(&mut self.rollout.drain(&pod.uid, now).told, true) {
            self.rollout.news.push(RolloutNews::Waits { node, claims });
        }
    }

    /// The new daemon of this node is not ready.
    fn stop(&mut self, clique: &Clique, node: &str, now: Instant) -> Turn {
        let stops = &mut self.rollout.stops;
        if stops.get(clique).is_none_or(|stop| *stop.node != *node) {
            let stop = Stop {
                node: node.into(),
                since: now,
                told: false,
            };
            stops.insert(clique.clone(), stop);
        }
        let Some(stop) = stops.get_mut(clique).filter(|stop| !stop.told) else {
            return Turn::Later(None);
        };
        if stop.since + STOPPED_AFTER > now {
            return Turn::Later(Some(stop.since + STOPPED_AFTER));
        }
        stop.told = true;
        self.rollout.news.push(RolloutNews::Stopped {
            node: node.into(),
            clique: clique.clone(),
        });
        Turn::Later(None)
    }

    /// Whether a daemon that is up to date is ready, and runs an `nvidia-imex`.
    fn first_is_ready(&self) -> bool {
        self.members_pods()
            .any(|pod| pod.ready && self.rollout.is_current(pod))
    }

    fn is_any_marked(&self) -> bool {
        let mut entries = self.cliques.values().flat_map(|it| it.entries.values());
        entries.any(|it| !it.daemon.draining.is_empty())
    }

    fn members_pods(&self) -> impl Iterator<Item = &DaemonPod> {
        let pods = self.pods.all().filter(|pod| !pod.ending);
        pods.filter(|pod| self.entries_of.contains_key(&pod.node))
    }

    /// Whether the node is a member of no clique, and is about to be none.
    fn is_no_member(&self, node: &str) -> bool {
        if self.entries_of.contains_key(node) {
            return false;
        }
        match self.nodes.get(node).map(|node| &node.said) {
            Some(Said::Clique(clique)) => {
                let members = self.cliques.get(clique);
                members.is_some_and(|members| members.surplus.contains(node))
            }
            _ => true,
        }
    }

    /// The members whose nodes are in the clique: not those that have left it, and keep their index for a while.
    fn daemons_of(&self, clique: &str) -> Vec<Daemon> {
        let members = self.cliques.get(clique);
        let entries = members.iter().flat_map(|members| &members.entries);
        let daemon = |name: &str, entry: &Entry| {
            let node = self.nodes.get(name);
            match node.map(|node| &node.said) {
                Some(Said::Clique(said)) if **said != *clique => return None,
                Some(Said::NoClique) => return None,
                _ => {}
            }
            let pod = self.pods.member_on(name);
            let pod = pod.filter(|pod| *pod.uid == *entry.daemon.pod_uid);
            let drained = node.and_then(|node| node.drained.as_deref());
            Some(Daemon {
                node: name.into(),
                index: entry.daemon.index,
                has_slice: node.is_some_and(|node| node.slice.is_some()),
                is_outdated: pod.is_some_and(|pod| self.rollout.is_outdated(pod)),
                is_marked: !entry.daemon.draining.is_empty(),
                is_drained: pod.is_some_and(|pod| drained == Some(&*pod.uid)),
                pod: pod.cloned(),
            })
        };
        entries
            .filter_map(|(name, entry)| daemon(name, entry))
            .collect()
    }

    /// Something has changed of whether the node's daemon can be replaced, or whether another one can.
    fn touch_replaced(&mut self, node: &str, now: Instant) {
        let cliques = self.entries_of.get(node).cloned().unwrap_or_default();
        for clique in cliques {
            self.touch(&clique, now);
        }
    }

    /// The pod was not known before.
    pub(super) fn pod_came(&mut self, pod: &DaemonPod, now: Instant) {
        // The cliques of members find it out when they are looked at.
        if let Some(until) = self.rollout.came(pod, now) {
            self.due.insert((until, Clique::from("")));
        }
    }

    /// The pod of this UID, whether it has a node or none.
    pub(super) fn pod(&self, uid: &str) -> Option<&DaemonPod> {
        let unscheduled = self.rollout.unscheduled.get(uid);
        self.pods.get(uid).or(unscheduled)
    }

    /// No node has room for this pod.
    pub(super) fn apply_unscheduled(&mut self, pod: DaemonPod, now: Instant) {
        self.rollout.unscheduled.insert(pod.uid.clone(), pod);
        self.touch(&Clique::from(""), now);
    }

    pub(super) fn forget_unscheduled(&mut self, pod: &str) {
        self.rollout.unscheduled.remove(pod);
    }

    /// They are all told again.
    pub(super) fn begin_unscheduled(&mut self) {
        self.rollout.unscheduled.clear();
    }

    /// The daemon of this pod may be the one that others wait for.
    pub(super) fn note_pod(&mut self, pod: &DaemonPod, now: Instant) {
        if pod.ready && self.rollout.is_current(pod) {
            self.rollout.under_way.remove(&pod.node);
            self.touch_waiting(now);
        }
    }

    /// A node is a member now, or none any more: either can be what others wait for, and its own daemon may be
    /// replaced in another way.
    pub(super) fn members_changed(&mut self, now: Instant) {
        self.touch_waiting(now);
        self.touch(&Clique::from(""), now);
    }

    /// Nobody waits for the daemon of a node that is gone.
    pub(super) fn no_member_any_more(&mut self, node: &str) {
        self.rollout.under_way.remove(node);
    }

    /// A request for replacing this pod has failed: the claims are read again before the next one.
    pub(super) fn replacing_failed(&mut self, pod: &str) {
        if let Some(drain) = self.rollout.drains.get_mut(pod) {
            drain.claims = None;
        }
    }

    /// A daemon is ready, or its mark is gone: others may have waited for that.
    fn touch_waiting(&mut self, now: Instant) {
        for clique in std::mem::take(&mut self.rollout.waiting) {
            self.touch(&clique, now);
        }
    }
}

fn read_claims(daemon: &Daemon, pod: &DaemonPod, since: Instant) -> MemberStep {
    MemberStep::ReadClaims {
        node: daemon.node.clone(),
        pod: pod.uid.clone(),
        since,
    }
}

fn delete(pod: &DaemonPod, how: Replacement) -> MemberStep {
    MemberStep::DeletePod {
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        resource_version: (how == Replacement::NotRunning).then(|| pod.version.clone()),
        node: pod.node.clone(),
        how,
    }
}
