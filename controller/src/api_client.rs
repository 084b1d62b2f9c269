pub(crate) mod claims;
pub(crate) mod clique_labels;
mod go_daemons;
mod group_lease;
mod group_pools;
mod leases;
mod members;
mod status;

use std::sync::Arc;

use compute_domain_api::crd::ComputeDomain;
use compute_domain_api::names::{DOMAIN_LABEL, DRIVER_NAME};
use compute_domain_core::{
    ChannelLease, Domain, NodeCount, TemplateRef, UnidentifiedError, WRITER, is_without_clique,
    may_have_lost_label, restored_label,
};
use daemon_runtime::{Part, RawObject, for_each_page};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::resource::v1::{ResourceClaimTemplate, ResourceSlice};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::error_boundary::InvalidObject;
use kube::core::{PartialObjectMeta, Status};
use kube::{Api, Client, Resource as _};
use serde_json::Value;

use crate::fence::Fence;

/// A ComputeDomain as returned by the API server. An object that does not match the CRD has its metadata and the
/// error.
pub(crate) type RawDomain = RawObject<ComputeDomain>;

/// The metadata of an object as returned by the API server.
pub(crate) type RawMetadata<K> = RawObject<PartialObjectMeta<K>>;

/// A Lease as returned by the API server.
pub(crate) type RawLease = RawObject<Lease>;

/// A template as returned by the API server.
pub(crate) type RawTemplate = RawObject<ResourceClaimTemplate>;

/// The controller's name: reporter of events, and field manager of the status. The Go driver's controller uses the
/// same one.
pub(crate) const CONTROLLER_NAME: &str = "compute-domain-controller";

/// The controller's API requests. `compute-domain-core` decides which are sent. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ApiClient {
    client: Client,
    fence: Fence,
    /// Namespace of the channels' Leases.
    namespace: Arc<str>,
}

/// A failed request. Every failure can be retried.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action}")]
pub(crate) struct RequestError {
    action: &'static str,
    #[source]
    source: Cause,
}

#[derive(Debug, thiserror::Error)]
enum Cause {
    /// The API server's answer. kube's own text repeats it.
    #[error("the API server responded with {}: {}", .0.code, .0.message)]
    Refused(Box<Status>),
    #[error(transparent)]
    Kube(Box<kube::Error>),
    #[error(transparent)]
    Patch(serde_json::Error),
    #[error(transparent)]
    Unidentified(UnidentifiedError),
    #[error(transparent)]
    Undecodable(Box<InvalidObject>),
    #[error(
        "the API server stored the object without the change; a policy or webhook reverts the change"
    )]
    Reverted,
    #[error("another replica may hold the lease")]
    Fenced,
}

// === impl RequestError ===

impl RequestError {
    /// The API server's answer; `None` if there was none.
    pub(crate) fn status(&self) -> Option<&Status> {
        match &self.source {
            Cause::Refused(status) => Some(status),
            _ => None,
        }
    }

    /// A stable name of the cause, for metrics.
    pub(crate) fn code(&self) -> String {
        match &self.source {
            Cause::Refused(status) => return status.code.to_string(),
            Cause::Kube(_) => "no-answer",
            Cause::Patch(_) => "bad-patch",
            Cause::Unidentified(_) => "unidentified",
            Cause::Reverted => "reverted",
            Cause::Undecodable(_) => "undecodable",
            Cause::Fenced => "fenced",
        }
        .to_owned()
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.status().is_some_and(Status::is_not_found)
    }

    /// Whether a precondition of the request failed: the object has changed, or another one has its name.
    pub(crate) fn is_outdated(&self) -> bool {
        self.status()
            .is_some_and(|status| status.is_conflict() || status.is_invalid())
    }

    pub(crate) fn is_already_exists(&self) -> bool {
        self.status().is_some_and(Status::is_already_exists)
    }
}

// === impl ApiClient ===

impl ApiClient {
    /// Creates a client that writes only while `fence` is open. `namespace` is the driver's own.
    pub(crate) fn new(client: Client, fence: Fence, namespace: &str) -> Self {
        Self {
            client,
            fence,
            namespace: namespace.into(),
        }
    }

    /// Reads the domain of this name; `None` if it does not exist.
    pub(crate) async fn get_domain(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Domain>, RequestError> {
        let object = self.domains(namespace).get_opt(name).await;
        let object = object.map_err(failed_to("read the ComputeDomain"))?;
        object.map(identify).transpose()
    }

    /// Reads the domain of this UID in this namespace; `None` if it does not exist. For templates of the Go driver's
    /// controller, which lack the name, and, in all namespaces (empty), for edited Leases.
    pub(crate) async fn find_domain(
        &self,
        namespace: &str,
        uid: &str,
    ) -> Result<Option<Domain>, RequestError> {
        let mut found = None;
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        let url_path = ComputeDomain::url_path(&(), namespace);
        let visit = |page: Vec<RawDomain>| {
            let mut all = page.into_iter().map(identify);
            found = all.find(|it| it.as_ref().map_or(true, |it| it.uid().as_str() == uid));
            found.is_none()
        };
        for_each_page(
            &self.client,
            &url_path,
            Part::Whole,
            ListParams::default(),
            visit,
        )
        .await
        .map_err(failed_to("list the ComputeDomains of a namespace"))?;
        found.transpose()
    }

    /// Lists the templates without the label of a ComputeDomain that have our finalizer.
    pub(crate) async fn find_unlabelled(&self) -> Result<Vec<TemplateRef>, RequestError> {
        let mut found = Vec::new();
        let url_path = ResourceClaimTemplate::url_path(&(), None);
        let unlabelled = ListParams::default().labels(&format!("!{DOMAIN_LABEL}"));
        let visit = |page: Vec<RawMetadata<ResourceClaimTemplate>>| {
            let all = page.iter().map(RawMetadata::meta);
            let lost = all.filter(|it| may_have_lost_label(it));
            found.extend(lost.map(TemplateRef::new));
            true
        };
        for_each_page(&self.client, &url_path, Part::Metadata, unlabelled, visit)
            .await
            .map_err(failed_to(
                "list the ResourceClaimTemplates without a ComputeDomain label",
            ))?;
        Ok(found)
    }

    /// Counts the nodes that publish devices of our driver, one slice each, and those with the taint of nodes without
    /// a clique.
    pub(crate) async fn count_nodes(&self) -> Result<NodeCount, RequestError> {
        let mut count = NodeCount::default();
        let url_path = ResourceSlice::url_path(&(), None);
        let ours = ListParams::default().fields(&format!("spec.driver={DRIVER_NAME}"));
        let visit = |page: Vec<RawObject<ResourceSlice>>| {
            // A slice that cannot be decoded is not the plugin's.
            let readable = page.into_iter().filter_map(|slice| slice.0.ok());
            for slice in readable.filter(|slice| slice.spec.node_name.is_some()) {
                count.all += 1;
                count.without_clique += usize::from(is_without_clique(&slice));
            }
            true
        };
        for_each_page(&self.client, &url_path, Part::Whole, ours, visit)
            .await
            .map_err(failed_to("list the ResourceSlices of the driver"))?;
        Ok(count)
    }

    /// Reads the template of this name; `None` if it does not exist.
    pub(crate) async fn get_template(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<ResourceClaimTemplate>, RequestError> {
        let action = "read the ResourceClaimTemplate";
        let template = self.templates(namespace).get_opt(name).await;
        let template = template.map_err(failed_to(action))?;
        template
            .map(|template| decoded(action, template))
            .transpose()
    }

    /// Changes the domain's finalizers with a JSON patch.
    pub(crate) async fn patch_domain_finalizers(
        &self,
        domain: &Domain,
        patch: Value,
    ) -> Result<Domain, RequestError> {
        let action = "change the finalizers of the ComputeDomain";
        self.check_fence(action)?;
        let patch = json_patch(action, patch)?;
        let domains = self.domains(domain.namespace());
        let patched = domains.patch(domain.name(), &writer(), &patch).await;
        identify(patched.map_err(failed_to(action))?)
    }

    /// Creates a template. Not an apply, which would take over a template that another client has created meanwhile.
    pub(crate) async fn create_template(
        &self,
        template: &ResourceClaimTemplate,
    ) -> Result<ResourceClaimTemplate, RequestError> {
        self.post_template(template, false).await
    }

    /// Returns what the API server would store for this template, by a dry run.
    pub(crate) async fn dry_run_template(
        &self,
        template: &ResourceClaimTemplate,
    ) -> Result<ResourceClaimTemplate, RequestError> {
        let mut template = template.clone();
        // With a generated name, because the template's own name exists.
        template.metadata.name = None;
        template.metadata.generate_name = Some("compute-domain-dry-run-".to_owned());
        self.post_template(&template, true).await
    }

    async fn post_template(
        &self,
        template: &ResourceClaimTemplate,
        dry_run: bool,
    ) -> Result<ResourceClaimTemplate, RequestError> {
        let action = "create the ResourceClaimTemplate";
        self.check_fence(action)?;
        let namespace = template.metadata.namespace.as_deref().unwrap_or_default();
        let params = PostParams {
            dry_run,
            field_manager: Some(WRITER.to_owned()),
        };
        let templates = Api::namespaced(self.client.clone(), namespace);
        let created = templates.create(&params, template).await;
        created.map_err(failed_to(action))
    }

    /// Deletes this template, but not another one of the same name. Returns it if finalizers keep it.
    pub(crate) async fn delete_template(
        &self,
        template: &TemplateRef,
    ) -> Result<Option<ResourceClaimTemplate>, RequestError> {
        let action = "delete the ResourceClaimTemplate";
        self.check_fence(action)?;
        let params = delete_only(&template.uid, None);
        let templates = self.templates(&template.namespace);
        let deleted = templates.delete(&template.name, &params).await;
        let remaining = deleted.map_err(failed_to(action))?.left();
        remaining
            .map(|template| decoded(action, template))
            .transpose()
    }

    /// Changes a template's finalizers with a JSON patch.
    pub(crate) async fn patch_template_finalizers(
        &self,
        template: &TemplateRef,
        patch: Value,
    ) -> Result<ResourceClaimTemplate, RequestError> {
        let action = "remove the finalizer from the ResourceClaimTemplate";
        self.patch_template(action, template, patch).await
    }

    /// Restores the labels of our template and returns it; `None` if they are correct or it is not ours. Fails if the
    /// labels are unchanged afterwards.
    pub(crate) async fn restore_label(
        &self,
        template: &ResourceClaimTemplate,
    ) -> Result<Option<ResourceClaimTemplate>, RequestError> {
        let action = "restore the label of the ResourceClaimTemplate";
        let Some(patch) = restored_label(template) else {
            return Ok(None);
        };
        let template = TemplateRef::new(&template.metadata);
        let restored = self.patch_template(action, &template, patch).await?;
        if restored_label(&restored).is_some() {
            return Err(RequestError {
                action,
                source: Cause::Reverted,
            });
        }
        Ok(Some(restored))
    }

    async fn patch_template(
        &self,
        action: &'static str,
        template: &TemplateRef,
        patch: Value,
    ) -> Result<ResourceClaimTemplate, RequestError> {
        self.check_fence(action)?;
        let patch = json_patch(action, patch)?;
        let templates = self.templates(&template.namespace);
        let patched = templates.patch(&template.name, &writer(), &patch).await;
        decoded(action, patched.map_err(failed_to(action))?)
    }

    fn domains(&self, namespace: &str) -> Api<RawDomain> {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn templates(&self, namespace: &str) -> Api<RawTemplate> {
        Api::namespaced(self.client.clone(), namespace)
    }

    // req: CD-26
    fn check_fence(&self, action: &'static str) -> Result<(), RequestError> {
        if self.fence.is_open() {
            return Ok(());
        }
        Err(RequestError {
            action,
            source: Cause::Fenced,
        })
    }
}

/// Converts an object of the API server into a domain.
pub(crate) fn identify(object: RawDomain) -> Result<Domain, RequestError> {
    let domain = match object.0 {
        Ok(object) => Domain::new(object),
        Err(invalid) => Domain::unreadable(invalid.metadata, &invalid.error),
    };
    domain.map_err(|source| RequestError {
        action: "identify the ComputeDomain",
        source: Cause::Unidentified(source),
    })
}

/// Converts a Lease; `None` if it is not a channel's.
pub(crate) fn observed_lease(lease: &RawLease) -> Option<ChannelLease> {
    match &lease.0 {
        Ok(lease) => ChannelLease::new(lease),
        Err(_) => ChannelLease::undecodable(lease.meta()),
    }
}

fn decoded(
    action: &'static str,
    template: RawTemplate,
) -> Result<ResourceClaimTemplate, RequestError> {
    template.0.map_err(|source| RequestError {
        action,
        source: Cause::Undecodable(Box::new(source)),
    })
}

/// Parameters to delete only the object of this UID, and only this version if one is given.
// req: CD-27
fn delete_only(uid: &str, resource_version: Option<&str>) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: resource_version.map(str::to_owned),
        }),
        ..DeleteParams::default()
    }
}

/// Whether the object existed; a missing object is not an error.
fn was_there<T>(action: &'static str, answer: kube::Result<T>) -> Result<bool, RequestError> {
    match answer {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(false),
        Err(err) => Err(failed_to(action)(err)),
    }
}

fn writer() -> PatchParams {
    PatchParams {
        field_manager: Some(WRITER.to_owned()),
        ..PatchParams::default()
    }
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
        source: match source {
            kube::Error::Api(status) => Cause::Refused(status),
            other => Cause::Kube(Box::new(other)),
        },
    }
}
