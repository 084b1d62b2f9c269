//! The controller's objects that are left in the test's namespaces.

use std::time::Duration;

use anyhow::{Result, ensure};
use cluster_tests::within;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams};
use serde_json::json;

use super::objects::set_finalizers;
use super::{FINALIZER, Fixture, LABEL};

impl Fixture {
    /// One line for each domain and each template with our label or finalizer, with its finalizers.
    pub(crate) async fn leftovers(&self) -> Result<Vec<String>> {
        let mut left = Vec::new();
        for namespace in self.namespaces() {
            let all = ListParams::default();
            let domains = self.domains(&namespace).list(&all).await?.items;
            left.extend(domains.iter().map(|it| describe("domain", it)));
            let templates = self.templates(&namespace).list(&all).await?.items;
            let ours = templates.iter().filter(|it| is_ours(it));
            left.extend(ours.map(|it| describe("template", it)));
        }
        Ok(left)
    }

    /// Waits until there are none. Returns how long it took.
    pub(crate) async fn nothing_is_left_within(&self, limit: Duration) -> Result<Duration> {
        within(limit, "no objects of the controller are left", async || {
            let left = self.leftovers().await?;
            ensure!(left.is_empty(), "{} objects: {left:?}", left.len());
            Ok(())
        })
        .await
    }

    /// Deletes all domains and templates of the namespace despite finalizers.
    pub(super) async fn strip_all(&self, namespace: &str) {
        strip(&self.domains(namespace)).await;
        strip(&self.templates(namespace)).await;
    }
}

fn is_ours(template: &DynamicObject) -> bool {
    template.labels().contains_key(LABEL) || template.finalizers().iter().any(|it| it == FINALIZER)
}

fn describe(kind: &str, object: &DynamicObject) -> String {
    format!(
        "{kind} {}/{} {} deleted {:?} finalizers {:?} status {}",
        object.namespace().unwrap_or_default(),
        object.name_any(),
        object.uid().unwrap_or_default(),
        object.metadata.deletion_timestamp.as_ref().map(|it| it.0),
        object.finalizers(),
        object.data["status"],
    )
}

/// Ignores errors: they show in the next test.
async fn strip(api: &Api<DynamicObject>) {
    let Ok(objects) = api.list(&ListParams::default()).await else {
        return;
    };
    for object in objects {
        let name = object.name_any();
        drop(api.delete(&name, &DeleteParams::default()).await);
        drop(set_finalizers(api, &name, &json!(null)).await);
    }
}
