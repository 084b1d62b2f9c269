use std::time::Duration;

use compute_domain_api::crd::ComputeDomain;
use compute_domain_api::names::DOMAIN_LABEL;
use compute_domain_core::{
    Domain, Observed, TemplateRef, UnidentifiedError, Verdict, status_patch,
};
use imex_runtime::{Condition, error_chain};
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::DeserializeGuard;
use kube::{Api, Client};
use serde_json::Value;
use tokio::time::sleep;

/// A ComputeDomain as it is read: one that does not fit the CRD keeps its metadata and stops
/// nothing.
pub(crate) type Watched = DeserializeGuard<ComputeDomain>;

/// Whose fields the status and the template are, and who says events.
pub(crate) const MANAGER: &str = "compute-domain-controller";

/// Pause between looks for the CRD or a permission: both come by hand.
const LIST_AGAIN: Duration = Duration::from_secs(2);

/// The requests that the controller makes for one ComputeDomain.
#[derive(Clone)]
pub(crate) struct Cluster {
    client: Client,
}

/// A request that did not succeed. All are worth another attempt.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action}")]
pub(crate) struct RequestError {
    action: &'static str,
    #[source]
    source: RequestCause,
}

#[derive(Debug, thiserror::Error)]
enum RequestCause {
    #[error(transparent)]
    Kube(Box<kube::Error>),
    #[error(transparent)]
    Patch(serde_json::Error),
    #[error(transparent)]
    Unidentified(UnidentifiedError),
}

impl Cluster {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Returns when both kinds can be listed; until then the condition says why not: no CRD yet, no
    /// permission.
    ///
    /// The watches list again. Their store cannot be waited on beside a running `Controller`: its
    /// readiness wakes only one of two waiters.
    pub(crate) async fn wait_until_listed(&self, listed: &Condition) {
        while let Err(err) = self.list_once().await {
            listed.not_ready(&error_chain(&err));
            sleep(LIST_AGAIN).await;
        }
        listed.ready();
    }

    async fn list_once(&self) -> Result<(), RequestError> {
        let one = ListParams::default().limit(1);
        let domains: Api<Watched> = Api::all(self.client.clone());
        domains
            .list(&one)
            .await
            .map_err(failing("list ComputeDomains"))?;
        let templates: Api<ResourceClaimTemplate> = Api::all(self.client.clone());
        templates
            .list(&one)
            .await
            .map_err(failing("list ResourceClaimTemplates"))?;
        Ok(())
    }

    /// The domain as it is now, if it is there. Never from a cache: from a stale copy a deleted
    /// domain would get its template again.
    pub(crate) async fn domain(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Domain>, RequestError> {
        let failed = failing("read the ComputeDomain");
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

    /// The templates that concern the domain: one list, and for a live domain without a template
    /// of its own one read of the name.
    pub(crate) async fn observe(&self, domain: &Domain) -> Result<Observed, RequestError> {
        let labelled = ListParams::default().labels(&format!("{DOMAIN_LABEL}={}", domain.id()));
        let everywhere: Api<ResourceClaimTemplate> = Api::all(self.client.clone());
        let labelled = everywhere
            .list(&labelled)
            .await
            .map_err(failing(
                "list the ResourceClaimTemplates of the ComputeDomain",
            ))?
            .items;
        let named = match domain.template_name() {
            Ok(name) if domain.object().metadata.deletion_timestamp.is_none() => {
                self.named(domain, name, &labelled).await?
            }
            _ => None,
        };
        Ok(Observed { labelled, named })
    }

    async fn named(
        &self,
        domain: &Domain,
        name: &str,
        labelled: &[ResourceClaimTemplate],
    ) -> Result<Option<ResourceClaimTemplate>, RequestError> {
        let same = |template: &&ResourceClaimTemplate| {
            let metadata = &template.metadata;
            metadata.namespace.as_deref() == Some(domain.namespace())
                && metadata.name.as_deref() == Some(name)
        };
        if let Some(own) = labelled.iter().find(same) {
            return Ok(Some(own.clone()));
        }
        let templates = self.templates(domain.namespace());
        templates
            .get_opt(name)
            .await
            .map_err(failing("read the ResourceClaimTemplate"))
    }

    /// Changes the domain's finalizers.
    pub(crate) async fn patch_domain(
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
            .map_err(failing(action))?;
        identify(object)
    }

    /// Writes the verdict into the status: only the fields that are ours.
    pub(crate) async fn write_status(
        &self,
        domain: &Domain,
        verdict: &Verdict,
    ) -> Result<Domain, RequestError> {
        let patch = Patch::Apply(status_patch(domain, verdict, Timestamp::now()));
        let object = self
            .domains(domain.namespace())
            .patch_status(domain.name(), &PatchParams::apply(MANAGER).force(), &patch)
            .await
            .map_err(failing("write the status of the ComputeDomain"))?;
        identify(object)
    }

    /// Creates a template. Not an apply: that would take over one that appeared meanwhile.
    pub(crate) async fn create_template(
        &self,
        template: &ResourceClaimTemplate,
    ) -> Result<ResourceClaimTemplate, RequestError> {
        let namespace = template.metadata.namespace.as_deref().unwrap_or_default();
        let params = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        self.templates(namespace)
            .create(&params, template)
            .await
            .map_err(failing("create the ResourceClaimTemplate"))
    }

    /// Deletes a template: this object, not another one of the same name. Absent is success.
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
        absent_is_success(deleted.map(drop)).map_err(failing("delete the ResourceClaimTemplate"))
    }

    /// Changes a template's finalizers. Absent is success.
    pub(crate) async fn patch_template(
        &self,
        template: &TemplateRef,
        patch: Value,
    ) -> Result<(), RequestError> {
        let action = "take the finalizer off the ResourceClaimTemplate";
        let patch = json_patch(action, patch)?;
        let templates = self.templates(&template.namespace);
        let patched = templates
            .patch(&template.name, &PatchParams::default(), &patch)
            .await;
        absent_is_success(patched.map(drop)).map_err(failing(action))
    }

    fn domains(&self, namespace: &str) -> Api<Watched> {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn templates(&self, namespace: &str) -> Api<ResourceClaimTemplate> {
        Api::namespaced(self.client.clone(), namespace)
    }
}

fn identify(object: Watched) -> Result<Domain, RequestError> {
    let domain = match object.0 {
        Ok(object) => Domain::new(object),
        Err(invalid) => Domain::unreadable(invalid.metadata, &invalid.error),
    };
    domain.map_err(|source| RequestError {
        action: "identify the ComputeDomain",
        source: RequestCause::Unidentified(source),
    })
}

fn json_patch(action: &'static str, patch: Value) -> Result<Patch<()>, RequestError> {
    serde_json::from_value(patch)
        .map(Patch::Json)
        .map_err(|source| RequestError {
            action,
            source: RequestCause::Patch(source),
        })
}

fn failing(action: &'static str) -> impl Fn(kube::Error) -> RequestError {
    move |source| RequestError {
        action,
        source: RequestCause::Kube(Box::new(source)),
    }
}

fn absent_is_success(outcome: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match outcome {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        outcome => outcome,
    }
}
