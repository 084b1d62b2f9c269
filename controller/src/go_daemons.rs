//! Removes the Go driver's IMEX daemons in driver-managed mode. There, one permanent `nvidia-imex` runs on each node;
//! the Go driver ran one for each ComputeDomain. The leader removes the objects of one ComputeDomain after the other,
//! each when none of its claims is allocated any more.
//!
//! ```text
//! watches of the Go driver's DaemonSets and templates ─┐
//! watch of claims, while there are any ────────────────┼─> GoDaemons ──> lists and removals, one at a time
//!                                                      │       ^                      │
//!                                                      │       └──────── answers <────┘
//!                                                      └─> events, metrics
//! ```
//!
//! Cost for the API server: two watches for each namespace of the driver, without events if the Go driver was never
//! there. During a move: one watch of the metadata of all claims, and a list of them when a ComputeDomain's last
//! known claim is deallocated, at most one in 2 seconds. For each ComputeDomain once: two deletions, two patches of
//! finalizers, a list of nodes with its label, a list of cliques for each namespace, and a write for each node and
//! clique.

mod metrics;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashSet};

use compute_domain_api::names::{DOMAIN_LABEL, TARGET_DAEMON, TARGET_LABEL};
use compute_domain_core::{GoDaemonEvent, GoDaemons, GoKind, GoObject, GoStep};
use daemon_runtime::{Readiness, observe_watch};
use dra_common::error_chain;
use futures_util::StreamExt as _;
use futures_util::stream::{BoxStream, SelectAll};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use tokio::time::Instant;
use tracing::{info, warn};

pub(crate) use self::metrics::GoDaemonMetrics;
use crate::api_client::{ApiClient, RawMetadata, RequestError};
use crate::reconcile::SharedIndex;
use crate::reports::Reports;
use crate::waiting::is_allocated;
use crate::wake::wake_at;
use crate::watches::watch_backoff;

/// The readiness conditions of the remover.
const CONDITIONS: [&str; 3] = ["go-daemon-sets", "go-templates", CLAIMS];

/// Condition of the watch during a move.
const CLAIMS: &str = "go-claims";

/// Removes the Go driver's daemons. Can run several times, each time with new watches.
pub(crate) struct GoDaemonRemover {
    pub(crate) client: Client,
    pub(crate) api: ApiClient,
    pub(crate) reports: Reports,
    /// `ComputeDomains` for events.
    pub(crate) index: SharedIndex,
    pub(crate) readiness: Readiness,
    pub(crate) metrics: GoDaemonMetrics,
    /// Namespaces in which the Go driver keeps its objects.
    pub(crate) namespaces: Vec<String>,
}

/// A watch event of an object's metadata.
type MetadataEvent = watcher::Result<Event<ObjectMeta>>;

/// A watch event of the Go driver's objects.
struct GoObjectEvent {
    kind: GoKind,
    namespace: String,
    event: MetadataEvent,
}

/// One run of the remover.
struct Run<'a> {
    remover: &'a GoDaemonRemover,
    events: SelectAll<BoxStream<'static, GoObjectEvent>>,
    /// The watch of claims.
    claims: Option<BoxStream<'static, MetadataEvent>>,
    /// The allocated claims, while that watch lists.
    allocated: BTreeSet<String>,
    /// The watches that have not listed yet. Nothing is removed before.
    unlisted: HashSet<(GoKind, String)>,
    claims_listed: bool,
    daemons: GoDaemons,
}

// === impl GoDaemonRemover ===

impl GoDaemonRemover {
    /// Never ends by itself.
    pub(crate) async fn run(&self) {
        let mut events = SelectAll::new();
        let mut unlisted = HashSet::new();
        let [sets, templates, _] = CONDITIONS;
        let [sets, templates] = [sets, templates].map(|name| {
            let condition = self.readiness.add_condition(name, "not listed yet");
            observe_watch(&self.client, &condition)
        });
        for namespace in &self.namespaces {
            let of_kind = |kind, stream: BoxStream<'static, MetadataEvent>| {
                let namespace = namespace.clone();
                let events = stream.map(move |event| GoObjectEvent {
                    kind,
                    namespace: namespace.clone(),
                    event,
                });
                events.boxed()
            };
            let api = Api::<RawMetadata<DaemonSet>>::namespaced(sets.clone(), namespace);
            let labelled = watcher::Config::default().labels(DOMAIN_LABEL);
            let watch = watcher(api, labelled).backoff(watch_backoff()).map(meta_of);
            events.push(of_kind(GoKind::DaemonSet, watch.boxed()));

            let api =
                Api::<RawMetadata<ResourceClaimTemplate>>::namespaced(templates.clone(), namespace);
            let labelled =
                watcher::Config::default().labels(&format!("{TARGET_LABEL}={TARGET_DAEMON}"));
            let watch = watcher(api, labelled).backoff(watch_backoff()).map(meta_of);
            events.push(of_kind(GoKind::Template, watch.boxed()));

            let kinds = [GoKind::DaemonSet, GoKind::Template];
            unlisted.extend(kinds.map(|kind| (kind, namespace.clone())));
        }
        let mut run = Run {
            remover: self,
            events,
            claims: None,
            allocated: BTreeSet::new(),
            unlisted,
            claims_listed: false,
            daemons: GoDaemons::default(),
        };
        run.forever().await;
    }

    /// Cleans up after the lease is lost: nothing is watched any more.
    pub(crate) fn stopped(&self) {
        for name in CONDITIONS {
            self.readiness.remove_condition(name);
        }
        self.metrics.set_waiting(0);
    }
}

// === impl Run ===

impl Run<'_> {
    async fn forever(&mut self) {
        loop {
            self.watch_claims();
            let due = wake_at(self.due());
            tokio::select! {
                // Pending events are handled before anything is removed.
                biased;
                Some(event) = self.events.next() => self.take(event),
                event = next_of(&mut self.claims) => self.take_claim(event),
                () = due => self.act().await,
            }
            self.report();
        }
    }

    /// Starts or ends the watch of claims.
    // req: MODE-35
    fn watch_claims(&mut self) {
        let wanted = self.unlisted.is_empty() && self.daemons.is_any();
        if wanted == self.claims.is_some() || !self.unlisted.is_empty() {
            return;
        }
        let GoDaemonRemover {
            client, readiness, ..
        } = self.remover;
        self.claims_listed = false;
        self.claims = wanted.then(|| {
            let condition = readiness.add_condition(CLAIMS, "not listed yet");
            let api: Api<RawMetadata<ResourceClaim>> = Api::all(observe_watch(client, &condition));
            let watch = watcher(api, watcher::Config::default()).backoff(watch_backoff());
            watch.map(meta_of).boxed()
        });
        if !wanted {
            readiness.remove_condition(CLAIMS);
        }
    }

    fn due(&self) -> Option<Instant> {
        let ready = self.unlisted.is_empty() && self.claims_listed;
        self.daemons.due().filter(|_| ready).map(Instant::from_std)
    }

    fn take(&mut self, event: GoObjectEvent) {
        let GoObjectEvent {
            kind,
            namespace,
            event,
        } = event;
        let now = Instant::now().into_std();
        match checked("objects of the Go driver", event) {
            None => {}
            Some(Event::Init) => {
                self.daemons.begin(kind, &namespace);
                self.unlisted.insert((kind, namespace));
            }
            Some(Event::InitApply(meta) | Event::Apply(meta)) => {
                if let Some((domain, object)) = GoObject::new(kind, &meta) {
                    self.daemons.apply(domain, object, now);
                }
            }
            Some(Event::InitDone) => {
                self.unlisted.remove(&(kind, namespace));
                if self.unlisted.is_empty() {
                    self.daemons.listed(now);
                }
            }
            Some(Event::Delete(meta)) => {
                if let Some((domain, object)) = GoObject::new(kind, &meta) {
                    self.daemons.remove(domain, &object);
                }
            }
        }
    }

    fn take_claim(&mut self, event: MetadataEvent) {
        let now = Instant::now().into_std();
        let name = |meta: &ObjectMeta| {
            let part = |part: &Option<String>| part.clone().unwrap_or_default();
            format!("{}/{}", part(&meta.namespace), part(&meta.name))
        };
        match checked("ResourceClaims", event) {
            Some(Event::InitApply(meta)) if is_allocated(&meta) => {
                self.allocated.insert(name(&meta));
            }
            None | Some(Event::InitApply(_)) => {}
            Some(Event::Init) => {
                self.claims_listed = false;
                self.allocated.clear();
            }
            Some(Event::InitDone) => {
                self.claims_listed = true;
                let allocated = std::mem::take(&mut self.allocated);
                self.daemons.allocated_are(&allocated, now);
            }
            Some(Event::Apply(meta)) if is_allocated(&meta) => {}
            Some(Event::Apply(meta) | Event::Delete(meta)) => {
                self.daemons.claim_released(&name(&meta), now);
            }
        }
    }

    async fn act(&mut self) {
        match self.daemons.next(Instant::now().into_std()) {
            None => {}
            Some(GoStep::ListClaims(domains)) => {
                let listed = self.remover.api.allocated_claims(&domains).await;
                let now = Instant::now().into_std();
                match listed {
                    Ok(claims) => self.daemons.set_listed_claims(&domains, claims, now),
                    Err(err) => self.failed(domains.iter().map(|uid| &**uid), &err),
                }
            }
            Some(GoStep::Remove { domain, objects }) => {
                let removed = self.remover.remove(&domain, &objects).await;
                match removed {
                    Ok(()) => self.daemons.removed(&domain, Instant::now().into_std()),
                    Err(err) => self.failed([&*domain], &err),
                }
            }
        }
    }

    fn failed<'a>(&mut self, domains: impl IntoIterator<Item = &'a str>, err: &RequestError) {
        warn!(
            error = error_chain(err),
            "cannot remove objects of the Go driver's driver-managed mode; retrying"
        );
        self.daemons.failed(domains, Instant::now().into_std());
    }

    // req: MODE-30, MODE-34
    fn report(&mut self) {
        let GoDaemonRemover {
            index,
            reports,
            metrics,
            ..
        } = self.remover;
        for event in self.daemons.take_events() {
            if matches!(event, GoDaemonEvent::Removed { .. }) {
                metrics.removed();
            }
            let uid = event.domain();
            let Some(domain) = index.lock().domain(uid) else {
                // There is no object for an event.
                info!(
                    uid,
                    ?event,
                    "the Go driver's IMEX daemons belong to a ComputeDomain that does not exist"
                );
                continue;
            };
            match &event {
                GoDaemonEvent::Waits { claims, .. } => reports.go_daemons_in_use(&domain, claims),
                GoDaemonEvent::Removed { .. } => reports.go_daemons_removed(&domain),
                GoDaemonEvent::Reappeared { object, .. } => {
                    reports.go_daemons_came_back(&domain, object);
                }
            }
        }
        metrics.set_waiting(self.daemons.waiting());
    }
}

impl GoDaemonRemover {
    /// Removes all objects of one ComputeDomain. Can stop anywhere and start over, because missing objects are no
    /// error. The template goes last: while it exists, the ComputeDomain is rejected.
    // req: MODE-32
    async fn remove(&self, domain: &str, objects: &[GoObject]) -> Result<(), RequestError> {
        let (sets, templates): (Vec<_>, Vec<_>) = objects
            .iter()
            .partition(|object| object.kind() == GoKind::DaemonSet);
        for set in sets {
            self.api.remove_go_object(set).await?;
        }
        self.api.unlabel_nodes(domain).await?;
        for namespace in &self.namespaces {
            self.api.delete_go_cliques(namespace, domain).await?;
        }
        for template in templates {
            self.api.remove_go_object(template).await?;
        }
        Ok(())
    }
}

/// Never returns without a watch.
async fn next_of(watch: &mut Option<BoxStream<'static, MetadataEvent>>) -> MetadataEvent {
    let event = match watch {
        Some(watch) => watch.next().await,
        None => None,
    };
    match event {
        Some(event) => event,
        // A watch never ends.
        None => std::future::pending().await,
    }
}

fn meta_of<K>(event: watcher::Result<Event<RawMetadata<K>>>) -> MetadataEvent
where
    RawMetadata<K>: Resource,
{
    let meta = |object: RawMetadata<K>| object.meta().clone();
    event.map(|event| match event {
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(meta(object)),
        Event::InitDone => Event::InitDone,
        Event::Apply(object) => Event::Apply(meta(object)),
        Event::Delete(object) => Event::Delete(meta(object)),
    })
}

/// The event, unless it is an error; errors also go into the readiness condition.
fn checked(what: &str, event: MetadataEvent) -> Option<Event<ObjectMeta>> {
    event
        .inspect_err(|err| warn!(what, error = error_chain(err), "watch failed; retrying"))
        .ok()
}
