//! Requests for the status of a ComputeDomain, which only the controller writes.

use compute_domain_core::{
    Admission, Domain, Report, StatusSchema, status_patch, without_stray_nodes,
};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};

use super::{ApiClient, CONTROLLER_NAME, RequestError, failed_to, identify, json_patch, writer};

impl ApiClient {
    /// Writes the fields of the status that are ours. A second request removes nodes of other writers; it fails if
    /// the status has changed.
    pub(crate) async fn write_status(
        &self,
        domain: &Domain,
        report: &Report,
        schema: StatusSchema,
    ) -> Result<Domain, RequestError> {
        let written = self.apply_status(domain, report, schema, false).await?;
        let Some(patch) = without_stray_nodes(&written, &report.nodes) else {
            return Ok(written);
        };
        let action = "remove other programs' entries from the ComputeDomain's status.nodes";
        self.check_fence(action)?;
        let patch = json_patch(action, patch)?;
        let domains = self.domains(domain.namespace());
        let patched = domains.patch_status(domain.name(), &writer(), &patch).await;
        identify(patched.map_err(failed_to(action))?)
    }

    /// Tests with a dry run whether a status of this schema can be written.
    pub(crate) async fn try_status(
        &self,
        domain: &Domain,
        schema: StatusSchema,
    ) -> Result<(), RequestError> {
        let any = Admission::Assigned(1).into();
        let tried = self.apply_status(domain, &any, schema, true).await;
        tried.map(drop)
    }

    async fn apply_status(
        &self,
        domain: &Domain,
        report: &Report,
        schema: StatusSchema,
        dry_run: bool,
    ) -> Result<Domain, RequestError> {
        let action = "write the status of the ComputeDomain";
        self.check_fence(action)?;
        let status = status_patch(domain, report, schema, Timestamp::now());
        let patch = Patch::Apply(status);
        let params = PatchParams {
            dry_run,
            ..PatchParams::apply(CONTROLLER_NAME).force()
        };
        let domains = self.domains(domain.namespace());
        let written = domains.patch_status(domain.name(), &params, &patch).await;
        identify(written.map_err(failed_to(action))?)
    }
}
