//! Deletion of a domain while claims from its template exist.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, PostParams};
use serde_json::json;

use crate::support::{Fixture, LABEL, run, until};

// req: CD-21
#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_domain_deleted_while_claims_exist_reports_them_and_is_deleted() -> Result<()> {
    run(async |on| {
        on.start().await?;
        let uid = on.create_ready("domain").await?;
        on.create_ready("other").await?;
        let claim = create_claim(on, "domain-channel").await?;
        let (labels, annotations) = (claim.labels(), claim.annotations());
        ensure!(labels.get(LABEL) == Some(&uid), "its labels are {labels:?}");
        let name = annotations.get("resource.nvidia.com/computeDomainName");
        ensure!(name.is_some_and(|it| it == "domain"), "{annotations:?}");

        let took = on.delete_within(Duration::from_secs(10), "domain").await?;
        let note = on.until_event("domain", "ClaimsInUse").await;
        ensure!(
            note.contains(&claim.name_any()),
            "{note:?} does not name the claim"
        );
        // This domain has no claims.
        on.delete_within(Duration::from_secs(10), "other").await?;
        let about_other = on.has_event("other", "ClaimsInUse").await?;
        ensure!(!about_other, "a domain without claims has the event, too");
        Ok(format!(
            "the domain was deleted after {} ms",
            took.as_millis()
        ))
    })
}

/// Creates a pod that is never scheduled; returns the claim that Kubernetes creates for it.
async fn create_claim(on: &Fixture, template: &str) -> Result<ResourceClaim> {
    let pod = json!({
        "metadata": {"name": "pod"},
        "spec": {
            "schedulerName": "none",
            "resourceClaims": [{"name": "channel", "resourceClaimTemplateName": template}],
            "containers": [{
                "name": "main", "image": "localhost/pause:1",
                "resources": {"claims": [{"name": "channel"}]},
            }],
        },
    });
    let pod: Pod = serde_json::from_value(pod)?;
    let pods: Api<Pod> = Api::namespaced(on.client.clone(), &on.namespace);
    until("the pod is accepted", async || {
        // The namespace's service account is created shortly after the namespace.
        pods.create(&PostParams::default(), &pod)
            .await
            .map_err(Into::into)
    })
    .await;
    let claims: Api<ResourceClaim> = Api::namespaced(on.client.clone(), &on.namespace);
    let claim = until("the pod's claim is created", async || {
        let all = claims.list(&ListParams::default()).await?.items;
        all.into_iter().next().context("there is none")
    })
    .await;
    Ok(claim)
}
