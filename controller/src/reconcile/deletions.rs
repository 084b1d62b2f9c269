//! Deletes templates and stores the results.

use compute_domain_core::{Domain, Findings, ObservedTemplate, TemplateRef};
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use serde_json::Value;
use tracing::info;

use super::pass::{Pass, UndeletableTemplate};
use super::{Context, Flow};
use crate::api_client::RequestError;
use crate::refusals::refusal_in;

impl Context {
    pub(super) async fn delete_template(
        &self,
        pass: &mut Pass<'_>,
        domain: Option<&Domain>,
        template: &TemplateRef,
        findings: &mut Findings,
    ) -> Result<Flow, RequestError> {
        match self.api.delete_template(template).await {
            Ok(Some(remaining)) => self.template_changed(domain, &remaining, findings),
            Ok(None) => self.template_gone(domain, template, findings),
            Err(err) => {
                self.refresh_template(pass, domain, template, findings, err)
                    .await?;
            }
        }
        Ok(Flow::Continue)
    }

    // req: CD-23
    pub(super) async fn release_template(
        &self,
        pass: &mut Pass<'_>,
        domain: Option<&Domain>,
        template: &TemplateRef,
        patch: Value,
        findings: &mut Findings,
    ) -> Result<Flow, RequestError> {
        self.releasing().insert(template.uid.clone());
        let released = self.api.patch_template_finalizers(template, patch).await;
        self.releasing().remove(&template.uid);
        match released {
            Ok(released) => {
                info!(%template, "finalizer removed");
                self.template_changed(domain, &released, findings);
            }
            Err(err) => {
                self.refresh_template(pass, domain, template, findings, err)
                    .await?;
            }
        }
        Ok(Flow::Continue)
    }

    /// A response has this state of a template.
    fn template_changed(
        &self,
        domain: Option<&Domain>,
        template: &ResourceClaimTemplate,
        findings: &mut Findings,
    ) {
        let observed = ObservedTemplate::new(template);
        let gone = observed.is_gone();
        findings.has_no_template |= gone && is_last(domain, observed.reference());
        match findings.unlabelled.take() {
            Some(before) if before.reference().uid == observed.reference().uid => {
                findings.unlabelled = (!gone).then(|| before.changed_to(&observed));
            }
            before => {
                findings.unlabelled = before;
                self.index.lock().learn_template(observed);
            }
        }
    }

    /// The API server has no template of this name.
    fn template_gone(
        &self,
        domain: Option<&Domain>,
        template: &TemplateRef,
        findings: &mut Findings,
    ) {
        findings.has_no_template |= is_last(domain, template);
        self.template_replaced(template, findings);
    }

    /// The API server no longer has this template, but may have another one of its name.
    fn template_replaced(&self, template: &TemplateRef, findings: &mut Findings) {
        let unlabelled = findings.unlabelled.take();
        findings.unlabelled = unlabelled.filter(|other| other.reference().uid != template.uid);
        self.index.lock().remove_template(&template.uid);
    }

    /// After a failed request: if the template has changed or is deleted, stores that, so that the next decision uses
    /// it.
    async fn refresh_template(
        &self,
        pass: &mut Pass<'_>,
        domain: Option<&Domain>,
        template: &TemplateRef,
        findings: &mut Findings,
        err: RequestError,
    ) -> Result<(), RequestError> {
        if err.is_not_found() {
            self.template_gone(domain, template, findings);
            return Ok(());
        }
        if !err.is_outdated() || std::mem::replace(&mut pass.refreshed, true) {
            return template_kept(pass, template, findings, err);
        }
        let now = self
            .api
            .get_template(&template.namespace, &template.name)
            .await?;
        match now {
            Some(now) if now.metadata.uid.as_deref() == Some(&template.uid) => {
                self.template_changed(domain, &now, findings);
            }
            Some(_) => self.template_replaced(template, findings),
            None => self.template_gone(domain, template, findings),
        }
        Ok(())
    }
}

/// The API server failed a request about this template. If it rejects the request, this reconcile skips the template
/// and continues with others.
fn template_kept(
    pass: &mut Pass<'_>,
    template: &TemplateRef,
    findings: &mut Findings,
    err: RequestError,
) -> Result<(), RequestError> {
    let refusal = refusal_in(&err, pass.failures);
    let Some(message) = refusal.filter(|_| err.status().is_some()) else {
        return Err(err);
    };
    findings.kept.insert(template.uid.clone(), message);
    pass.kept.get_or_insert_with(|| UndeletableTemplate {
        template: template.clone(),
        source: err,
    });
    Ok(())
}

/// Whether a domain that is being deleted has no template left once this one is deleted, because it has the wanted
/// name. Copies under other names are irrelevant.
fn is_last(domain: Option<&Domain>, template: &TemplateRef) -> bool {
    domain.is_some_and(|domain| domain.is_being_deleted() && domain.wants(template))
}
