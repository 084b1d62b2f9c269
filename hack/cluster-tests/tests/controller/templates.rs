//! Templates with a taken name, deleted templates, and templates held by foreign finalizers.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use crate::support::{
    FINALIZER, FOREIGN_FINALIZER, Fixture, named, run, seconds, throughout, within,
};

const SECONDS: Duration = Duration::from_secs(5);

// req: CD-12
#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_domain_becomes_ready_when_a_foreign_template_with_its_name_is_deleted() -> Result<()> {
    run(async |on| {
        on.start().await?;
        let foreign = on.create_foreign_template("domain-channel").await?;
        on.create(&named("domain")).await?;
        let message = on.until_refused("domain", "TemplateNameTaken").await;
        ensure!(message.contains("domain-channel"), "{message:?}");
        on.until_event("domain", "TemplateNameTaken").await;
        throughout(Duration::from_secs(2), async || {
            let now = on.template("domain-channel").await?;
            ensure!(now == foreign, "the foreign template was written: {now:?}");
            Ok(())
        })
        .await?;
        on.delete_template(&on.namespace, "domain-channel").await?;
        let took = on.ready_within(SECONDS, "domain").await?;
        Ok(format!("Ready {} after the name was free", seconds(took)))
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_domain_with_a_taken_name_can_be_deleted_and_the_foreign_template_stays() -> Result<()> {
    run(async |on| {
        on.start().await?;
        let foreign = on.create_foreign_template("domain-channel").await?;
        on.create(&named("domain")).await?;
        on.until_refused("domain", "TemplateNameTaken").await;
        on.delete_within(SECONDS, "domain").await?;
        let now = on.template("domain-channel").await?;
        ensure!(now == foreign, "the foreign template was written: {now:?}");
        Ok(String::new())
    })
}

// req: CD-11
#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_template_deleted_by_hand_is_recreated() -> Result<()> {
    run(async |on| {
        on.start().await?;
        let uid = on.create_ready("domain").await?;
        let old = template_uid(on).await?;
        on.delete_template(&on.namespace, "domain-channel").await?;
        let took = within(SECONDS, "there is a new template", async || {
            on.is_ready("domain").await?;
            on.is_new_template("domain-channel", &old, &uid).await
        })
        .await?;
        Ok(format!("after {}", seconds(took)))
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_template_held_by_a_foreign_finalizer_is_reported_until_it_is_deleted() -> Result<()> {
    run(async |on| {
        on.start().await?;
        let uid = on.create_ready("domain").await?;
        let old = template_uid(on).await?;
        hold(on).await?;
        on.delete_template(&on.namespace, "domain-channel").await?;
        let message = on.until_refused("domain", "TemplateHeld").await;
        ensure!(message.contains("domain-channel"), "{message:?}");
        on.until_event("domain", "TemplateHeld").await;
        release(on).await?;
        let took = within(SECONDS, "there is a new template", async || {
            on.is_ready("domain").await?;
            on.is_new_template("domain-channel", &old, &uid).await
        })
        .await?;
        Ok(format!("Ready {} after its release", seconds(took)))
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_domain_is_deleted_only_after_its_template_that_a_foreign_finalizer_holds() -> Result<()> {
    run(async |on| {
        on.start().await?;
        on.create_ready("domain").await?;
        hold(on).await?;
        on.delete("domain").await?;
        on.until_event("domain", "TemplateHeld").await;
        ensure!(
            on.is_gone("domain").await.is_err(),
            "it was deleted before its template"
        );
        release(on).await?;
        let took = within(SECONDS, "the domain is deleted", async || {
            on.is_gone("domain").await
        })
        .await?;
        Ok(format!("deleted {} after its release", seconds(took)))
    })
}

// req: CD-19
#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_domain_that_foreign_finalizers_hold_is_not_ready() -> Result<()> {
    run(async |on| {
        on.start().await?;
        on.create_ready("domain").await?;
        let both = json!([FINALIZER, FOREIGN_FINALIZER]);
        on.set_domain_finalizers("domain", &both).await?;
        on.delete("domain").await?;
        let message = on.until_refused("domain", "BeingDeleted").await;
        ensure!(message.contains(FOREIGN_FINALIZER), "{message:?}");
        within(SECONDS, "its template is deleted", async || {
            ensure!(on.template("domain-channel").await.is_err(), "it exists");
            Ok(())
        })
        .await?;
        on.set_domain_finalizers("domain", &json!(null)).await?;
        let took = within(SECONDS, "the domain is deleted", async || {
            on.is_gone("domain").await
        })
        .await?;
        Ok(format!("deleted {} after its release", seconds(took)))
    })
}

async fn template_uid(on: &Fixture) -> Result<String> {
    let uid = on.template("domain-channel").await?.metadata.uid;
    uid.context("a template without UID")
}

async fn hold(on: &Fixture) -> Result<()> {
    let both = json!([FINALIZER, FOREIGN_FINALIZER]);
    on.set_template_finalizers("domain-channel", &both).await
}

/// Removes the remaining, foreign finalizer: ours is already removed.
async fn release(on: &Fixture) -> Result<()> {
    let left = on.template("domain-channel").await?.metadata.finalizers;
    ensure!(
        left.as_deref() == Some(&[FOREIGN_FINALIZER.to_owned()]),
        "{left:?}"
    );
    on.set_template_finalizers("domain-channel", &json!(null))
        .await
}
