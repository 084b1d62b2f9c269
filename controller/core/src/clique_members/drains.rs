//! What is remembered of daemons that are out of date, and what is told of them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use crate::cliques::Clique;

use super::pods::DaemonPod;

/// How long a node is left alone whose mark was withdrawn. Twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_secs(60);

/// How long no pod of a `DaemonSet` is replaced that does not make what it says. Twice as long each time.
const FIRST_REST: Duration = Duration::from_secs(10);

/// The longest of these times.
const LONGEST_PAUSE: Duration = Duration::from_secs(30 * 60);

/// What decides about replacing daemons, beside what the clique's members are.
#[derive(Debug, Default)]
pub(super) struct Rollout {
    /// A daemon that is out of date for this long is replaced although claims need it.
    pub(super) force_after: Option<Duration>,
    /// What the pods of each `DaemonSet`, by its UID, are to be made from.
    pub(super) templates: HashMap<Box<str>, Box<str>>,
    /// The `DaemonSets` that the list which is going on has told of.
    pub(super) listing: Option<HashSet<Box<str>>>,
    /// The `DaemonSets` one of whose pods was replaced since they say what they say, with its node. Their next
    /// pod shows whether that is of use.
    pub(super) asked: HashMap<Box<str>, Box<str>>,
    /// The `DaemonSets`, by UID, whose new pods are not made from what they say.
    pub(super) fruitless: HashMap<Box<str>, Fruitless>,
    /// The pods that no node has room for, by UID.
    pub(super) unscheduled: HashMap<Box<str>, DaemonPod>,
    /// By the UID of the pod.
    pub(super) drains: HashMap<Box<str>, Drain>,
    /// A list of claims that began after this shows which nodes have none. Since the daemons are out of date.
    pub(super) asked_since: Option<Instant>,
    /// The nodes to which claims are known to be allocated. It may be late, and lack some.
    pub(super) in_use: HashSet<Box<str>>,
    /// The nodes whose daemon was replaced, and is not ready again.
    pub(super) under_way: HashSet<Box<str>>,
    /// The cliques in which a new daemon is waited for.
    pub(super) stops: HashMap<Clique, Stop>,
    /// The cliques that wait until one daemon of the whole cluster has shown that the new ones work.
    pub(super) waiting: BTreeSet<Clique>,
    pub(super) news: Vec<RolloutNews>,
}

/// A daemon that is out of date.
#[derive(Debug)]
pub(super) struct Drain {
    pub(super) since: Instant,
    /// When its node was marked, or was first seen marked.
    pub(super) marked: Option<Instant>,
    /// Since when its node is known to have no prepared claim.
    pub(super) drained: Option<Instant>,
    /// The claims that were read after that.
    pub(super) claims: Option<Vec<String>>,
    /// The claims that were read before it is marked, or before the mark is withdrawn.
    pub(super) known: Option<KnownClaims>,
    /// The next list of claims has to begin after this.
    read_since: Option<Instant>,
    /// How often claims were found.
    found: u32,
    /// How often the mark was withdrawn, and how long none is made.
    pub(super) withdrawn: u32,
    pub(super) not_before: Option<Instant>,
    pub(super) told: bool,
    pub(super) deleted: bool,
}

/// The claims of a node.
#[derive(Debug, Default)]
pub(super) struct KnownClaims {
    /// As `NAMESPACE/NAME`.
    pub(super) claims: Vec<String>,
    /// When they are read again; `None`: there are none, and the plugin has the last word.
    pub(super) until: Option<Instant>,
}

/// A new daemon that is waited for.
#[derive(Debug)]
pub(super) struct Stop {
    pub(super) node: Box<str>,
    pub(super) since: Instant,
    pub(super) told: bool,
}

/// Replacing pods brings others of the old kind: somebody has edited the annotation, or something changes
/// the pods. Replacing those would never end.
#[derive(Debug)]
pub(super) struct Fruitless {
    times: u32,
    not_before: Instant,
}

/// Why a daemon may be replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// Its node has no claim, and gets none.
    Drained,
    /// It does not run.
    NotRunning,
    /// Its node is a member of no clique, so that it runs no `nvidia-imex`.
    NoMember,
    /// The operator has said that it is not to wait any longer, for these claims.
    Forced(Vec<String>),
}

/// What operators have to know of replacing daemons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutNews {
    /// The daemon of this node cannot be replaced yet.
    Waits {
        /// The node.
        node: Box<str>,
        /// The claims that are allocated to it, as `NAMESPACE/NAME`; none: its plugin has not said that no
        /// claim is prepared.
        claims: Vec<String>,
    },
    /// The new daemon of this node is not ready, so that no other one of its clique is replaced.
    Stopped {
        /// The node.
        node: Box<str>,
        /// Its clique.
        clique: Clique,
    },
    /// The new daemon is not made from what its `DaemonSet` says.
    Fruitless {
        /// The new pod.
        pod: Box<str>,
        /// The node of the one before it; empty: it had none.
        node: Box<str>,
    },
}

/// How far replacing daemons is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RolloutCounts {
    /// Daemons that are out of date.
    pub outdated: usize,
    /// Nodes that are marked.
    pub draining: usize,
    /// Cliques in which a new daemon has not become ready in time, and `DaemonSets` whose new pods are not
    /// made from what they say.
    pub stopped: usize,
}

// === impl Rollout ===

impl Rollout {
    pub(super) fn is_outdated(&self, pod: &DaemonPod) -> bool {
        let wanted = self.templates.get(&pod.daemon_set);
        wanted.is_some_and(|wanted| *wanted != pod.template)
    }

    /// Whether its `DaemonSet` would make it like this now.
    pub(super) fn is_current(&self, pod: &DaemonPod) -> bool {
        self.templates.get(&pod.daemon_set) == Some(&pod.template)
    }

    /// What the pods of this `DaemonSet` are to be made from. Returns whether that is news, with which what was
    /// found out of its pods means nothing any more.
    pub(super) fn set_template(&mut self, daemon_set: &str, template: Option<&str>) -> bool {
        let before = match template {
            Some(template) => self.templates.insert(daemon_set.into(), template.into()),
            None => self.templates.remove(daemon_set),
        };
        let is_news = before.as_deref() != template;
        if is_news {
            self.asked_since = None;
            self.asked.remove(daemon_set);
            self.fruitless.remove(daemon_set);
        }
        is_news
    }

    /// A pod that was not known. Returns until when none of its `DaemonSet` is replaced, if it is what that does
    /// not say.
    // req: MODE-44
    pub(super) fn came(&mut self, pod: &DaemonPod, now: Instant) -> Option<Instant> {
        if self.is_current(pod) {
            self.fruitless.remove(&pod.daemon_set);
        }
        if pod.ending {
            return None;
        }
        // It may have no node yet itself.
        let node = self.asked.remove(&pod.daemon_set)?;
        if !self.is_outdated(pod) {
            return None;
        }
        let before = self.fruitless.get(&pod.daemon_set);
        let times = before.map_or(0, |it| it.times);
        if times == 0 {
            self.news.push(RolloutNews::Fruitless {
                pod: pod.name.clone(),
                node,
            });
        }
        let not_before = now + doubled(FIRST_REST, times);
        let times = times + 1;
        let fruitless = Fruitless { times, not_before };
        self.fruitless.insert(pod.daemon_set.clone(), fruitless);
        Some(not_before)
    }

    /// Until when this pod is not replaced, because the new one would be no other.
    pub(super) fn rests_until(&self, pod: &DaemonPod) -> Option<Instant> {
        let fruitless = self.fruitless.get(&pod.daemon_set);
        fruitless.map(|fruitless| fruitless.not_before)
    }

    pub(super) fn drain(&mut self, pod: &str, now: Instant) -> &mut Drain {
        let drains = self.drains.entry(pod.into());
        drains.or_insert_with(|| Drain {
            since: now,
            marked: None,
            drained: None,
            claims: None,
            known: None,
            read_since: None,
            found: 0,
            withdrawn: 0,
            not_before: None,
            told: false,
            deleted: false,
        })
    }

    /// Whether its deletion was asked for.
    pub(super) fn is_deleted(&self, pod: &DaemonPod) -> bool {
        let drain = self.drains.get(&pod.uid);
        pod.ending || drain.is_some_and(|drain| drain.deleted)
    }

    pub(super) fn forget(&mut self, pod: &str) {
        self.drains.remove(pod);
    }

    pub(super) fn is_forced(&self, since: Instant, now: Instant) -> bool {
        self.force_after.is_some_and(|after| since + after <= now)
    }
}

// === impl Drain ===

impl Drain {
    pub(super) fn withdraw(&mut self, now: Instant) {
        self.not_before = Some(now + doubled(FIRST_PAUSE, self.withdrawn));
        self.withdrawn = self.withdrawn.saturating_add(1).min(8);
        (self.marked, self.drained, self.claims) = (None, None, None);
        self.known = None;
        self.read_since = self.not_before;
    }

    /// These claims are allocated to its node.
    pub(super) fn set_known(&mut self, claims: Vec<String>, now: Instant) {
        let until = (!claims.is_empty()).then(|| now + doubled(FIRST_PAUSE, self.found));
        if until.is_some() {
            self.found = self.found.saturating_add(1).min(8);
            self.read_since = until;
        }
        self.known = Some(KnownClaims { claims, until });
    }

    /// Its node has got claims, or lost them, since they were read.
    pub(super) fn forget_claims(&mut self, now: Instant) {
        self.known = None;
        self.read_since = Some(now);
    }

    /// A list of claims that began after this is to be believed; `asked` is what holds for all nodes.
    pub(super) fn asked_since(&self, asked: Instant) -> Instant {
        self.read_since.unwrap_or(asked)
    }
}

// === impl KnownClaims ===

impl KnownClaims {
    pub(super) fn is_true(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until > now)
    }
}

fn doubled(first: Duration, times: u32) -> Duration {
    (first * 2_u32.saturating_pow(times.min(10))).min(LONGEST_PAUSE)
}
