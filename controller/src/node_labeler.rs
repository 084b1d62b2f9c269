//! Maintains the nodes' labels with their NVLink clique, and the pools of the cliques' channels. Only the leader does
//! this, and only if the label is enabled.
//!
//! ```text
//! watch of the driver's slices ─┬─> NodeCliques ──> labels of nodes ──────┐
//! labels of nodes, listed ──────┘        │ cliques that have nodes        ├─> one write after the other
//!                                        └─> GroupPools ──> ResourceSlices┘
//! ```
//!
//! Cost for the API server: one list of the nodes' labels and one of the driver's slices at start, in pages of 500;
//! then a watch. A node with a correct label costs no request. A node whose slice is deleted and created again, as
//! when its kubelet starts, costs one write that changes nothing. A pool costs two writes when its clique appears,
//! and two when it disappears, after a list of all claims. The first pool also costs a list of all `ComputeDomains`.
//! Requests are sent one at a time, at most 50 per second.
//!
//! The nodes' labels are listed again every ten minutes, because no watch reports a removed label: a watch of all
//! nodes would deliver every heartbeat.

mod metrics;
mod steps;

use std::ops::RangeInclusive;
use std::time::Duration;

use compute_domain_api::names::{CLIQUE_LABEL, DRIVER_NAME};
use compute_domain_core::{CliqueChange, GroupPools, NodeCliques, NodeSlice};
use daemon_runtime::{Events, RawObject, Readiness, ReadinessCondition, observe_watch};
use dra_common::error_chain;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, info, warn};

pub(crate) use self::metrics::CliqueMetrics;
use crate::api_client::ApiClient;
use crate::references::node_reference;
use crate::wake::wake_at;
use crate::watches::watch_backoff;

/// Pause after a failed list of the nodes' labels.
const LIST_AGAIN: Duration = Duration::from_secs(5);

/// How often the labels are listed again; up to a quarter more or less.
const RELIST_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// The readiness conditions of the leader: the watch, the list of labels, and that no ComputeDomain has a channel of
/// a group.
const CONDITIONS: [&str; 3] = ["slices", "node-labels", "group-claims"];

/// Maintains labels and pools. Can run several times, each time with a new watch.
pub(crate) struct NodeLabeler {
    pub(crate) client: Client,
    pub(crate) api: ApiClient,
    pub(crate) events: Events,
    pub(crate) readiness: Readiness,
    pub(crate) metrics: CliqueMetrics,
    /// The channels of each pool; empty if there should be no pools.
    pub(crate) channels: RangeInclusive<u32>,
    /// Whether `ComputeDomains` have their own channels, whose Leases are deleted after use.
    pub(crate) isolates: bool,
}

type Slices = BoxStream<'static, watcher::Result<Event<RawObject<ResourceSlice>>>>;

/// One run of the labeler.
struct Run<'a> {
    keeper: &'a NodeLabeler,
    slices: Slices,
    /// Whether all slices were listed. Nothing is written before.
    listed: bool,
    /// The last error of the watch.
    watch_error: Option<String>,
    nodes: NodeCliques,
    pools: GroupPools,
    groups: ReadinessCondition,
    /// When the next request may be made.
    not_before: Instant,
    /// When the labels are listed again.
    relist_at: Instant,
}

// === impl NodeLabeler ===

impl NodeLabeler {
    /// Never ends by itself.
    pub(crate) async fn run(&self) {
        let [watched, labelled, groups] =
            CONDITIONS.map(|name| self.readiness.add_condition(name, "not listed yet"));
        groups.set_met();
        let labels = loop {
            match self.api.clique_labels().await {
                Ok(labels) => break labels,
                Err(err) => labelled.set_unmet(&error_chain(&err)),
            }
            sleep(LIST_AGAIN).await;
        };
        labelled.set_met();
        let api = Api::all(observe_watch(&self.client, &watched));
        let ours = watcher::Config::default().fields(&format!("spec.driver={DRIVER_NAME}"));
        let mut run = Run {
            keeper: self,
            slices: watcher(api, ours).backoff(watch_backoff()).boxed(),
            listed: false,
            watch_error: None,
            nodes: NodeCliques::new(labels),
            pools: GroupPools::new(self.channels.clone()),
            groups,
            not_before: Instant::now(),
            relist_at: next_relist(),
        };
        run.forever().await;
    }

    /// Cleans up after the lease is lost: nothing is watched any more.
    pub(crate) fn stopped(&self) {
        for name in CONDITIONS {
            self.readiness.remove_condition(name);
        }
        self.metrics.set_pools(0);
    }

    fn report_foreign_label(&self, name: &str, clique: &str) {
        let note = format!(
            "the node is in NVLink clique {clique}, but another field manager has set the node's label {CLIQUE_LABEL} to another value (kubectl get node {name} --show-managed-fields -o yaml). Pods with a group claim of this clique are not scheduled here until the label is removed"
        );
        warn!(node = name, "{note}");
        self.events
            .warning(&node_reference(name), "CliqueLabelNotOurs", "Label", &note);
    }

    fn report_change(&self, name: &str, change: &CliqueChange) {
        let CliqueChange { from, to } = change;
        let to = to.as_deref().unwrap_or("none");
        let note = format!(
            "the node's NVLink clique has changed from {from} to {to}: pods with an IMEX channel on this node can no longer reach the former clique; delete these pods so that they are scheduled again"
        );
        info!(node = name, "{note}");
        self.events
            .warning(&node_reference(name), "CliqueChanged", "Label", &note);
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
                Some(event) = self.slices.next() => self.take(event),
                () = due => self.write_next().await,
                () = sleep_until(self.relist_at) => self.relist_labels().await,
            }
        }
    }

    async fn relist_labels(&mut self) {
        self.relist_at = next_relist();
        match self.keeper.api.clique_labels().await {
            Ok(labels) => {
                let now = Instant::now().into_std();
                self.nodes.compare_labels(&labels, now);
            }
            Err(err) => warn!(
                error = error_chain(&err),
                "cannot list the labels of nodes; retrying later"
            ),
        }
    }

    /// When there may be something to write; `None`: not before a slice changes.
    fn due(&self) -> Option<Instant> {
        let due = self.nodes.due().into_iter().chain(self.pools.due()).min();
        let at = due.filter(|_| self.listed)?;
        Some(Instant::from_std(at).max(self.not_before))
    }

    fn take(&mut self, event: watcher::Result<Event<RawObject<ResourceSlice>>>) {
        let event = match event {
            Ok(event) => event,
            Err(err) => return self.watch_failed(error_chain(&err)),
        };
        let now = Instant::now().into_std();
        match event {
            Event::Init => {
                self.nodes.begin();
                self.pools.begin();
            }
            Event::InitApply(slice) => self.apply(slice),
            Event::Apply(slice) => {
                self.watch_error = None;
                self.apply(slice);
            }
            Event::InitDone => {
                self.watch_error = None;
                self.nodes.finish();
                self.pools.finish(now);
                self.listed = true;
            }
            Event::Delete(slice) => {
                if let Some(slice) = decoded(slice) {
                    if let Some(of_node) = NodeSlice::new(&slice) {
                        self.nodes.remove(&of_node);
                    }
                    self.pools.remove(&slice, now);
                }
            }
        }
        for (clique, has_nodes) in self.nodes.take_changed() {
            debug!(%clique, has_nodes, "an NVLink clique got its first node or lost its last node");
            self.pools.set_wanted(&clique, has_nodes, now);
        }
        self.keeper.metrics.set_pools(self.pools.count());
    }

    fn apply(&mut self, slice: RawObject<ResourceSlice>) {
        let Some(slice) = decoded(slice) else {
            return;
        };
        let now = Instant::now().into_std();
        match NodeSlice::new(&slice) {
            Some(of_node) => {
                let node = of_node.node().to_owned();
                if let Some(change) = self.nodes.apply(of_node, now) {
                    self.keeper.report_change(&node, &change);
                }
            }
            None => self.pools.apply(&slice, now),
        }
    }

    fn watch_failed(&mut self, error: String) {
        if self.watch_error.as_ref() != Some(&error) {
            warn!(what = "ResourceSlices", error, "watch failed; retrying");
            self.watch_error = Some(error);
        }
    }
}

fn next_relist() -> Instant {
    Instant::now() + RELIST_INTERVAL.mul_f64(0.75 + fastrand::f64() / 2.0)
}

/// A slice that cannot be decoded is neither the plugin's nor ours.
fn decoded(slice: RawObject<ResourceSlice>) -> Option<ResourceSlice> {
    let slice = slice.0;
    slice
        .inspect_err(|invalid| {
            debug!(
                error = invalid.error,
                "ignored a ResourceSlice that cannot be decoded"
            );
        })
        .ok()
}

#[cfg(test)]
mod tests;
