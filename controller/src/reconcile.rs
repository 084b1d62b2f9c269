//! One ComputeDomain at a time: decide, make the request, decide again.

use std::sync::Arc;
use std::time::Duration;

use compute_domain_core::{
    Admission, Decision, Domain, ObservedTemplates, Outcome, Rejection, Request, decide,
};
use imex_runtime::{Events, error_chain};
use kube::runtime::controller::Action;
use kube::{Resource as _, ResourceExt as _};
use tracing::{info, instrument, warn};

use crate::api_client::{ApiClient, RawDomain, RequestError};
use crate::backoff::Backoff;

/// Upper bound of the requests in one reconcile. No ComputeDomain needs more than five; beyond
/// this, another client reverts our changes, and the backoff keeps us from fighting at full speed.
const MAX_REQUESTS: usize = 16;

/// When to reconcile again while no watch event would tell that the cause of a rejection is gone.
const REQUEUE_UNWATCHED: Duration = Duration::from_secs(60);

/// What all reconciles share.
pub(crate) struct Context {
    api: ApiClient,
    events: Events,
    backoff: Backoff,
}

/// Why a reconcile did not get to its end. It is retried.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReconcileError {
    /// A request failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Every request succeeded, and another one was always needed.
    #[error("still not done after {MAX_REQUESTS} requests: another client reverts the changes")]
    TooManyRequests,
}

/// Reconciles one ComputeDomain. kube's `Controller` calls it, never twice at the same time for
/// one object.
#[instrument(skip_all, fields(domain = %name_of(&object)))]
pub(crate) async fn reconcile(
    object: Arc<RawDomain>,
    context: Arc<Context>,
) -> Result<Action, ReconcileError> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let action = context.reconcile(&namespace, &name).await?;
    context.backoff.reset(&namespace, &name);
    Ok(action)
}

/// The error policy: logs why a reconcile failed, and when it is retried.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the signature that kube's Controller calls"
)]
pub(crate) fn retry(
    object: Arc<RawDomain>,
    error: &ReconcileError,
    context: Arc<Context>,
) -> Action {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let (attempt, delay) = context.backoff.record_failure(&namespace, &name);
    warn!(
        domain = name_of(&object),
        attempt,
        retry_in = ?delay,
        error = error_chain(error),
        "reconcile failed"
    );
    Action::requeue(delay)
}

fn name_of(object: &RawDomain) -> String {
    format!(
        "{}/{}",
        object.namespace().unwrap_or_default(),
        object.name_any()
    )
}

// === impl Context ===

impl Context {
    pub(crate) fn new(api: ApiClient, events: Events) -> Self {
        Self {
            api,
            events,
            backoff: Backoff::default(),
        }
    }

    pub(crate) fn api(&self) -> &ApiClient {
        &self.api
    }

    async fn reconcile(&self, namespace: &str, name: &str) -> Result<Action, ReconcileError> {
        let Some(mut domain) = self.api.get_domain(namespace, name).await? else {
            return Ok(Action::await_change());
        };
        let mut templates = self.api.observe_templates(&domain).await?;
        for _ in 0..MAX_REQUESTS {
            match decide(&domain, &templates) {
                Decision::Done(outcome) => {
                    return Ok(self.finish(&domain, &templates, outcome));
                }
                Decision::Send(request) => {
                    self.send(request, &mut domain, &mut templates).await?;
                }
            }
        }
        Err(ReconcileError::TooManyRequests)
    }

    /// Makes the request, and updates the objects that it changed.
    async fn send(
        &self,
        request: Request,
        domain: &mut Domain,
        templates: &mut ObservedTemplates,
    ) -> Result<(), RequestError> {
        let api = &self.api;
        match request {
            Request::AddFinalizer(patch) | Request::RemoveFinalizer(patch) => {
                *domain = api.patch_domain_finalizers(domain, patch).await?;
            }
            Request::CreateTemplate(template) => {
                templates.with_expected_name = Some(api.create_template(&template).await?);
                info!(
                    template = template.name_any(),
                    "ResourceClaimTemplate created"
                );
            }
            Request::DeleteTemplate(template) => {
                api.delete_template(&template).await?;
                *templates = api.observe_templates(domain).await?;
            }
            Request::RemoveTemplateFinalizer(template, patch) => {
                api.patch_template_finalizers(&template, patch).await?;
                info!(%template, "finalizer removed");
                // Read again: others may still keep the template, and then the domain has to wait.
                *templates = api.observe_templates(domain).await?;
            }
            Request::WriteStatus(admission) => {
                *domain = api.write_status(domain, &admission).await?;
                self.publish(domain, &admission);
            }
        }
        Ok(())
    }

    /// Logs the admission, and writes it as an event.
    fn publish(&self, domain: &Domain, admission: &Admission) {
        let (reason, message) = (admission.reason(), admission.message());
        let object = domain.object().object_ref(&());
        info!(status = admission.state().as_str(), reason, "{message}");
        match admission {
            Admission::Admitted => {
                self.events.normal(&object, reason, "Admit", &message);
            }
            Admission::Rejected(_) => {
                self.events.warning(&object, reason, "Admit", &message);
            }
        }
    }

    fn finish(&self, domain: &Domain, templates: &ObservedTemplates, outcome: Outcome) -> Action {
        let object = domain.object().object_ref(&());
        match outcome {
            Outcome::Rejected(rejection) if rejection.is_unwatched() => {
                Action::requeue(REQUEUE_UNWATCHED)
            }
            // Its status is not written, so that only an event reports it.
            Outcome::Rejected(rejection @ Rejection::Unreadable { .. }) => {
                self.publish(domain, &Admission::Rejected(rejection));
                Action::await_change()
            }
            Outcome::Admitted | Outcome::Rejected(_) => Action::await_change(),
            Outcome::Blocked(template) => {
                let note =
                    format!("{template} is being deleted, but finalizers of others remain on it");
                self.events
                    .warning(&object, "TemplateHeld", "Delete", &note);
                Action::await_change()
            }
            Outcome::Gone => {
                info!("ComputeDomain deleted");
                if let Some(driver_managed) = templates.driver_managed(domain) {
                    let note = format!(
                        "{driver_managed} remains: only the driver-managed mode deletes it"
                    );
                    let rejection = Rejection::DriverManaged {
                        object: driver_managed,
                    };
                    let reason = rejection.reason();
                    self.events.warning(&object, reason, "Delete", &note);
                }
                Action::await_change()
            }
        }
    }
}

#[cfg(test)]
mod tests;
