//! Creates, repairs and looks up a domain's `ResourceClaimTemplate`, and handles conflicts about its name.

use compute_domain_core::{
    Content, Domain, Findings, Key, ObservedTemplate, Rejection, TemplateRef, leaves_out_only,
};
use daemon_runtime::is_namespace_terminating;
use dra_common::error_chain;
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use tokio::time::Instant;
use tracing::{debug, info};

use super::pass::Pass;
use super::{Context, Flow, WATCH_LAG};
use crate::api_client::RequestError;
use crate::refusals::refusal_in;

impl Context {
    pub(super) async fn create_template(
        &self,
        pass: &mut Pass<'_>,
        domain: &Domain,
        template: &ResourceClaimTemplate,
        findings: &mut Findings,
    ) -> Result<Flow, RequestError> {
        let name = template.metadata.name.as_deref().unwrap_or_default();
        // A taken name is checked with a read instead of another rejected write, also after a restart.
        if self.refusals.is_name_taken(pass.key) || domain.reports_name_taken() {
            let taken = self.api.get_template(domain.namespace(), name).await?;
            if let Some(taken) = taken {
                self.name_conflict(pass.key, domain, taken, findings).await;
                return Ok(Flow::Continue);
            }
        }
        match self.api.create_template(template).await {
            Ok(created) => {
                info!(template = name, "ResourceClaimTemplate created");
                let created = ObservedTemplate::new(&created);
                if created.is_of(domain) {
                    self.index.lock().learn_template(created);
                } else {
                    // A policy or webhook has changed its labels, so later nothing shows which domain owns it.
                    findings.unlabelled = Some(created);
                }
            }
            Err(err) if err.is_already_exists() => {
                let taken = self.api.get_template(domain.namespace(), name).await?;
                if let Some(taken) = taken {
                    self.name_conflict(pass.key, domain, taken, findings).await;
                }
            }
            Err(err) => return self.creation_refused(pass, domain, err, findings),
        }
        Ok(Flow::Continue)
    }

    pub(super) async fn dry_run(
        &self,
        pass: &Pass<'_>,
        domain: &Domain,
        template: &ResourceClaimTemplate,
        findings: &mut Findings,
    ) -> Result<Flow, RequestError> {
        match self.api.dry_run_template(template).await {
            Ok(stored) => {
                let (stored, sent) = (&stored.spec.spec, &template.spec.spec);
                // Only dropped fields come from an older API server. Other changes are not accepted.
                let kept = leaves_out_only(stored, sent);
                let spec = if kept { stored } else { sent };
                let content = Content::new(spec, domain.uid().as_str());
                self.stored.set(domain, content);
                Ok(Flow::Continue)
            }
            Err(err) => self.creation_refused(pass, domain, err, findings),
        }
    }

    fn creation_refused(
        &self,
        pass: &Pass<'_>,
        domain: &Domain,
        err: RequestError,
        findings: &mut Findings,
    ) -> Result<Flow, RequestError> {
        // The domain is deleted with its namespace.
        if err.status().is_some_and(is_namespace_terminating) || err.is_not_found() {
            debug!(error = %err, "the namespace is being deleted");
            return Ok(Flow::Stop(Some(Instant::now() + WATCH_LAG)));
        }
        let message = refusal_in(&err, pass.failures).ok_or(err)?;
        let refusal = Rejection::TemplateRefused { message };
        self.refuse(pass.key, domain, refusal, findings);
        Ok(Flow::Continue)
    }

    /// Deletes a template of a live domain: it is to be created again, or belongs to a former spec.
    pub(super) async fn replace_template(
        &self,
        pass: &mut Pass<'_>,
        domain: &Domain,
        template: &TemplateRef,
        findings: &mut Findings,
    ) -> Result<Flow, RequestError> {
        if !domain.wants(template) {
            self.reports.former(domain, template);
        } else if pass.is_second_repair(template) || self.refusals.is_changed(pass.key) {
            let template = template.clone();
            let refusal = Rejection::TemplateChanged { template };
            self.refuse(pass.key, domain, refusal, findings);
        } else {
            self.reports.repair(domain, template);
        }
        self.delete_template(pass, Some(domain), template, findings)
            .await
    }

    /// A template with the wanted name exists, but the watch does not have it as ours.
    async fn name_conflict(
        &self,
        key: &Key,
        domain: &Domain,
        taken: ResourceClaimTemplate,
        findings: &mut Findings,
    ) {
        let taken = self.with_its_label(taken).await;
        self.found_template(domain, Some(&taken), findings);
        if findings.has_no_template {
            findings.has_no_template = false;
            let template = ObservedTemplate::new(&taken);
            let other = self.index.lock().domain(template.domain_uid());
            let refusal = Rejection::NameTaken {
                name: taken.metadata.name.clone().unwrap_or_default(),
                owner: template.owner(other.as_deref()),
            };
            self.refuse(key, domain, refusal, findings);
        }
    }

    /// Restores the label of our template, so that it need not be recreated. Returns it unchanged if that fails.
    async fn with_its_label(&self, template: ResourceClaimTemplate) -> ResourceClaimTemplate {
        match self.api.restore_label(&template).await {
            Ok(restored) => restored.unwrap_or(template),
            Err(err) => {
                debug!(
                    error = error_chain(&err),
                    "cannot restore the template's label"
                );
                template
            }
        }
    }

    pub(super) fn refuse(
        &self,
        key: &Key,
        domain: &Domain,
        refusal: Rejection,
        findings: &mut Findings,
    ) {
        self.refusals
            .record(key, domain.namespace(), refusal.clone());
        findings.refusal = Some(refusal);
    }

    /// Stores which template, if any, the API server has under the wanted name.
    pub(super) fn found_template(
        &self,
        domain: &Domain,
        found: Option<&ResourceClaimTemplate>,
        findings: &mut Findings,
    ) {
        findings.unlabelled =
            found.and_then(|template| ObservedTemplate::without_label(template, domain.uid()));
        let ours = found
            .map(ObservedTemplate::new)
            .filter(|template| template.is_of(domain));
        findings.has_no_template = ours.is_none() && findings.unlabelled.is_none();
        if let Some(ours) = ours {
            self.index.lock().learn_template(ours);
        }
    }
}
