//! Decides when an outdated IMEX daemon may be replaced. Restarting `nvidia-imex` kills every process on the
//! node that has imported memory, so a daemon is replaced only when no claim on its node is prepared. A `DaemonSet`'s
//! own rolling update does not check claims.
//!
//! ```text
//! Waiting ──mark──> Draining ──the plugin reports that no claim is prepared──> claims are listed
//!    ^                 │                                                          │        │
//!    │                 └── not within 30 s: unmark the node and retry later       │        │
//!    └──────────────────── the node has allocated claims: unmark it <─────────────┘        │
//!                                    no claims: delete the pod: Deleted <──────────────────┘
//! ```
//!
//! A node is marked only after a list of all claims has shown none on it. The cached use of nodes
//! ([`CliqueMembers::set_in_use`](crate::CliqueMembers::set_in_use)) is incomplete when a controller starts.
//!
//! The mark is in the clique's object, so that a new leader continues with it. All other state here is in
//! memory. Its loss only delays the update.

mod daemon;
mod inputs;
mod outdated;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use crate::cliques::Clique;
use crate::listing::Listing;
use crate::node_cliques::ReportedClique;

use super::observed::Observed;
use super::pods::DaemonPod;
use super::schedule::Backoff;
use super::step::{MemberStep, Replacement};

use self::daemon::Daemon;
use self::outdated::{LONGEST_PAUSE, Outdated, Stage};

/// How long a node stays marked while it does not report that no claim is prepared.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// The delay after which an event reports that a new daemon does not become ready.
const STOPPED_AFTER: Duration = Duration::from_secs(2 * 60);

/// The first pause of a `DaemonSet` whose new pod does not have its template. The pause doubles each time.
const FIRST_REST: Duration = Duration::from_secs(10);

/// The state of the update in the whole cluster.
#[derive(Debug, Default)]
pub(super) struct Rollout {
    /// A daemon that has been outdated for this long is replaced although claims need it.
    force_after: Option<Duration>,
    /// The `DaemonSets` with a template annotation, by UID.
    daemon_sets: HashMap<Box<str>, DaemonSet>,
    /// The list of `DaemonSets`.
    listing: Listing,
    /// By the UID of the pod.
    outdated: HashMap<Box<str>, Outdated>,
    /// The nodes to which claims are known to be allocated. It may lag behind and be incomplete.
    in_use: HashSet<Box<str>>,
    /// The nodes whose daemon was replaced and is not ready yet.
    pub(super) under_way: HashSet<Box<str>>,
    /// The cliques in which a new daemon is not ready.
    stopped: HashMap<Clique, Stop>,
    /// The cliques, and `None` for the nodes without one, that wait until the first new daemon of the cluster is
    /// ready.
    pub(super) waiting: BTreeSet<Option<Clique>>,
    events: Vec<RolloutEvent>,
}

/// The current template of a `DaemonSet`.
#[derive(Debug)]
struct DaemonSet {
    template: Box<str>,
    /// When the controller first saw this template.
    since: Instant,
    /// Its pod that was deleted for this template. The next new pod shows whether replacing helps.
    deleted: Option<DaemonPod>,
    /// The pauses because new pods do not have the template: the annotation was edited, or a webhook changes the
    /// pods. Replacing them would never end.
    mismatches: Backoff,
}

/// A new daemon that is not ready.
#[derive(Debug)]
struct Stop {
    node: Box<str>,
    since: Instant,
    is_reported: bool,
}

/// The next step in a clique.
pub(super) enum NextStep {
    /// Mark the node for this pod; `None`: unmark it.
    Mark {
        node: Box<str>,
        pod: Option<Box<str>>,
    },
    Request(MemberStep),
    /// Nothing before this time.
    Later(Option<Instant>),
}

/// An event of the update for administrators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutEvent {
    /// The daemon of this node cannot be replaced yet.
    Waits {
        /// The node.
        node: Box<str>,
        /// The claims that are allocated to it, as `NAMESPACE/NAME`. Empty: its plugin has not reported that no
        /// claim is prepared.
        claims: Vec<String>,
    },
    /// The new daemon of this node is not ready, so no other daemon of its clique is replaced.
    Stopped {
        /// The node.
        node: Box<str>,
        /// Its clique.
        clique: Clique,
    },
    /// The new daemon does not have the template of its `DaemonSet`.
    TemplateMismatch {
        /// The new pod.
        pod: Box<str>,
        /// The node of the former pod, if it had one.
        node: Option<Box<str>>,
    },
}

/// The progress of the update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RolloutCounts {
    /// Outdated daemons.
    pub outdated: usize,
    /// Marked nodes.
    pub draining: usize,
    /// Cliques in which a new daemon has not become ready in time, and `DaemonSets` whose new pods do not have
    /// their template.
    pub stopped: usize,
}

// === impl Rollout ===

impl Rollout {
    /// The next step in this clique, whose object has the wanted content.
    // req: MODE-25, MODE-26, MODE-27, MODE-28
    pub(super) fn next(&mut self, observed: &Observed, clique: &Clique, now: Instant) -> NextStep {
        let daemons = Daemon::all_of(observed, clique);
        let mut outdated = Vec::new();
        for daemon in &daemons {
            let Some(pod) = daemon.pod else { continue };
            if daemon.is_marked || self.is_deleted(pod) {
                return self.drain(daemon, pod, now);
            }
            if self.is_outdated(pod) {
                outdated.push((daemon, pod));
            } else {
                // The update was reverted. The next one starts its own time limit.
                self.outdated.remove(&pod.uid);
            }
        }
        if outdated.is_empty() {
            self.stopped.remove(clique);
            return NextStep::Later(None);
        }
        // One at a time: the new daemon has to be ready before another one is replaced.
        let is_unready = |it: &&Daemon<'_>| {
            let is_new = |pod: &DaemonPod| !self.is_outdated(pod) && !pod.ready;
            it.has_slice && it.pod.is_none_or(is_new)
        };
        if let Some(daemon) = daemons.iter().find(is_unready) {
            return self.stop(clique, daemon.node, now);
        }
        self.stopped.remove(clique);
        // The first daemon of the cluster is replaced alone. If it cannot start, the update stops, and a
        // correction is tried on it first.
        if !self.has_ready_update(observed) {
            if !self.under_way.is_empty() {
                outdated.retain(|(daemon, _)| self.under_way.contains(daemon.node));
            }
            if outdated.is_empty() || observed.marked().next().is_some() {
                self.waiting.insert(Some(clique.clone()));
                return NextStep::Later(None);
            }
        }
        self.mark(outdated, now)
    }

    /// The next step for daemons that are not members of a clique.
    // req: MODE-29
    pub(super) fn next_elsewhere(
        &mut self,
        observed: &Observed,
        now: Instant,
    ) -> Option<MemberStep> {
        let is_due = |pod: &DaemonPod| {
            let rests = self.paused_until(pod).is_some_and(|until| until > now);
            self.is_outdated(pod) && !pod.ending && !self.is_deleted(pod) && !rests
        };
        let mut pods: Vec<_> = observed.pods.all().collect();
        pods.retain(|pod| is_due(pod));
        // It has never run, and its DaemonSet creates no other pod for that node.
        if let Some(pod) = pods.iter().find(|pod| pod.node.is_none()) {
            return Some(delete(pod, Replacement::NotRunning));
        }
        let is_without_membership = |node: &str| is_without_membership(observed, node);
        let pod = pods
            .iter()
            .find(|pod| pod.node.as_deref().is_some_and(is_without_membership))?;
        if observed.has_members() && !self.has_ready_update(observed) {
            self.waiting.insert(None);
            return None;
        }
        Some(delete(pod, Replacement::NoMember))
    }

    /// Handles a new pod. If the pod does not have the template of its `DaemonSet`, returns the end of the pause in
    /// which no pod of the `DaemonSet` is replaced.
    // req: MODE-44
    pub(super) fn pod_added(&mut self, pod: &DaemonPod, now: Instant) -> Option<Instant> {
        let set = self.daemon_sets.get_mut(pod.daemon_set.as_ref()?)?;
        let is_current = pod.template.as_ref() == Some(&set.template);
        if is_current {
            set.mismatches = Backoff::default();
        }
        if pod.ending {
            return None;
        }
        // The new pod may have no node yet.
        let deleted = set.deleted.take()?;
        if is_current {
            return None;
        }
        if set.mismatches.times == 0 {
            self.events.push(RolloutEvent::TemplateMismatch {
                pod: pod.name.clone(),
                node: deleted.node,
            });
        }
        set.mismatches.grow(FIRST_REST, LONGEST_PAUSE, now);
        set.mismatches.until
    }

    /// Handles a changed pod. Returns whether it is up to date and ready: others may wait for that.
    pub(super) fn pod_changed(&mut self, pod: &DaemonPod) -> bool {
        let has_changed = pod.ready && self.is_current(pod) == Some(true);
        if has_changed && let Some(node) = &pod.node {
            self.under_way.remove(node);
        }
        has_changed
    }

    /// The pod with this UID is deleted.
    pub(super) fn pod_removed(&mut self, uid: &str) {
        self.outdated.remove(uid);
    }

    /// The next step for a marked node. It may have been marked by the former leader.
    fn drain(&mut self, daemon: &Daemon<'_>, pod: &DaemonPod, now: Instant) -> NextStep {
        if !self.is_outdated(pod) && !self.is_deleted(pod) {
            return self.unmark(daemon, pod, now);
        }
        let force_after = self.force_after;
        let outdated = self.outdated(pod, now);
        let is_forced = force_after.is_some_and(|after| outdated.since + after <= now);
        if let Stage::Waiting { .. } = outdated.stage {
            outdated.stage = Stage::draining(now);
        }
        let Stage::Draining {
            since,
            drained,
            claims,
        } = &mut outdated.stage
        else {
            return NextStep::Later(None);
        };
        // nvidia-imex has ended with its container. If it has restarted, the pod has another version.
        if !pod.running {
            return NextStep::Request(delete(pod, Replacement::NotRunning));
        }
        let ends = *since + PATIENCE;
        let since = daemon.is_drained.then(|| drained.unwrap_or(now));
        if std::mem::replace(drained, since) != since {
            // A list from before the node was drained proves nothing.
            *claims = None;
        }
        if let Some(claims) = claims.take() {
            if claims.is_empty() && drained.is_some() {
                return NextStep::Request(delete(pod, Replacement::Drained));
            }
            if is_forced {
                return NextStep::Request(delete(pod, Replacement::Forced(claims)));
            }
            self.report_wait(daemon, pod, claims);
            return self.unmark(daemon, pod, now);
        }
        let read_since = match *drained {
            Some(since) => since,
            None if ends > now => return NextStep::Later(Some(ends)),
            None if is_forced => now,
            None if outdated.is_reported => return self.unmark(daemon, pod, now),
            None => ends,
        };
        NextStep::Request(read_claims(daemon, pod, read_since))
    }

    /// Marks one of these nodes, if possible. Daemons that do not run come first, because nothing is lost. Daemons
    /// that run but are not ready come last, so that none looks as if the update had broken it.
    fn mark(&mut self, all: Vec<(&Daemon<'_>, &DaemonPod)>, now: Instant) -> NextStep {
        let mut candidates = Vec::new();
        let mut again: Option<Instant> = None;
        let mut later = |at: Option<Instant>| again = again.into_iter().chain(at).min();
        for (daemon, pod) in all {
            let in_use = self.in_use.contains(daemon.node);
            let force_after = self.force_after;
            let paused_until = self.paused_until(pod);
            let outdated = self.outdated(pod, now);
            let not_before = outdated.withdrawals.until.max(paused_until);
            if not_before.is_some_and(|at| at > now) {
                later(not_before);
                continue;
            }
            let forced_at = force_after.map(|after| outdated.since + after);
            let is_reported = outdated.is_reported;
            let read_again = outdated.found.until;
            let claims = outdated.known_claims(now).cloned();
            let is_free = claims.as_ref().map(Vec::is_empty);
            let waits = in_use || is_free == Some(false);
            if waits && forced_at.is_none_or(|at| at > now) {
                if !is_reported && is_free.is_none() {
                    return self.read_claims(daemon, pod, now);
                }
                later(forced_at);
                // For a node in use, a watch shows when it no longer is.
                later(read_again.filter(|_| !in_use));
                let claims = claims.unwrap_or_default();
                if !claims.is_empty() {
                    self.report_wait(daemon, pod, claims);
                }
            } else if daemon.has_slice && !daemon.is_drained {
                // A slice that still acknowledges a former mark would count as the acknowledgement.
                let rank = (pod.running, !pod.ready, waits, daemon.index);
                candidates.push((rank, daemon, pod, is_free.is_some() || !pod.running));
            }
        }
        let first = candidates.into_iter().min_by_key(|(rank, ..)| *rank);
        let Some((_, daemon, pod, is_known)) = first else {
            return NextStep::Later(again);
        };
        if !is_known {
            return self.read_claims(daemon, pod, now);
        }
        self.outdated(pod, now).stage = Stage::draining(now);
        NextStep::Mark {
            node: daemon.node.into(),
            pod: Some(pod.uid.clone()),
        }
    }

    /// Lists the claims of a node that is not marked.
    fn read_claims(&mut self, daemon: &Daemon<'_>, pod: &DaemonPod, now: Instant) -> NextStep {
        let since = self.set_of(pod).map_or(now, |set| set.since);
        let since = self.outdated(pod, now).read_since.unwrap_or(since);
        NextStep::Request(read_claims(daemon, pod, since))
    }

    fn unmark(&mut self, daemon: &Daemon<'_>, pod: &DaemonPod, now: Instant) -> NextStep {
        self.outdated(pod, now).withdraw(now);
        NextStep::Mark {
            node: daemon.node.into(),
            pod: None,
        }
    }

    fn report_wait(&mut self, daemon: &Daemon<'_>, pod: &DaemonPod, claims: Vec<String>) {
        if let Some(outdated) = self.outdated.get_mut(&pod.uid)
            && !std::mem::replace(&mut outdated.is_reported, true)
        {
            let node = daemon.node.into();
            self.events.push(RolloutEvent::Waits { node, claims });
        }
    }

    /// Stops the update of this clique, because the new daemon of this node is not ready.
    fn stop(&mut self, clique: &Clique, node: &str, now: Instant) -> NextStep {
        let Some(stop) = self.stopped.get_mut(clique).filter(|it| *it.node == *node) else {
            let stop = Stop {
                node: node.into(),
                since: now,
                is_reported: false,
            };
            self.stopped.insert(clique.clone(), stop);
            return NextStep::Later(Some(now + STOPPED_AFTER));
        };
        let report_at = stop.since + STOPPED_AFTER;
        if stop.is_reported {
            return NextStep::Later(None);
        }
        if report_at > now {
            return NextStep::Later(Some(report_at));
        }
        stop.is_reported = true;
        self.events.push(RolloutEvent::Stopped {
            node: node.into(),
            clique: clique.clone(),
        });
        NextStep::Later(None)
    }

    /// Whether an up-to-date daemon that runs `nvidia-imex` is ready.
    fn has_ready_update(&self, observed: &Observed) -> bool {
        let mut pods = observed.pods.all();
        pods.any(|pod| {
            let node = pod.node.as_deref();
            pod.ready
                && self.is_current(pod) == Some(true)
                && node.is_some_and(|node| observed.is_member(node))
        })
    }

    fn set_of(&self, pod: &DaemonPod) -> Option<&DaemonSet> {
        self.daemon_sets.get(pod.daemon_set.as_ref()?)
    }

    /// Whether it has the current template of its `DaemonSet`; `None` if that has no template annotation.
    fn is_current(&self, pod: &DaemonPod) -> Option<bool> {
        let set = self.set_of(pod)?;
        Some(pod.template.as_ref() == Some(&set.template))
    }

    fn is_outdated(&self, pod: &DaemonPod) -> bool {
        self.is_current(pod) == Some(false)
    }

    /// Whether its deletion was requested.
    fn is_deleted(&self, pod: &DaemonPod) -> bool {
        let outdated = self.outdated.get(&pod.uid);
        outdated.is_some_and(|it| matches!(it.stage, Stage::Deleted))
    }

    /// The end of the pause in which this pod is not replaced, because the new one would be the same.
    fn paused_until(&self, pod: &DaemonPod) -> Option<Instant> {
        self.set_of(pod)?.mismatches.until
    }

    fn outdated(&mut self, pod: &DaemonPod, now: Instant) -> &mut Outdated {
        let outdated = self.outdated.entry(pod.uid.clone());
        outdated.or_insert_with(|| Outdated::new(now))
    }
}

/// Whether the node is not a member of a clique and is not about to become one.
fn is_without_membership(observed: &Observed, node: &str) -> bool {
    let is_placed = match observed.reported(node) {
        ReportedClique::Clique(clique) => {
            let members = observed.cliques.get(clique);
            !members.is_some_and(|members| members.surplus.contains(node))
        }
        ReportedClique::NoClique | ReportedClique::Nothing => false,
    };
    !is_placed && !observed.is_member(node)
}

fn read_claims(daemon: &Daemon<'_>, pod: &DaemonPod, since: Instant) -> MemberStep {
    MemberStep::ReadClaims {
        node: daemon.node.into(),
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
