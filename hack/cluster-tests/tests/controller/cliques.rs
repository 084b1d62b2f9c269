//! Domains with prepared claims in the same clique. The test writes the nodes' reports.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::support::{Controller, Fixture, LABEL, run, seconds, within};

/// The controller evaluates reports when none has come for 15 s.
const REPORTED: Duration = Duration::from_secs(25);

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn domains_that_share_a_clique_are_reported_and_counted_until_one_is_deleted() -> Result<()> {
    run(async |on| {
        let controller = on.start().await?;
        for (domain, cliques) in [("first", &["x.1"][..]), ("second", &["x.1", "x.2"])] {
            let uid = on.create_ready(domain).await?;
            for clique in cliques {
                prepare(on, &format!("{domain}-{clique}"), &uid, clique).await?;
            }
        }
        let took = until_counted(&controller, 1, 1).await?;
        for (domain, other) in [("first", "second"), ("second", "first")] {
            let note = on.until_event(domain, "CliqueShared").await;
            let other = format!("{}/{other}", on.namespace);
            ensure!(
                note.contains(&other) && note.contains("x.1"),
                "{domain}: {note:?}"
            );
        }
        let note = on.until_event("second", "CliquesSplit").await;
        ensure!(note.contains("x.1, x.2"), "{note:?}");
        ensure!(!on.has_event("first", "CliquesSplit").await?);

        // The last claim of first: the controller notices without another list.
        delete(on, "first-x.1").await?;
        let over = until_counted(&controller, 0, 1).await?;
        for claim in ["second-x.1", "second-x.2"] {
            delete(on, claim).await?;
        }
        until_counted(&controller, 0, 0).await?;
        Ok(format!(
            "reported after {}, cleared after {} ms",
            seconds(took),
            over.as_millis()
        ))
    })
}

async fn until_counted(controller: &Controller, shared: u64, split: u64) -> Result<Duration> {
    within(REPORTED, "cliques are counted", async || {
        let counted = (
            controller.metric("imex_dra_shared_cliques")?,
            controller.metric("imex_dra_split_domains")?,
        );
        ensure!(
            counted == (shared, split),
            "(shared, split) is {counted:?}, not {:?}",
            (shared, split)
        );
        Ok(())
    })
    .await
}

fn claims(on: &Fixture) -> Api<ResourceClaim> {
    Api::namespaced(on.client.clone(), &on.namespace)
}

/// Creates a claim of this domain: allocated by the scheduler and prepared by a node in this clique.
async fn prepare(on: &Fixture, name: &str, domain: &str, clique: &str) -> Result<()> {
    let node = format!("node-of-{name}");
    let device =
        json!({"driver": "compute-domain.nvidia.com", "pool": node, "device": "channel-0"});
    let claim = json!({
        "metadata": {"name": name, "labels": {LABEL: domain}},
        "spec": {"devices": {"requests": [{
            "name": "channel",
            "exactly": {"deviceClassName": "compute-domain-default-channel.nvidia.com"},
        }]}},
    });
    let claims = claims(on);
    claims
        .create(&PostParams::default(), &serde_json::from_value(claim)?)
        .await?;
    let mut result = device.clone();
    result["request"] = json!("channel");
    let allocated =
        json!({"status": {"allocation": {"devices": {"results": [result], "config": []}}}});
    claims
        .patch_status(name, &PatchParams::default(), &Patch::Merge(allocated))
        .await?;
    let mut report = device;
    report["conditions"] = json!([{
        "type": "Ready", "status": "True", "reason": "Prepared", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    report["data"] = json!({"computeDomain": domain, "clique": clique, "channel": 0});
    let applied = Patch::Apply(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": name}, "status": {"devices": [report]},
    }));
    let plugin = PatchParams::apply("compute-domain-kubelet-plugin").force();
    claims.patch_status(name, &plugin, &applied).await?;
    Ok(())
}

async fn delete(on: &Fixture, claim: &str) -> Result<()> {
    claims(on).delete(claim, &DeleteParams::default()).await?;
    Ok(())
}
