//! Manual edits of objects that the CRD and the API server allow.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use cluster_tests::fixtures::DOMAINS;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::Request;
use serde_json::{Value, json};

use crate::support::{Fixture, LABEL, kubectl, ready_condition, run, seconds, within};

const SECONDS: Duration = Duration::from_secs(10);

/// A time that Kubernetes accepts and that the controller never writes.
const ODD_TIME: &str = "9999-12-31T23:59:59Z";

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn two_domains_can_swap_their_template_names() -> Result<()> {
    run(async |on| {
        on.start().await?;
        let a = on.create_ready("a").await?;
        let b = on.create_ready("b").await?;
        replace_spec(on, "a", "b-channel").await?;
        replace_spec(on, "b", "a-channel").await?;
        let took = within(SECONDS, "they have swapped", async || {
            for (domain, uid, template) in [("a", &a, "b-channel"), ("b", &b, "a-channel")] {
                on.is_ready(domain).await?;
                on.is_new_template(template, "", uid).await?;
            }
            Ok(())
        })
        .await?;
        on.until_event("a", "FormerTemplateDeleted").await;
        Ok(format!("after {}", seconds(took)))
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_copy_beside_the_template_of_a_domain_stays() -> Result<()> {
    run(async |on| {
        on.start().await?;
        let uid = on.create_ready("a").await?;
        let mut copy = on.template("a-channel").await?;
        let own = copy.metadata.managed_fields.clone();
        copy.metadata.name = Some("copy".to_owned());
        copy.metadata.uid = None;
        copy.metadata.resource_version = None;
        let copy = on.create_template(&on.namespace, &copy).await?;
        ensure!(copy.metadata.managed_fields != own, "it looks like ours");
        replace_spec(on, "a", "other").await?;
        within(SECONDS, "the former one is deleted", async || {
            on.is_new_template("other", "", &uid).await?;
            on.template_is_gone(&on.namespace, "a-channel").await
        })
        .await?;
        let copy = on.template("copy").await?;
        ensure!(
            copy.metadata.deletion_timestamp.is_none(),
            "the copy is being deleted"
        );
        Ok(String::new())
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn an_odd_time_in_managed_fields_breaks_neither_watches_nor_a_restart() -> Result<()> {
    run(async |on| {
        let controller = on.start().await?;
        on.create_ready("odd").await?;
        make_odd(on, &on.domains(&on.namespace), "odd").await?;
        make_odd(on, &on.templates(&on.namespace), "odd-channel").await?;
        on.create_ready("watched").await?;
        controller.restart()?;
        on.create_ready("listed").await?;
        kubectl(&[
            "delete",
            DOMAINS,
            "-n",
            &on.namespace,
            "odd",
            "--wait=false",
        ])?;
        let took = within(SECONDS, "odd is deleted", async || on.is_gone("odd").await).await?;
        on.template_is_gone(&on.namespace, "odd-channel").await?;
        Ok(format!("odd deleted in {}", seconds(took)))
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_status_with_an_odd_time_is_written_again() -> Result<()> {
    run(async |on| {
        on.start().await?;
        on.create_ready("domain").await?;
        let mut status = on.get("domain").await?.data["status"].clone();
        status["status"] = json!("NotReady");
        status["conditions"][0]["lastTransitionTime"] = json!(ODD_TIME);
        let patch = Patch::Merge(json!({ "status": status }));
        on.domains(&on.namespace)
            .patch_status("domain", &PatchParams::default(), &patch)
            .await?;
        let took = within(SECONDS, "the status is rewritten", async || {
            on.is_ready("domain").await?;
            let domain = on.get("domain").await?;
            let since = &ready_condition(&domain).context("no condition")?["lastTransitionTime"];
            ensure!(since != ODD_TIME, "the odd time is unchanged");
            Ok(())
        })
        .await?;
        Ok(format!("after {}", seconds(took)))
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_changed_label_of_a_template_is_restored_whether_a_controller_runs_or_not() -> Result<()> {
    run(async |on| {
        let controller = on.start().await?;
        let names = ["removed", "moved", "former", "orphaned"];
        let mut uids = Vec::new();
        for name in names {
            uids.push(on.create_ready(name).await?);
        }
        relabel(on, "removed", &json!(null)).await?;
        relabel(on, "moved", &json!(uids[0])).await?;
        // Just before the domain's spec stops naming the template.
        relabel(on, "former", &json!(null)).await?;
        replace_spec(on, "former", "other").await?;
        let took = within(SECONDS, "both labels are restored", async || {
            is_labelled(on, "removed", &uids[0]).await?;
            is_labelled(on, "moved", &uids[1]).await?;
            on.is_new_template("other", "", &uids[2]).await?;
            on.template_is_gone(&on.namespace, "former-channel").await
        })
        .await?;
        controller.kill();
        relabel(on, "removed", &json!(null)).await?;
        relabel(on, "orphaned", &json!(null)).await?;
        on.delete_without_finalizers("orphaned").await?;
        controller.start()?;
        let later = within(SECONDS, "one is restored and one deleted", async || {
            is_labelled(on, "removed", &uids[0]).await?;
            on.template_is_gone(&on.namespace, "orphaned-channel").await
        })
        .await?;
        let (took, later) = (seconds(took), seconds(later));
        Ok(format!("after {took}; {later} after a start"))
    })
}

/// Gives the template of this domain another label, or none.
async fn relabel(on: &Fixture, domain: &str, uid: &Value) -> Result<()> {
    let patch = Patch::Merge(json!({ "metadata": { "labels": { LABEL: uid } } }));
    let template = format!("{domain}-channel");
    on.templates(&on.namespace)
        .patch(&template, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

async fn is_labelled(on: &Fixture, domain: &str, uid: &str) -> Result<()> {
    let template = on.template(&format!("{domain}-channel")).await?;
    let label = template.labels().get(LABEL);
    ensure!(label.is_some_and(|it| it == uid), "its label is {label:?}");
    Ok(())
}

/// Replaces the spec in two updates: after its removal, the CRD's rule allows any spec.
async fn replace_spec(on: &Fixture, domain: &str, template: &str) -> Result<()> {
    let domains = on.domains(&on.namespace);
    let mut spec = on.get(domain).await?.data["spec"].clone();
    spec["channel"]["resourceClaimTemplate"]["name"] = json!(template);
    for spec in [Value::Null, spec] {
        let patch = Patch::Merge(json!({ "spec": spec }));
        domains
            .patch(domain, &PatchParams::default(), &patch)
            .await?;
    }
    Ok(())
}

/// Writes the odd time to managed fields, as any client may: the API server does not check times of other managers.
async fn make_odd(on: &Fixture, api: &Api<DynamicObject>, name: &str) -> Result<()> {
    let entries = api.get(name).await?.metadata.managed_fields;
    let mut entries = serde_json::to_value(entries)?;
    for entry in entries.as_array_mut().context("no managed fields")? {
        entry["time"] = json!(ODD_TIME);
    }
    // Only managed fields would not be a change.
    let metadata = json!({ "managedFields": entries, "labels": { "example.com/odd": "yes" } });
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    // kube cannot decode the response.
    let request = Request::new(api.resource_url()).patch(name, &PatchParams::default(), &patch)?;
    let stored = on.client.request_text(request).await?;
    ensure!(stored.contains(ODD_TIME), "it is stored as {stored}");
    Ok(())
}
