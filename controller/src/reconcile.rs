//! Reconciles one UID: decides, sends the request, stores the result, decides again.

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

use pass::UndeletableTemplate;

use crate::api_client::{ApiClient, RequestError};
use crate::domain_nodes::NodesOfDomains;
use crate::refusals::Refusals;
use crate::reports::{Reports, name};
use crate::schema::Schema;
use crate::stored_content::StoredContents;
use crate::waiting::WaitingClaims;

/// Maximum number of requests in one reconcile. No ComputeDomain needs more than eleven. Beyond this, another client
/// reverts our changes, and the back-off limits the conflict.
const MAX_REQUESTS: usize = 16;

/// How long to wait for the watch if the API server already has a domain.
const WATCH_LAG: Duration = Duration::from_secs(5);

/// When an unwatched template is read again.
const UNWATCHED_RETRY: Duration = Duration::from_secs(30);

/// State shared by all reconciles.
pub(crate) struct Context {
    pub(crate) api: ApiClient,
    pub(crate) reports: Reports,
    pub(crate) index: SharedIndex,
    pub(crate) refusals: Refusals,
    pub(crate) schema: Schema,
    pub(crate) stored: StoredContents,
    pub(crate) waiting: WaitingClaims,
    /// The nodes of the domains, in driver-managed mode.
    pub(crate) nodes: Arc<NodesOfDomains>,
    /// UIDs of templates from which our finalizer is being removed: the watch may report their deletion before the
    /// response arrives.
    pub(crate) releasing: Mutex<HashSet<Box<str>>>,
    /// Whether new templates share the nodes' devices.
    pub(crate) sharing: Sharing,
    /// Namespaces in which the driver-managed mode keeps its objects.
    pub(crate) driver_namespaces: Vec<String>,
    /// Clock for the Leases of channels.
    pub(crate) now: Now,
}

/// A clock.
pub(crate) type Now = fn() -> Timestamp;

/// The index. Watches write it and reconciles read it. Never locked across a request. Cheap to clone; clones share
/// it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedIndex(Arc<Mutex<Index>>);

/// Why a reconcile did not finish. It is retried.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReconcileError {
    /// A request failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The API server refused to delete or release a template.
    #[error(transparent)]
    UndeletableTemplate(#[from] UndeletableTemplate),
    /// Every request succeeded, but another one was always needed.
    #[error("not finished after {MAX_REQUESTS} requests: another client reverts the changes")]
    TooManyRequests,
}

/// How to continue after a request.
#[derive(Clone, Copy, Debug)]
enum Flow {
    /// Decide again.
    Continue,
    /// Nothing to do before this time, or a change.
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
    /// A stable name of the cause, for metrics.
    pub(crate) fn code(&self) -> String {
        match self {
            Self::Request(source)
            | Self::UndeletableTemplate(UndeletableTemplate { source, .. }) => source.code(),
            Self::TooManyRequests => "too-many-requests".to_owned(),
        }
    }
}

// === impl Context ===

impl Context {
    /// Reconciles one UID, never twice at the same time. `failures` is the number of consecutive failures. Returns
    /// when to reconcile again even if nothing changes.
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
                if pass.is_new_deletion(domain) {
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

    /// The known nodes of the domain.
    fn nodes_of(&self, key: &Key, domain: Option<&Domain>) -> Nodes {
        let Some(domain) = domain else {
            return Nodes::Unmanaged;
        };
        let has_claims = self.index.lock().claims(domain).next().is_some();
        self.nodes.of(key, has_claims)
    }

    /// Reported before the template is deleted, to warn the user who deletes a domain in use.
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
            // The status cannot be written, so only an event reports it.
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
                debug!(%template, "finalizers of other programs delay the deletion of the template");
                None
            }
        }
    }
}

/// No watch reports changes of a template without its label.
fn unwatched_retry(findings: &Findings) -> Option<Instant> {
    let unwatched = findings.unlabelled.is_some();
    unwatched.then(|| Instant::now() + UNWATCHED_RETRY)
}

#[cfg(test)]
mod tests;
