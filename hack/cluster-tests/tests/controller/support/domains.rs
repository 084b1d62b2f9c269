//! `ComputeDomains` as JSON: tests also write domains that do not match our types.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use cluster_tests::{until, within};
use futures_util::future::try_join_all;
use kube::ResourceExt as _;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, PostParams,
};
use serde_json::{Value, json};

use super::objects::{is_gone, set_finalizers};
use super::{FOREIGN_FINALIZER, Fixture};

pub(super) fn resource() -> ApiResource {
    let kind = GroupVersionKind::gvk("resource.nvidia.com", "v1beta1", "ComputeDomain");
    ApiResource::from_gvk_with_plural(&kind, "computedomains")
}

/// A domain with this name for its template.
pub(crate) fn domain(name: &str, template: &str) -> DynamicObject {
    DynamicObject::new(name, &resource()).data(json!({
        "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": template}}},
    }))
}

/// A domain whose template is named `NAME-channel`.
pub(crate) fn named(name: &str) -> DynamicObject {
    domain(name, &format!("{name}-channel"))
}

/// `status.status`, if there is one.
pub(crate) fn state(domain: &DynamicObject) -> Option<&str> {
    domain.data.pointer("/status/status")?.as_str()
}

/// The condition `Ready`.
pub(crate) fn ready_condition(domain: &DynamicObject) -> Option<&Value> {
    let conditions = domain.data.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|it| it["type"] == "Ready")
}

/// The reason of the condition `Ready`.
pub(crate) fn reason(domain: &DynamicObject) -> Option<&str> {
    ready_condition(domain)?["reason"].as_str()
}

impl Fixture {
    pub(crate) fn domains(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &resource())
    }

    /// Creates a domain in the test's first namespace, and returns its UID.
    pub(crate) async fn create(&self, domain: &DynamicObject) -> Result<String> {
        self.create_in(&self.namespace, domain).await
    }

    pub(crate) async fn create_in(
        &self,
        namespace: &str,
        domain: &DynamicObject,
    ) -> Result<String> {
        let created = self
            .domains(namespace)
            .create(&PostParams::default(), domain)
            .await?;
        created.metadata.uid.context("a domain without UID")
    }

    /// Creates `named(name)`, and waits until it is Ready. Returns its UID.
    pub(crate) async fn create_ready(&self, name: &str) -> Result<String> {
        let uid = self.create(&named(name)).await?;
        self.until_ready(name).await;
        Ok(uid)
    }

    /// Creates domains `d0`, `d1` and so on at the same time, and returns their names.
    pub(crate) async fn create_many(&self, count: usize) -> Result<Vec<String>> {
        let names: Vec<_> = (0..count).map(|i| format!("d{i}")).collect();
        let domains: Vec<_> = names.iter().map(|name| named(name)).collect();
        try_join_all(domains.iter().map(|domain| self.create(domain))).await?;
        Ok(names)
    }

    /// As [`Fixture::create_many`], and waits until all are Ready.
    pub(crate) async fn create_many_ready(&self, count: usize) -> Result<Vec<String>> {
        let names = self.create_many(count).await?;
        for name in &names {
            self.until_ready(name).await;
        }
        Ok(names)
    }

    pub(crate) async fn get(&self, name: &str) -> Result<DynamicObject> {
        Ok(self.domains(&self.namespace).get(name).await?)
    }

    /// Checks that the domain is Ready with the reason Admitted.
    pub(crate) async fn is_ready(&self, name: &str) -> Result<()> {
        let domain = self.get(name).await?;
        ensure!(
            (state(&domain), reason(&domain)) == (Some("Ready"), Some("Admitted")),
            "the status of {name} is {}",
            domain.data["status"]
        );
        Ok(())
    }

    pub(crate) async fn until_ready(&self, name: &str) {
        until(&format!("{name} is Ready"), async || {
            self.is_ready(name).await
        })
        .await;
    }

    /// Waits until the domain is Ready; returns how long it took.
    pub(crate) async fn ready_within(&self, limit: Duration, name: &str) -> Result<Duration> {
        let what = format!("{name} is Ready");
        within(limit, &what, async || self.is_ready(name).await).await
    }

    /// Waits until the domain is `NotReady` for this reason, and returns the message.
    pub(crate) async fn until_refused(&self, name: &str, expected: &str) -> String {
        until(&format!("{name} is NotReady, {expected}"), async || {
            let domain = self.get(name).await?;
            let condition = ready_condition(&domain).cloned().unwrap_or_default();
            ensure!(
                state(&domain) == Some("NotReady")
                    && condition["status"] == "False"
                    && condition["reason"] == expected,
                "its status is {}",
                domain.data["status"]
            );
            let message = condition["message"].as_str();
            message.map(str::to_owned).context("no message")
        })
        .await
    }

    /// Deletes a domain of the test's first namespace, without waiting.
    pub(crate) async fn delete(&self, name: &str) -> Result<()> {
        self.domains(&self.namespace)
            .delete(name, &DeleteParams::default())
            .await?;
        Ok(())
    }

    pub(crate) async fn is_gone(&self, name: &str) -> Result<()> {
        is_gone(&self.domains(&self.namespace), name).await
    }

    /// Deletes a domain and waits until it is deleted. Returns how long that took.
    pub(crate) async fn delete_within(&self, limit: Duration, name: &str) -> Result<Duration> {
        self.delete(name).await?;
        let what = format!("{name} is deleted");
        within(limit, &what, async || self.is_gone(name).await).await
    }

    /// Deletes a domain and removes its finalizers, as an impatient user would. A running controller may
    /// be faster.
    pub(crate) async fn delete_without_finalizers(&self, name: &str) -> Result<()> {
        self.delete(name).await?;
        match set_finalizers(&self.domains(&self.namespace), name, &json!(null)).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            other => Ok(other?),
        }
    }

    pub(crate) async fn set_domain_finalizers(&self, name: &str, all: &Value) -> Result<()> {
        Ok(set_finalizers(&self.domains(&self.namespace), name, all).await?)
    }

    /// Deletes the test's domains with a foreign finalizer, and removes that finalizer after ours is
    /// removed.
    pub(crate) async fn release_foreign_finalizers(&self) -> Result<()> {
        let domains = self.domains(&self.namespace);
        for domain in domains.list(&ListParams::default()).await? {
            if !domain.finalizers().iter().any(|it| it == FOREIGN_FINALIZER) {
                continue;
            }
            let name = domain.name_any();
            self.delete(&name).await?;
            until(&format!("our finalizer of {name} is removed"), async || {
                let left = domains.get(&name).await?.metadata.finalizers;
                let left = left.unwrap_or_default();
                ensure!(left == [FOREIGN_FINALIZER], "they are {left:?}");
                Ok(())
            })
            .await;
            set_finalizers(&domains, &name, &json!(null)).await?;
        }
        Ok(())
    }
}
