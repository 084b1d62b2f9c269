//! One UID at a time: decide, make the request, learn what it changed, decide again.

mod deletions;
mod leases;
mod pass;
mod requests;
mod templates;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use compute_domain_api::Sharing;
use compute_domain_core::{
    Admission, Decision, Domain, Findings, Index, Key, Nodes, Observed, Outcome, Rejection, decide,
};
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use tracing::{Instrument as _, debug, info_span};

use pass::Kept;

use crate::api_client::{ApiClient, RequestError};
use crate::domain_nodes::NodesOfDomains;
use crate::refusals::Refusals;
use crate::reports::{Reports, name};
use crate::schema::Schema;
use crate::stored_content::StoredContents;
use crate::waiting::WaitingClaims;

/// Upper bound of the requests in one reconcile. No ComputeDomain needs more than eleven; beyond
/// this, another client reverts our changes, and the backoff keeps us from fighting at full speed.
const MAX_REQUESTS: usize = 16;

/// How long a domain that the API server has, but not the watch, is left alone.
const WATCH_LAG: Duration = Duration::from_secs(5);

/// When a template that is not watched is looked at again.
const UNWATCHED_RETRY: Duration = Duration::from_secs(30);

/// What all reconciles share.
pub(crate) struct Context {
    pub(crate) api: ApiClient,
    pub(crate) reports: Reports,
    pub(crate) index: SharedIndex,
    pub(crate) refusals: Refusals,
    pub(crate) schema: Schema,
    pub(crate) stored: StoredContents,
    pub(crate) waiting: WaitingClaims,
    /// The nodes of the domains, where the driver runs IMEX.
    pub(crate) nodes: Arc<NodesOfDomains>,
    /// UIDs of the templates from which our finalizer is being removed: the watch may tell that they are
    /// gone before the response does.
    pub(crate) releasing: Mutex<HashSet<Box<str>>>,
    /// Whether new templates share the nodes' devices.
    pub(crate) sharing: Sharing,
    /// In which the driver-managed mode keeps its objects.
    pub(crate) driver_namespaces: Vec<String>,
    /// What time it is for the Leases of channels.
    pub(crate) now: Now,
}

/// Tells the time.
pub(crate) type Now = fn() -> Timestamp;

/// The index, which the watches write and reconciles read. Never locked across a request. Cheap to
/// clone; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedIndex(Arc<Mutex<Index>>);

/// Why a reconcile did not get to its end. It is retried.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReconcileError {
    /// A request failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A template stays, by the will of the API server.
    #[error(transparent)]
    Kept(#[from] Kept),
    /// Every request succeeded, and another one was always needed.
    #[error("still not done after {MAX_REQUESTS} requests: another client reverts the changes")]
    TooManyRequests,
}

/// What a request leads to.
#[derive(Clone, Copy, Debug)]
enum Flow {
    /// Decide again.
    Continue,
    /// Nothing more can be done before this time, or a change.
    Stop(Option<Instant>),
}

// === impl SharedIndex ===

impl SharedIndex {
    pub(crate) fn new(index: Index) -> Self {
        Self(Arc::new(Mutex::new(index)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Index> {
        // Its methods do not panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl ReconcileError ===

impl ReconcileError {
    /// A stable name of what went wrong, for metrics.
    pub(crate) fn code(&self) -> String {
        match self {
            Self::Request(source) | Self::Kept(Kept { source, .. }) => source.code(),
            Self::TooManyRequests => "too-many-requests".to_owned(),
        }
    }
}

// === impl Context ===

impl Context {
    /// Reconciles one UID. Never twice at the same time for one. `failures` is how often it has
    /// failed in a row. Returns when to do it again although nothing changes.
    pub(crate) async fn reconcile(
        &self,
        key: &Key,
        failures: u32,
    ) -> Result<Option<Instant>, ReconcileError> {
        let domain = self.index.lock().domain(key);
        let domain = domain.as_deref().map(name);
        let span = info_span!("reconcile", domain, uid = %key);
        self.run(key, failures).instrument(span).await
    }

    pub(crate) fn releasing(&self) -> MutexGuard<'_, HashSet<Box<str>>> {
        // A panic elsewhere cannot leave the set half-changed.
        self.releasing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    // req: CD-28
    async fn run(&self, key: &Key, failures: u32) -> Result<Option<Instant>, ReconcileError> {
        let mut findings = Findings::new(self.schema.current());
        findings.sharing = self.sharing;
        findings.refusal = self.refusals.current(key);
        let domain = self.index.lock().domain(key);
        if let Some(domain) = domain {
            findings.waiting = self.waiting.of(key, domain.namespace());
        }
        let mut pass = pass::Pass::new(key, failures);
        for _ in 0..MAX_REQUESTS {
            let observed = self.index.lock().observe(key, (self.now)());
            findings.schema = self.schema.current();
            findings.nodes = self.nodes_of(key, observed.domain.as_deref());
            findings.channel_tried = self.schema.is_channel_tried();
            if let Some(domain) = observed.domain.as_deref() {
                findings.stored = self.stored.get(domain);
                if pass.is_first_sight_of_deletion(domain) {
                    self.report_claims_in_use(domain);
                }
            }
            let request = match decide(&observed, &findings, &self.driver_namespaces) {
                Decision::Done(outcome) => {
                    let again = self.finish(key, &observed, outcome);
                    let again = again.into_iter().chain(self.wake_at(&observed)).min();
                    return match pass.kept {
                        Some(kept) => Err(kept.into()),
                        None => Ok(again.or_else(|| unwatched_retry(&findings))),
                    };
                }
                Decision::Send(request) => request,
            };
            let sent = self.send(&mut pass, request, &observed, &mut findings);
            if let Flow::Stop(again) = sent.await? {
                return Ok(again);
            }
        }
        Err(ReconcileError::TooManyRequests)
    }

    /// What is known of the domain's nodes.
    fn nodes_of(&self, key: &Key, domain: Option<&Domain>) -> Nodes {
        let Some(domain) = domain else {
            return Nodes::Unmanaged;
        };
        let has_claims = self.index.lock().claims(domain).next().is_some();
        self.nodes.of(key, has_claims)
    }

    /// Before the template goes: who deletes a domain that is in use learns of it.
    // req: CD-21
    fn report_claims_in_use(&self, domain: &Domain) {
        let index = self.index.lock();
        self.reports.claims_in_use(domain, index.claims(domain));
    }

    fn finish(&self, key: &Key, observed: &Observed, outcome: Outcome) -> Option<Instant> {
        match outcome {
            Outcome::Rejected(
                Rejection::NameTaken { .. }
                | Rejection::TemplateRefused { .. }
                | Rejection::TemplateChanged { .. }
                | Rejection::ChannelRefused { .. },
            ) => self.refusals.retry_at(key),
            // Its status is not written, so that only an event reports it.
            Outcome::Rejected(rejection @ Rejection::Unreadable { .. }) => {
                if let Some(domain) = &observed.domain {
                    let report = Admission::Rejected(rejection).into();
                    self.reports.admission(domain, &report);
                }
                None
            }
            Outcome::Admitted | Outcome::Rejected(_) | Outcome::Gone => {
                self.refusals.forget(key);
                None
            }
            Outcome::Blocked(template) => {
                debug!(%template, "others keep it");
                None
            }
        }
    }
}

/// No watch tells when a template without its label changes.
fn unwatched_retry(findings: &Findings) -> Option<Instant> {
    let unwatched = findings.unlabelled.is_some();
    unwatched.then(|| Instant::now() + UNWATCHED_RETRY)
}

#[cfg(test)]
mod tests;
