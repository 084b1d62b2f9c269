//! The watches: of `ComputeDomains`, of templates and claims with the label of a ComputeDomain, and, if each
//! ComputeDomain has its own channel, of the channels' Leases. While a template name that a ComputeDomain needs is
//! taken, templates without the label are watched, too.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use compute_domain_api::names::{CHANNEL_LABEL, DOMAIN_LABEL};
use daemon_runtime::{Readiness, WatchPauses, observe_watch};
use futures_util::stream::{BoxStream, SelectAll};
use futures_util::{Stream, StreamExt as _};
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};

use crate::api_client::{RawDomain, RawLease, RawMetadata, RawTemplate};

/// An event or error of a watch.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "only one event exists at a time, between the watch and the index"
)]
pub(crate) enum WatchEvent {
    Domain(watcher::Result<watcher::Event<RawDomain>>),
    Template(watcher::Result<watcher::Event<RawTemplate>>),
    Claim(watcher::Result<watcher::Event<RawMetadata<ResourceClaim>>>),
    /// A template without the label of a ComputeDomain.
    Other(watcher::Result<watcher::Event<RawMetadata<ResourceClaimTemplate>>>),
    /// The Lease of a channel.
    Lease(watcher::Result<watcher::Event<RawLease>>),
}

/// All watches. A failed watch is retried without limit; its readiness condition has the reason.
pub(crate) struct Watches {
    client: Client,
    events: SelectAll<BoxStream<'static, WatchEvent>>,
    other_templates: Option<BoxStream<'static, WatchEvent>>,
}

/// The readiness conditions of the watches.
pub(crate) const CONDITIONS: [&str; 4] = ["compute-domains", "templates", "claims", CHANNELS];

/// Condition of the watch that exists only if each ComputeDomain has its own channel.
const CHANNELS: &str = "channels";

impl Watches {
    /// Starts the watches. Their conditions are met once they have listed. `channels`: the namespace of the Leases,
    /// if they are watched.
    pub(crate) fn start(client: &Client, readiness: &Readiness, channels: Option<&str>) -> Self {
        let observed =
            |name| observe_watch(client, &readiness.add_condition(name, "not listed yet"));
        let [domains, templates, claims, _] = CONDITIONS;
        let [domains, templates, claims] = [domains, templates, claims].map(observed);
        let labelled = || watcher::Config::default().labels(DOMAIN_LABEL);
        let domains = watcher(Api::<RawDomain>::all(domains), watcher::Config::default());
        let templates = watcher(Api::<RawTemplate>::all(templates), labelled());
        let claims: Api<RawMetadata<ResourceClaim>> = Api::all(claims);
        let claims = watcher(claims, labelled());
        let leases = channels.map(|namespace| {
            let leases: Api<RawLease> = Api::namespaced(observed(CHANNELS), namespace);
            let watch = watcher(leases, watcher::Config::default().labels(CHANNEL_LABEL));
            watch
                .backoff(watch_backoff())
                .map(WatchEvent::Lease)
                .boxed()
        });
        let events = [
            domains
                .backoff(watch_backoff())
                .map(WatchEvent::Domain)
                .boxed(),
            templates
                .backoff(watch_backoff())
                .map(WatchEvent::Template)
                .boxed(),
            claims
                .backoff(watch_backoff())
                .map(WatchEvent::Claim)
                .boxed(),
        ];
        Self {
            client: client.clone(),
            events: events.into_iter().chain(leases).collect(),
            other_templates: None,
        }
    }

    /// Starts or ends the watch of templates without the label. Nothing is stored: it only detects when a name
    /// becomes free.
    pub(crate) fn watch_other_templates(&mut self, wanted: bool) {
        if wanted == self.other_templates.is_some() {
            return;
        }
        self.other_templates = wanted.then(|| {
            let others: Api<RawMetadata<ResourceClaimTemplate>> = Api::all(self.client.clone());
            let unlabelled = watcher::Config::default().labels(&format!("!{DOMAIN_LABEL}"));
            let watch = watcher(others, unlabelled);
            watch
                .backoff(watch_backoff())
                .map(WatchEvent::Other)
                .boxed()
        });
    }
}

impl Stream for Watches {
    type Item = WatchEvent;

    /// Never ends.
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<WatchEvent>> {
        if let Poll::Ready(Some(event)) = self.events.poll_next_unpin(cx) {
            return Poll::Ready(Some(event));
        }
        match &mut self.other_templates {
            Some(others) => others.poll_next_unpin(cx),
            None => Poll::Pending,
        }
    }
}

/// Back-off of watches. A single client may retry more often than kube's default, which is up to a minute, and two in
/// a row if the server has lost its history during an outage.
pub(crate) fn watch_backoff() -> WatchPauses {
    WatchPauses::up_to(Duration::from_secs(2))
}
