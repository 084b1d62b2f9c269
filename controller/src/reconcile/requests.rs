//! The requests of one reconcile, and what is learnt from the responses.

use compute_domain_core::{
    Admission, Content, Domain, Findings, Key, Observed, ObservedTemplate, Rejection, Request,
    TemplateRef, Waiting, leaves_out_only,
};
use daemon_runtime::is_namespace_terminating;
use dra_common::error_chain;
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use serde_json::Value;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::pass::Pass;
use super::{Context, Flow, WATCH_LAG};
use crate::api_client::RequestError;
use crate::refusals::refusal_in;

impl Context {
    /// Makes the request, and learns what it changed.
    pub(super) async fn send(
        &self,
        pass: &mut Pass<'_>,
        request: Request,
        observed: &Observed,
        findings: &mut Findings,
    ) -> Result<Flow, RequestError> {
        match (request, observed.domain.as_deref()) {
            (Request::AddFinalizer(patch) | Request::RemoveFinalizer(patch), Some(domain)) => {
                self.patch_domain(pass, domain, patch).await
            }
            (Request::WriteStatus(admission), Some(domain)) => {
                self.write_status(pass, domain, admission, findings).await
            }
            (Request::CountNodes, Some(domain)) => {
                self.count_nodes(pass, domain, findings).await;
                Ok(Flow::Continue)
            }
            (Request::CreateTemplate(template), Some(domain)) => {
                self.create_template(pass, domain, &template, findings)
                    .await
            }
            (Request::DryRunTemplate(template), Some(domain)) => {
                self.dry_run(pass, domain, &template, findings).await
            }
            (Request::LookUpTemplate { name }, Some(domain)) => {
                let template = self.api.get_template(domain.namespace(), &name).await?;
                self.found_template(domain, template.as_ref(), findings);
                Ok(Flow::Continue)
            }
            (Request::DeleteTemplate(template), Some(domain)) if !domain.is_being_deleted() => {
                self.replace_template(pass, domain, &template, findings)
                    .await
            }
            (Request::DeleteTemplate(template), domain) => {
                self.delete_template(pass, domain, &template, findings)
                    .await
            }
            (Request::RemoveTemplateFinalizer(template, patch), domain) => {
                self.release_template(pass, domain, &template, patch, findings)
                    .await
            }
            (Request::LookUpDomain { namespace, name }, _) => {
                self.look_up_domain(pass, namespace, name, findings).await
            }
            (Request::TryChannel, Some(domain)) => self.try_channel(pass, domain).await,
            (Request::CreateLease(number, lease), Some(domain)) => {
                self.create_lease(pass, domain, number, &lease, findings)
                    .await
            }
            (Request::RestoreLease(lease), _) => self.restore_lease(pass, &lease).await,
            (Request::ChangeLease(lease, patch), _) => self.change_lease(pass, &lease, patch).await,
            (Request::DeleteLease(lease), _) => self.delete_lease(pass, &lease).await,
            // Requests for a domain are decided on only where there is one.
            (_, None) => Ok(Flow::Stop(None)),
        }
    }

    async fn patch_domain(
        &self,
        pass: &mut Pass<'_>,
        domain: &Domain,
        patch: Value,
    ) -> Result<Flow, RequestError> {
        match self.api.patch_domain_finalizers(domain, patch).await {
            Ok(patched) => {
                if patched.is_being_deleted() {
                    info!("ComputeDomain released");
                }
                self.index.lock().learn_domain(patched);
            }
            Err(err) => self.refresh_domain(pass, domain, err).await?,
        }
        Ok(Flow::Continue)
    }

    async fn write_status(
        &self,
        pass: &mut Pass<'_>,
        domain: &Domain,
        admission: Admission,
        findings: &Findings,
    ) -> Result<Flow, RequestError> {
        let report = findings.report(domain, admission);
        let schema = findings.schema;
        match self.api.write_status(domain, &report, schema).await {
            Ok(written) => {
                if !report.is_admission_reported_in(domain, schema) {
                    self.reports.admission(domain, &report);
                }
                self.index.lock().learn_domain(written);
            }
            Err(err) if self.schema.learn_from(&err) => {}
            Err(err) => self.refresh_domain(pass, domain, err).await?,
        }
        Ok(Flow::Continue)
    }

    /// What it leads to is no more than an event and a condition: if it fails, all else goes on.
    async fn count_nodes(&self, pass: &Pass<'_>, domain: &Domain, findings: &mut Findings) {
        let count = async || self.api.count_nodes().await;
        findings.waiting = match self
            .waiting
            .count(pass.key, domain.namespace(), count)
            .await
        {
            Ok(count) => {
                if count.without_clique > 0 {
                    self.reports.nodes_without_clique(domain, count);
                }
                Waiting::Counted(count)
            }
            Err(err) => {
                let error = error_chain(&err);
                warn!(error, "the nodes without a clique are not counted yet");
                Waiting::Unknown
            }
        };
    }

    async fn create_template(
        &self,
        pass: &mut Pass<'_>,
        domain: &Domain,
        template: &ResourceClaimTemplate,
        findings: &mut Findings,
    ) -> Result<Flow, RequestError> {
        let name = template.metadata.name.as_deref().unwrap_or_default();
        // Whether the name is still taken costs a read, not another refused write, also after a restart.
        if self.refusals.is_name_taken(pass.key) || domain.reports_name_taken() {
            let taken = self.api.get_template(domain.namespace(), name).await?;
            if let Some(taken) = taken {
                self.found_in_the_way(pass.key, domain, taken, findings)
                    .await;
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
                    // A policy or webhook has changed its labels: nothing tells later whose it is.
                    findings.unlabelled = Some(created);
                }
            }
            Err(err) if err.is_already_exists() => {
                let taken = self.api.get_template(domain.namespace(), name).await?;
                if let Some(taken) = taken {
                    self.found_in_the_way(pass.key, domain, taken, findings)
                        .await;
                }
            }
            Err(err) => return self.creation_refused(pass, domain, err, findings),
        }
        Ok(Flow::Continue)
    }

    async fn dry_run(
        &self,
        pass: &Pass<'_>,
        domain: &Domain,
        template: &ResourceClaimTemplate,
        findings: &mut Findings,
    ) -> Result<Flow, RequestError> {
        match self.api.dry_run_template(template).await {
            Ok(stored) => {
                let (stored, sent) = (&stored.spec.spec, &template.spec.spec);
                // What somebody changes is no older server's, and not to be put up with.
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
        // The domain goes with its namespace.
        if err.status().is_some_and(is_namespace_terminating) || err.is_not_found() {
            debug!(error = %err, "the namespace is being deleted");
            return Ok(Flow::Stop(Some(Instant::now() + WATCH_LAG)));
        }
        let message = refusal_in(&err, pass.failures).ok_or(err)?;
        let refusal = Rejection::TemplateRefused { message };
        self.refuse(pass.key, domain, refusal, findings);
        Ok(Flow::Continue)
    }

    /// Deletes a template of a domain that lives: it is to be created again, or is that of a former
    /// spec.
    async fn replace_template(
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

    /// A template of the wanted name exists, though the watch does not have it as ours.
    async fn found_in_the_way(
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

    /// Restores the label of a template of ours, so that it need not be made again. Where that fails, it
    /// is as it was.
    async fn with_its_label(&self, template: ResourceClaimTemplate) -> ResourceClaimTemplate {
        match self.api.restore_label(&template).await {
            Ok(restored) => restored.unwrap_or(template),
            Err(err) => {
                debug!(
                    error = error_chain(&err),
                    "the template stays without its label"
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

    /// The API server has this template under the wanted name, or none.
    fn found_template(
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

    async fn look_up_domain(
        &self,
        pass: &Pass<'_>,
        namespace: Box<str>,
        name: Option<Box<str>>,
        findings: &mut Findings,
    ) -> Result<Flow, RequestError> {
        let found = match &name {
            Some(name) => self.api.get_domain(&namespace, name).await?,
            None => self.api.find_domain(&namespace, pass.key).await?,
        };
        // Another domain may have the name by now.
        if found.is_some_and(|domain| *domain.uid().as_str() == **pass.key) {
            return Ok(Flow::Stop(Some(Instant::now() + WATCH_LAG)));
        }
        info!(
            namespace = &*namespace,
            "the ComputeDomain of a ResourceClaimTemplate or of an IMEX channel is gone for good"
        );
        findings.absent_in.push(namespace);
        Ok(Flow::Continue)
    }

    /// After a failed request: if the domain has changed or is gone, that is learnt, and the next
    /// decision is made with it.
    pub(super) async fn refresh_domain(
        &self,
        pass: &mut Pass<'_>,
        domain: &Domain,
        err: RequestError,
    ) -> Result<(), RequestError> {
        let uid = domain.uid().as_str();
        if err.is_not_found() {
            self.index.lock().remove_domain(uid);
            return Ok(());
        }
        if !err.is_outdated() || std::mem::replace(&mut pass.refreshed, true) {
            return Err(err);
        }
        let now = self
            .api
            .get_domain(domain.namespace(), domain.name())
            .await?;
        match now {
            Some(now) if now.uid() == domain.uid() => self.index.lock().learn_domain(now),
            _ => self.index.lock().remove_domain(uid),
        }
        Ok(())
    }
}
