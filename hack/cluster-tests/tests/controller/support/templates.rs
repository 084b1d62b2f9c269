//! `ResourceClaimTemplates`: ours, changed ones, foreign ones.

use anyhow::{Context as _, Result, ensure};
use cluster_tests::until;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};

use super::objects::{is_gone, set_finalizers};
use super::{FINALIZER, Fixture, LABEL, TARGET_LABEL};

pub(super) fn resource() -> ApiResource {
    let kind = GroupVersionKind::gvk("resource.k8s.io", "v1", "ResourceClaimTemplate");
    ApiResource::from_gvk_with_plural(&kind, "resourceclaimtemplates")
}

/// A template as the Go driver's controller creates it for the domain with this UID; with `target`
/// `Daemon`, it has the labels of its driver-managed mode.
pub(crate) fn template(name: &str, uid: &str, target: &str) -> DynamicObject {
    let parameters = json!({
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomainChannelConfig",
        "domainID": uid,
        "allocationMode": "Single",
    });
    let class = "compute-domain-default-channel.nvidia.com";
    let mut object =
        DynamicObject::new(name, &resource()).data(json!({"spec": {"spec": {"devices": {
            "requests": [{"name": "channel", "exactly": {"deviceClassName": class}}],
            "config": [{
                "requests": ["channel"],
                "opaque": {"driver": "compute-domain.nvidia.com", "parameters": parameters},
            }],
        }}}}));
    let labels = [(LABEL, uid), (TARGET_LABEL, target)];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    object.metadata.labels = Some(labels.into());
    object.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    object
}

impl Fixture {
    pub(crate) fn templates(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &resource())
    }

    /// Every template of the cluster.
    pub(crate) fn all_templates(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &resource())
    }

    /// Creates a template in the namespace.
    pub(crate) async fn create_template(
        &self,
        namespace: &str,
        template: &DynamicObject,
    ) -> Result<DynamicObject> {
        let templates = self.templates(namespace);
        Ok(templates.create(&PostParams::default(), template).await?)
    }

    /// Creates a foreign template, which belongs to no domain.
    pub(crate) async fn create_foreign_template(&self, name: &str) -> Result<DynamicObject> {
        let mut foreign = template(name, "none", "Workload");
        foreign.metadata.labels = None;
        foreign.metadata.finalizers = None;
        self.create_template(&self.namespace, &foreign).await
    }

    /// A template of the test's first namespace.
    pub(crate) async fn template(&self, name: &str) -> Result<DynamicObject> {
        Ok(self.templates(&self.namespace).get(name).await?)
    }

    pub(crate) async fn template_is_gone(&self, namespace: &str, name: &str) -> Result<()> {
        is_gone(&self.templates(namespace), name).await
    }

    pub(crate) async fn delete_template(&self, namespace: &str, name: &str) -> Result<()> {
        self.templates(namespace)
            .delete(name, &DeleteParams::default())
            .await?;
        Ok(())
    }

    /// Deletes a template of the test's first namespace without its finalizers.
    pub(crate) async fn remove_template(&self, name: &str) -> Result<()> {
        self.remove_template_in(&self.namespace, name).await
    }

    /// Removes a template's finalizers, deletes it and waits until it is deleted.
    pub(crate) async fn remove_template_in(&self, namespace: &str, name: &str) -> Result<()> {
        set_finalizers(&self.templates(namespace), name, &json!(null)).await?;
        self.delete_template(namespace, name).await?;
        until(&format!("the template {name} is deleted"), async || {
            self.template_is_gone(namespace, name).await
        })
        .await;
        Ok(())
    }

    pub(crate) async fn set_template_finalizers(&self, name: &str, all: &Value) -> Result<()> {
        Ok(set_finalizers(&self.templates(&self.namespace), name, all).await?)
    }

    /// Checks that the template `name` exists, does not have the UID `before`, is not being deleted, and
    /// belongs to the domain with the UID `domain`.
    pub(crate) async fn is_new_template(
        &self,
        name: &str,
        before: &str,
        domain: &str,
    ) -> Result<()> {
        let template = self.template(name).await?;
        let metadata = &template.metadata;
        ensure!(
            metadata.uid.as_deref() != Some(before),
            "it is the old template"
        );
        ensure!(metadata.deletion_timestamp.is_none(), "it is being deleted");
        let owner = metadata.labels.as_ref().and_then(|all| all.get(LABEL));
        ensure!(
            owner.is_some_and(|uid| uid == domain),
            "its owner is {owner:?}"
        );
        let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
        ensure!(
            finalizers == [FINALIZER],
            "its finalizers are {finalizers:?}"
        );
        let config = template
            .data
            .pointer("/spec/spec/devices/config/0/opaque/parameters");
        let config = config.context("it has no config")?;
        ensure!(config["domainID"] == domain, "its config is {config}");
        Ok(())
    }
}
