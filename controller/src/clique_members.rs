//! Maintains, in driver-managed mode, one `ComputeDomainClique` for each NVLink clique. From it the IMEX daemons get
//! their peers. Only the leader does this.
//!
//! ```text
//! watch of the driver's slices ─┐
//! watch of the daemons' pods ───┼─> CliqueMembers ──> one request after the other
//! watch of their DaemonSet ─────┤     │  ^                       │
//! watch of our cliques ─────────┤     │  │                       │
//! NodesOfDomains: nodes in use ─┘     │  │                       │
//!                                     │  └──────── answers <─────┘
//!                                     └─> NodesOfDomains: changes of nodes
//! ```
//!
//! Cost for the API server: four lists at start, then four watches, one of which has the metadata of one object. If
//! the `node_labeler` runs too, there are two watches of slices: one more list of the driver's slices when a leader
//! starts, and the changes once more. A node that joins costs one or two writes of its clique's object. A node that
//! leaves costs two or three, and one read of its Node. Nodes that change within a quarter of a second share them.
//!
//! An update of the daemons costs a list of the cluster's claims. Each replaced daemon costs four writes of its
//! clique's object, one deletion, and another list. There is at most one list in 2 seconds, for all nodes that then
//! wait. Requests are sent one at a time, at most 50 per second.

mod metrics;
mod rollout;
mod steps;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use compute_domain_api::clique::ComputeDomainClique;
use compute_domain_api::driver_managed::DRIVER_MANAGED_LABEL;
use compute_domain_api::names::DRIVER_NAME;
use compute_domain_core::{Clique, CliqueMembers, Clock, MemberCounts, NodeSlice, RolloutCounts};
use daemon_runtime::{Events, RawObject, Readiness, ReadinessCondition, observe_watch};
use dra_common::error_chain;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceSlice;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource as _};
use tokio::time::Instant;
use tracing::{debug, warn};

pub(crate) use self::metrics::MemberMetrics;
use crate::api_client::claims::ClaimsOfNodes;
use crate::api_client::{ApiClient, RawMetadata};
use crate::domain_nodes::NodesOfDomains;
use crate::references::clique_reference;
use crate::wake::wake_at;
use crate::watches::watch_backoff;

/// The readiness conditions of the leader: the watches, a CRD with all fields, and readable objects.
const CONDITIONS: [&str; 6] = [
    "member-slices",
    "daemon-pods",
    "daemon-sets",
    "cliques",
    "clique-crd",
    "clique-objects",
];

/// Maintains the objects. Can run several times, each time with new watches.
pub(crate) struct MemberKeeper {
    pub(crate) client: Client,
    pub(crate) api: ApiClient,
    pub(crate) events: Events,
    /// Receives the state of the nodes.
    pub(crate) nodes: Arc<NodesOfDomains>,
    pub(crate) readiness: Readiness,
    pub(crate) metrics: MemberMetrics,
    /// Namespace of daemons and objects: the driver's own.
    pub(crate) namespace: Arc<str>,
    /// Label selector of the daemons' pods.
    pub(crate) daemons: String,
    /// Maximum number of members of a clique.
    pub(crate) max_nodes: u32,
    /// How long the update of an outdated daemon waits for claims.
    pub(crate) force_after: Option<Duration>,
}

type RawClique = RawObject<ComputeDomainClique>;

/// An event or error of a watch.
#[expect(
    clippy::large_enum_variant,
    reason = "only one event exists at a time, and it is handled immediately"
)]
enum WatchEvent {
    Slice(watcher::Result<Event<RawObject<ResourceSlice>>>),
    Pod(watcher::Result<Event<RawObject<Pod>>>),
    DaemonSet(watcher::Result<Event<RawMetadata<DaemonSet>>>),
    Clique(watcher::Result<Event<RawClique>>),
}

/// One run of the keeper.
struct Run<'a> {
    keeper: &'a MemberKeeper,
    events: BoxStream<'static, WatchEvent>,
    /// The watches that have not listed yet. Nothing is written before.
    unlisted: HashSet<&'static str>,
    members: CliqueMembers,
    /// The last list of the claims of all nodes.
    claims: Option<Arc<ClaimsList>>,
    /// Objects that cannot be decoded; they are left unchanged.
    unreadable: HashSet<Clique>,
    crd: ReadinessCondition,
    all_readable: ReadinessCondition,
    /// Whether all nodes were reported to the domains.
    all_nodes_reported: bool,
    /// When the next request may be made.
    not_before: Instant,
}

/// A list of the claims of all nodes.
struct ClaimsList {
    began: Instant,
    claims: ClaimsOfNodes,
}

// === impl MemberKeeper ===

impl MemberKeeper {
    /// Never ends by itself.
    pub(crate) async fn run(&self) {
        let [slices, pods, sets, cliques, crd, all_readable] =
            CONDITIONS.map(|name| self.readiness.add_condition(name, "not listed yet"));
        crd.set_met();
        let ours = watcher::Config::default().fields(&format!("spec.driver={DRIVER_NAME}"));
        let slices = Api::all(observe_watch(&self.client, &slices));
        let slices = watcher(slices, ours).backoff(watch_backoff());
        let daemons = watcher::Config::default().labels(&self.daemons);
        let pods = Api::namespaced(observe_watch(&self.client, &pods), &self.namespace);
        let pods = watcher(pods, daemons).backoff(watch_backoff());
        let driver_managed =
            || watcher::Config::default().labels(&format!("{DRIVER_MANAGED_LABEL}=true"));
        let sets: Api<RawMetadata<DaemonSet>> =
            Api::namespaced(observe_watch(&self.client, &sets), &self.namespace);
        let sets = watcher(sets, driver_managed()).backoff(watch_backoff());
        let cliques = Api::namespaced(observe_watch(&self.client, &cliques), &self.namespace);
        let cliques = watcher(cliques, driver_managed()).backoff(watch_backoff());
        let events = futures_util::stream::select(
            slices.map(WatchEvent::Slice),
            futures_util::stream::select(
                pods.map(WatchEvent::Pod),
                futures_util::stream::select(
                    sets.map(WatchEvent::DaemonSet),
                    cliques.map(WatchEvent::Clique),
                ),
            ),
        );
        let clock = Clock::new(Instant::now().into_std(), Timestamp::now());
        let mut run = Run {
            keeper: self,
            events: events.boxed(),
            unlisted: HashSet::from(["slices", "pods", "daemon sets", "cliques"]),
            members: CliqueMembers::new(self.max_nodes, clock).with_force_after(self.force_after),
            claims: None,
            unreadable: HashSet::new(),
            crd,
            all_readable,
            all_nodes_reported: false,
            not_before: Instant::now(),
        };
        run.forever().await;
    }

    /// Cleans up after the lease is lost: nothing is watched any more.
    pub(crate) fn stopped(&self) {
        for name in CONDITIONS {
            self.readiness.remove_condition(name);
        }
        self.metrics.set_counts(&MemberCounts::default());
        self.metrics.set_rollout(&RolloutCounts::default());
    }
}

// === impl Run ===

impl Run<'_> {
    async fn forever(&mut self) {
        loop {
            let due = wake_at(self.due());
            tokio::select! {
                // Pending events are handled before anything is written.
                biased;
                Some(event) = self.events.next() => self.take(event),
                () = self.keeper.nodes.uses_changed() => self.take_uses(),
                () = due => self.write_next().await,
            }
            self.report_to_domains();
        }
    }

    /// Reports changes of nodes to the domains, once all nodes are known.
    // req: MODE-23, MODE-24
    fn report_to_domains(&mut self) {
        if !self.unlisted.is_empty() {
            return;
        }
        let nodes = &self.keeper.nodes;
        for clique in self.members.take_accepted() {
            nodes.set_refusal(&clique, None);
        }
        let changed = self.members.take_changed_nodes();
        if !changed.is_empty() {
            nodes.set_nodes(changed.iter().map(|name| self.members.node(name)));
        }
        if !std::mem::replace(&mut self.all_nodes_reported, true) {
            nodes.all_nodes_known();
        }
    }

    /// When there may be something to write; `None`: not before a change.
    fn due(&self) -> Option<Instant> {
        let at = self.members.due().filter(|_| self.unlisted.is_empty())?;
        Some(Instant::from_std(at).max(self.not_before))
    }

    fn take(&mut self, event: WatchEvent) {
        match event {
            WatchEvent::Slice(event) => {
                if let Some(event) = checked("ResourceSlices", event) {
                    self.take_slice(event);
                }
            }
            WatchEvent::Pod(event) => {
                if let Some(event) = checked("pods of IMEX daemons", event) {
                    self.take_pod(event);
                }
            }
            WatchEvent::DaemonSet(event) => {
                if let Some(event) = checked("DaemonSets of IMEX daemons", event) {
                    self.take_daemon_set(event);
                }
            }
            WatchEvent::Clique(event) => {
                if let Some(event) = checked("ComputeDomainCliques", event) {
                    self.take_clique(event);
                }
            }
        }
    }

    fn take_slice(&mut self, event: Event<RawObject<ResourceSlice>>) {
        let now = Instant::now().into_std();
        match event {
            Event::Init => self.members.begin_slices(),
            Event::InitApply(slice) | Event::Apply(slice) => {
                // A slice that cannot be decoded is not the plugin's.
                if let Some(slice) = slice.0.ok().as_ref().and_then(NodeSlice::new) {
                    self.members.apply_slice(&slice, now);
                }
            }
            Event::InitDone => {
                self.members.finish_slices(now);
                self.unlisted.remove("slices");
            }
            Event::Delete(slice) => {
                if let Some(slice) = slice.0.ok().as_ref().and_then(NodeSlice::new) {
                    self.members.remove_slice(&slice, now);
                }
            }
        }
    }

    fn take_pod(&mut self, event: Event<RawObject<Pod>>) {
        let now = Instant::now().into_std();
        match event {
            Event::Init => self.members.begin_pods(),
            Event::InitApply(pod) | Event::Apply(pod) => match pod.0 {
                Ok(pod) => self.members.apply_pod(&pod, now),
                Err(err) => debug!(error = err.error, "ignored a pod that cannot be decoded"),
            },
            Event::InitDone => {
                self.members.finish_pods(now);
                self.unlisted.remove("pods");
            }
            Event::Delete(pod) => {
                let uid = pod.meta().uid.clone().unwrap_or_default();
                self.members.remove_pod(&uid, now);
            }
        }
    }

    fn take_clique(&mut self, event: Event<RawClique>) {
        let now = Instant::now().into_std();
        match event {
            Event::Init => {
                self.unreadable.clear();
                self.members.begin_cliques();
            }
            Event::InitApply(object) | Event::Apply(object) => self.apply_clique(object),
            Event::InitDone => {
                self.members.finish_cliques(now);
                self.unlisted.remove("cliques");
            }
            Event::Delete(object) => {
                let text = |text: &Option<String>| text.clone().unwrap_or_default();
                let meta = object.meta();
                let (name, uid) = (text(&meta.name), text(&meta.uid));
                self.unreadable.remove(&*name);
                self.members.remove_clique(&name, &uid, now);
            }
        }
        match self.unreadable.iter().min() {
            None if self.unlisted.contains("cliques") => {}
            None => self.all_readable.set_met(),
            Some(clique) => self.all_readable.set_unmet(&format!(
                "ComputeDomainClique {clique} cannot be read; its event CliqueUnreadable has the reason"
            )),
        }
        self.keeper.metrics.set_counts(&self.members.counts());
    }

    // req: DM-7, DM-8
    fn apply_clique(&mut self, object: RawClique) {
        let name = Clique::from(object.meta().name.as_deref().unwrap_or_default());
        let uid = object.meta().uid.clone().unwrap_or_default();
        let now = Instant::now().into_std();
        match object.0 {
            Ok(object) => {
                self.unreadable.remove(&name);
                self.members.apply_clique(&object, now);
            }
            // Only this controller writes it while it leads, and it knew the content.
            Err(err) if self.members.knows(&name) => {
                warn!(clique = %name, error = err.error, "an edit made the ComputeDomainClique unreadable; writing the object again");
                let nothing = ComputeDomainClique {
                    metadata: err.metadata,
                    ..ComputeDomainClique::default()
                };
                self.members.apply_clique(&nothing, now);
            }
            Err(err) => {
                if self.unreadable.insert(name.clone()) {
                    let note = format!(
                        "cannot read the ComputeDomainClique: {}; new IMEX daemons of the clique do not become ready; correct or delete the object, or upgrade the controller if a newer version wrote it",
                        err.error
                    );
                    warn!(clique = %name, "{note}");
                    let object = clique_reference(&self.keeper.namespace, &name, &uid);
                    let events = &self.keeper.events;
                    events.warning(&object, "CliqueUnreadable", "Read", &note);
                }
            }
        }
    }
}

/// The event, unless it is an error; errors also go into the readiness condition.
fn checked<T>(what: &str, event: watcher::Result<Event<T>>) -> Option<Event<T>> {
    event
        .inspect_err(|err| warn!(what, error = error_chain(err), "watch failed; retrying"))
        .ok()
}

#[cfg(test)]
mod tests;
