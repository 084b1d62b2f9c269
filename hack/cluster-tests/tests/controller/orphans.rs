//! Orphaned templates: their domain is deleted, has another UID, or is in another namespace.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;

use crate::support::{Fixture, named, run, seconds, template, throughout, within};

const NAMESPACE_ANNOTATION: &str = "resource.nvidia.com/computeDomainNamespace";
const SECONDS: Duration = Duration::from_secs(10);

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_domain_that_lost_its_finalizer_leaves_no_template() -> Result<()> {
    run(async |on| {
        let controller = on.start().await?;
        let names = on.create_many_ready(30).await?;
        let (unseen, seen) = names.split_at(10);
        // The controller notices these only after their deletion.
        controller.pause()?;
        try_join_all(unseen.iter().map(|it| on.delete_without_finalizers(it))).await?;
        controller.resume()?;
        // These are deleted while the controller is working.
        try_join_all(seen.iter().map(|it| on.delete_without_finalizers(it))).await?;
        let took = on.nothing_is_left_within(SECONDS).await?;
        Ok(format!("30 templates deleted after {}", seconds(took)))
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_domain_that_lost_its_finalizer_while_the_controller_was_down_leaves_no_template() -> Result<()>
{
    run(async |on| {
        let controller = on.start().await?;
        let names = on.create_many_ready(30).await?;
        controller.kill();
        try_join_all(names.iter().map(|it| on.delete_without_finalizers(it))).await?;
        controller.start()?;
        let took = on.nothing_is_left_within(SECONDS).await?;
        Ok(format!(
            "30 templates deleted {} after the start",
            seconds(took)
        ))
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_restored_domain_gets_a_template_of_its_new_uid() -> Result<()> {
    run(async |on| {
        let controller = on.start().await?;
        on.create_ready("restored").await?;
        let old = on.template("restored-channel").await?.metadata.uid;
        let old = old.context("a template without UID")?;
        controller.kill();
        on.delete_without_finalizers("restored").await?;
        let uid = on.create(&named("restored")).await?;
        controller.start()?;
        let took = within(SECONDS, "it is Ready with its own template", async || {
            on.is_ready("restored").await?;
            on.is_new_template("restored-channel", &old, &uid).await
        })
        .await?;
        Ok(format!("Ready {} after the start", seconds(took)))
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_copy_in_another_namespace_does_not_affect_the_domain() -> Result<()> {
    run(async |on| {
        on.start().await?;
        let tenant = on.new_namespace("tenant").await?;
        let uid = on.create_ready("domain").await?;
        let copied = [
            ("early", "Workload"),
            ("late", "Workload"),
            ("daemon", "Daemon"),
        ];
        for (name, target) in copied {
            let mut copy = template(name, &uid, target);
            // This distinguishes it from a template whose own domain is deleted.
            let home = (NAMESPACE_ANNOTATION.to_owned(), on.namespace.clone());
            copy.metadata.annotations = Some([home].into());
            on.create_template(&tenant, &copy).await?;
        }
        let before = on.snapshot().await?;
        throughout(Duration::from_secs(2), async || {
            on.is_ready("domain").await?;
            on.is_unchanged_since(&before).await
        })
        .await?;
        copy_goes(on, &tenant, "early").await?;

        on.delete_within(SECONDS, "domain").await?;
        // The tenant still has full control of them.
        throughout(Duration::from_secs(2), async || {
            let left = on.leftovers().await?;
            ensure!(left.len() == 2, "{left:?}");
            Ok(())
        })
        .await?;
        copy_goes(on, &tenant, "late").await?;
        copy_goes(on, &tenant, "daemon").await?;
        Ok(String::new())
    })
}

/// Checks that the owner of a copy can delete it.
async fn copy_goes(on: &Fixture, namespace: &str, name: &str) -> Result<()> {
    on.delete_template(namespace, name).await?;
    within(
        SECONDS,
        &format!("the copy {name} is deleted"),
        async || on.template_is_gone(namespace, name).await,
    )
    .await
    .map(drop)
}
