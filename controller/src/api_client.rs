use std::time::Duration;

use compute_domain_api::crd::ComputeDomain;
use compute_domain_api::names::DOMAIN_LABEL;
use compute_domain_core::{
    Admission, Domain, ObservedTemplates, TemplateRef, UnidentifiedError, status_patch,
};
use imex_runtime::{ReadinessCondition, error_chain};
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::DeserializeGuard;
use kube::{Api, Client};
use serde_json::Value;
use tokio::time::sleep;

/// A ComputeDomain as the API server returns it. One that does not match the CRD has its metadata
/// and the error, so that it does not stop the watch for all others.
pub(crate) type RawDomain = DeserializeGuard<ComputeDomain>;

/// The controller's name: field manager of what it writes, and reporter of its events.
pub(crate) const CONTROLLER_NAME: &str = "compute-domain-controller";

/// Pause between attempts to list while the CRD or a permission is missing: people add those.
const LIST_RETRY: Duration = Duration::from_secs(2);

/// The requests that the controller makes for one ComputeDomain. `compute-domain-core` decides
/// which.
#[derive(Clone)]
pub(crate) struct ApiClient {
    client: Client,
}

/// A request that failed. Every one is worth another attempt.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action}")]
pub(crate) struct RequestError {
    action: &'static str,
    #[source]
    source: Cause,
}

#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error(transparent)]
    Kube(Box<kube::Error>),
    #[error(transparent)]
    Patch(serde_json::Error),
    #[error(transparent)]
    Unidentified(UnidentifiedError),
}

// === impl ApiClient ===

impl ApiClient {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Returns when both kinds can be listed. Until then, the condition has the reason: the CRD is
    /// not installed, or a permission is missing.
    ///
    /// The watches list everything again. Their store cannot be awaited here: its readiness wakes
    /// only one waiter, and the `Controller` is one.
    pub(crate) async fn wait_until_listed(&self, listed: &ReadinessCondition) {
        while let Err(err) = self.list_once().await {
            listed.set_unmet(&error_chain(&err));
            sleep(LIST_RETRY).await;
        }
        listed.set_met();
    }

    async fn list_once(&self) -> Result<(), RequestError> {
        let one = ListParams::default().limit(1);
        let domains: Api<RawDomain> = Api::all(self.client.clone());
        domains
            .list(&one)
            .await
            .map_err(failed_to("list ComputeDomains"))?;
        let templates: Api<ResourceClaimTemplate> = Api::all(self.client.clone());
        templates
            .list(&one)
            .await
            .map_err(failed_to("list ResourceClaimTemplates"))?;
        Ok(())
    }

    /// The domain as it is now, or `None` if it does not exist. Never from the watch's cache: see
    /// [`compute_domain_core::decide`].
    pub(crate) async fn get_domain(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Domain>, RequestError> {
        let failed = failed_to("read the ComputeDomain");
        match self
            .domains(namespace)
            .get_opt(name)
            .await
            .map_err(&failed)?
        {
            Some(object) => identify(object).map(Some),
            None => Ok(None),
        }
    }

    /// The templates that concern the domain: one list by label, and if its own is not among them,
    /// one read by name.
    pub(crate) async fn observe_templates(
        &self,
        domain: &Domain,
    ) -> Result<ObservedTemplates, RequestError> {
        let by_label = ListParams::default().labels(&format!("{DOMAIN_LABEL}={}", domain.uid()));
        let all_namespaces: Api<ResourceClaimTemplate> = Api::all(self.client.clone());
        let with_domain_label = all_namespaces
            .list(&by_label)
            .await
            .map_err(failed_to(
                "list the ResourceClaimTemplates of the ComputeDomain",
            ))?
            .items;
        let with_expected_name = match domain.template_name() {
            Ok(name) if !domain.is_being_deleted() => {
                self.template_by_name(domain, name, &with_domain_label)
                    .await?
            }
            _ => None,
        };
        Ok(ObservedTemplates {
            with_domain_label,
            with_expected_name,
        })
    }

    async fn template_by_name(
        &self,
        domain: &Domain,
        name: &str,
        with_domain_label: &[ResourceClaimTemplate],
    ) -> Result<Option<ResourceClaimTemplate>, RequestError> {
        let has_name = |template: &&ResourceClaimTemplate| {
            let metadata = &template.metadata;
            metadata.namespace.as_deref() == Some(domain.namespace())
                && metadata.name.as_deref() == Some(name)
        };
        if let Some(own) = with_domain_label.iter().find(has_name) {
            return Ok(Some(own.clone()));
        }
        let templates = self.templates(domain.namespace());
        templates
            .get_opt(name)
            .await
            .map_err(failed_to("read the ResourceClaimTemplate"))
    }

    /// Changes the domain's finalizers with a JSON patch.
    pub(crate) async fn patch_domain_finalizers(
        &self,
        domain: &Domain,
        patch: Value,
    ) -> Result<Domain, RequestError> {
        let action = "change the finalizers of the ComputeDomain";
        let patch = json_patch(action, patch)?;
        let object = self
            .domains(domain.namespace())
            .patch(domain.name(), &PatchParams::default(), &patch)
            .await
            .map_err(failed_to(action))?;
        identify(object)
    }

    /// Writes the status: only the fields that are ours.
    pub(crate) async fn write_status(
        &self,
        domain: &Domain,
        admission: &Admission,
    ) -> Result<Domain, RequestError> {
        let patch = Patch::Apply(status_patch(domain, admission, Timestamp::now()));
        let object = self
            .domains(domain.namespace())
            .patch_status(
                domain.name(),
                &PatchParams::apply(CONTROLLER_NAME).force(),
                &patch,
            )
            .await
            .map_err(failed_to("write the status of the ComputeDomain"))?;
        identify(object)
    }

    /// Creates a template. Not an apply, which would take over one that somebody else has created
    /// meanwhile.
    pub(crate) async fn create_template(
        &self,
        template: &ResourceClaimTemplate,
    ) -> Result<ResourceClaimTemplate, RequestError> {
        let namespace = template.metadata.namespace.as_deref().unwrap_or_default();
        let params = PostParams {
            field_manager: Some(CONTROLLER_NAME.to_owned()),
            ..PostParams::default()
        };
        self.templates(namespace)
            .create(&params, template)
            .await
            .map_err(failed_to("create the ResourceClaimTemplate"))
    }

    /// Deletes a template: this object, not another one of the same name. Succeeds if it does not
    /// exist.
    pub(crate) async fn delete_template(&self, template: &TemplateRef) -> Result<(), RequestError> {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(template.uid.clone()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let deleted = self
            .templates(&template.namespace)
            .delete(&template.name, &params)
            .await;
        ignore_not_found(deleted.map(drop)).map_err(failed_to("delete the ResourceClaimTemplate"))
    }

    /// Changes a template's finalizers with a JSON patch. Succeeds if the template does not exist.
    pub(crate) async fn patch_template_finalizers(
        &self,
        template: &TemplateRef,
        patch: Value,
    ) -> Result<(), RequestError> {
        let action = "remove the finalizer from the ResourceClaimTemplate";
        let patch = json_patch(action, patch)?;
        let templates = self.templates(&template.namespace);
        let patched = templates
            .patch(&template.name, &PatchParams::default(), &patch)
            .await;
        ignore_not_found(patched.map(drop)).map_err(failed_to(action))
    }

    fn domains(&self, namespace: &str) -> Api<RawDomain> {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn templates(&self, namespace: &str) -> Api<ResourceClaimTemplate> {
        Api::namespaced(self.client.clone(), namespace)
    }
}

fn identify(object: RawDomain) -> Result<Domain, RequestError> {
    let domain = match object.0 {
        Ok(object) => Domain::new(object),
        Err(invalid) => Domain::unreadable(invalid.metadata, &invalid.error),
    };
    domain.map_err(|source| RequestError {
        action: "identify the ComputeDomain",
        source: Cause::Unidentified(source),
    })
}

fn json_patch(action: &'static str, patch: Value) -> Result<Patch<()>, RequestError> {
    serde_json::from_value(patch)
        .map(Patch::Json)
        .map_err(|source| RequestError {
            action,
            source: Cause::Patch(source),
        })
}

fn failed_to(action: &'static str) -> impl Fn(kube::Error) -> RequestError {
    move |source| RequestError {
        action,
        source: Cause::Kube(Box::new(source)),
    }
}

fn ignore_not_found(outcome: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match outcome {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        outcome => outcome,
    }
}
