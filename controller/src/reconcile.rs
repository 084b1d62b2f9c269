use std::sync::Arc;
use std::time::Duration;

use compute_domain_core::{Domain, Observed, Outcome, Refusal, Step, Verdict, next};
use imex_runtime::{Events, error_chain};
use kube::runtime::controller::Action;
use kube::{Resource as _, ResourceExt as _};
use tracing::{info, instrument, warn};

use crate::backoff::Backoff;
use crate::cluster::{Cluster, RequestError, Watched};

/// More steps than any ComputeDomain takes (three to live, four to die): beyond it somebody
/// undoes what we do, and the pass ends instead of fighting at full speed.
const MAX_STEPS: usize = 16;

/// How soon a refusal that ends without an event of ours is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// What every pass shares.
pub(crate) struct Context {
    cluster: Cluster,
    events: Events,
    backoff: Backoff,
}

/// A pass that did not come to rest. Another one follows.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReconcileError {
    /// A request failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The world did not become what was written.
    #[error("no rest after {MAX_STEPS} steps: something undoes the controller's changes")]
    Restless,
}

/// One pass over one ComputeDomain.
#[instrument(skip_all, fields(domain = %name_of(&watched)))]
pub(crate) async fn reconcile(
    watched: Arc<Watched>,
    context: Arc<Context>,
) -> Result<Action, ReconcileError> {
    let (namespace, name) = (watched.namespace().unwrap_or_default(), watched.name_any());
    let action = context.pass(&namespace, &name).await?;
    context.backoff.succeeded(&namespace, &name);
    Ok(action)
}

/// When a failed pass is repeated. Says why it failed.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the signature that kube's Controller calls"
)]
pub(crate) fn retry(
    watched: Arc<Watched>,
    error: &ReconcileError,
    context: Arc<Context>,
) -> Action {
    let (attempt, delay) = context.backoff.failed(
        &watched.namespace().unwrap_or_default(),
        &watched.name_any(),
    );
    warn!(
        domain = name_of(&watched),
        attempt,
        retry_in = ?delay,
        error = error_chain(error),
        "ComputeDomain not reconciled"
    );
    Action::requeue(delay)
}

fn name_of(watched: &Watched) -> String {
    format!(
        "{}/{}",
        watched.namespace().unwrap_or_default(),
        watched.name_any()
    )
}

impl Context {
    pub(crate) fn new(cluster: Cluster, events: Events) -> Self {
        Self {
            cluster,
            events,
            backoff: Backoff::default(),
        }
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Takes steps until there is nothing to do.
    async fn pass(&self, namespace: &str, name: &str) -> Result<Action, ReconcileError> {
        let Some(mut domain) = self.cluster.domain(namespace, name).await? else {
            return Ok(Action::await_change());
        };
        let mut observed = self.cluster.observe(&domain).await?;
        for _ in 0..MAX_STEPS {
            match next(&domain, &observed) {
                Step::Rest(outcome) => return Ok(self.rest(&domain, &observed, outcome).await),
                step => self.take(step, &mut domain, &mut observed).await?,
            }
        }
        Err(ReconcileError::Restless)
    }

    /// Makes the step's request and takes note of what it changed.
    async fn take(
        &self,
        step: Step,
        domain: &mut Domain,
        observed: &mut Observed,
    ) -> Result<(), RequestError> {
        let cluster = &self.cluster;
        match step {
            Step::AddFinalizer(patch) | Step::RemoveFinalizer(patch) => {
                *domain = cluster.patch_domain(domain, patch).await?;
            }
            Step::CreateTemplate(template) => {
                observed.named = Some(cluster.create_template(&template).await?);
                info!(
                    template = template.name_any(),
                    "ResourceClaimTemplate created"
                );
            }
            Step::DeleteTemplate(template) => {
                cluster.delete_template(&template).await?;
                *observed = cluster.observe(domain).await?;
            }
            Step::ReleaseTemplate(template, patch) => {
                cluster.patch_template(&template, patch).await?;
                info!(%template, "finalizer taken off");
                // Looked at again, not assumed: the domain goes only after its template.
                *observed = cluster.observe(domain).await?;
            }
            Step::WriteStatus(verdict) => {
                *domain = cluster.write_status(domain, &verdict).await?;
                self.announce(domain, &verdict).await;
            }
            Step::Rest(_) => {}
        }
        Ok(())
    }

    async fn announce(&self, domain: &Domain, verdict: &Verdict) {
        let (reason, message) = (verdict.reason(), verdict.message());
        let object = domain.object().object_ref(&());
        info!(status = verdict.state().as_str(), reason, "{message}");
        match verdict {
            Verdict::Admitted => {
                self.events.normal(&object, reason, "Admit", &message).await;
            }
            Verdict::Refused(_) => {
                self.events
                    .warning(&object, reason, "Admit", &message)
                    .await;
            }
        }
    }

    async fn rest(&self, domain: &Domain, observed: &Observed, outcome: Outcome) -> Action {
        let object = domain.object().object_ref(&());
        match outcome {
            Outcome::Refused(refusal) if refusal.ends_unseen() => Action::requeue(LOOK_AGAIN),
            // Its status cannot say it.
            Outcome::Refused(refusal @ Refusal::Unreadable { .. }) => {
                self.announce(domain, &Verdict::Refused(refusal)).await;
                Action::await_change()
            }
            Outcome::Admitted | Outcome::Refused(_) => Action::await_change(),
            Outcome::Held(template) => {
                let note = format!("{template} is being deleted and another finalizer holds it");
                self.events
                    .warning(&object, "TemplateHeld", "Delete", &note)
                    .await;
                Action::await_change()
            }
            Outcome::Gone => {
                info!("ComputeDomain gone");
                if let Some(leftover) = observed.leftover(domain) {
                    let note = format!("{leftover} stays until the driver-managed mode runs again");
                    let reason = Refusal::DriverManaged { leftover }.reason();
                    self.events.warning(&object, reason, "Delete", &note).await;
                }
                Action::await_change()
            }
        }
    }
}

#[cfg(test)]
mod tests;
