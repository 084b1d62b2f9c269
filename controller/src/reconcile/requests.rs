//! Sends the requests of one reconcile and stores the results. This module has those about the domain itself.

use compute_domain_core::{Admission, Domain, Findings, Observed, Request, Waiting};
use dra_common::error_chain;
use serde_json::Value;
use tokio::time::Instant;
use tracing::{info, warn};

use super::pass::Pass;
use super::{Context, Flow, WATCH_LAG};
use crate::api_client::RequestError;

impl Context {
    /// Sends the request and stores the result.
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
            // Without a domain, no request for one is decided on.
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

    /// A failure does not stop the reconcile, because the count only leads to an event and a condition.
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
                warn!(error, "cannot count the nodes without a clique; retrying");
                Waiting::Unknown
            }
        };
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
            "the ComputeDomain of a ResourceClaimTemplate or of an IMEX channel no longer exists; cleaning up the remaining objects"
        );
        findings.absent_in.push(namespace);
        Ok(Flow::Continue)
    }

    /// After a failed request: if the domain has changed or is deleted, stores that, so that the next decision uses
    /// it.
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
