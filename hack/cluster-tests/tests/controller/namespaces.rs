//! Namespaces that are deleted with domains in them.

use std::time::Duration;

use anyhow::{Result, ensure};
use kube::api::ListParams;

use crate::support::{Fixture, run, seconds, until, within};

/// Kubernetes waits 5 s before it checks a namespace's content, and 8 s more if an object has a finalizer.
const LIMIT: Duration = Duration::from_secs(30);

// req: CD-23
#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_namespace_with_domains_can_be_deleted() -> Result<()> {
    run(async |on| {
        on.start().await?;
        on.create_many_ready(20).await?;
        on.delete_namespace(&on.namespace).await?;
        let took = gone(on).await?;
        Ok(format!("deleted with 20 domains after {}", seconds(took)))
    })
}

// req: CD-23
#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_namespace_deleted_while_the_controller_is_down_is_removed_after_its_restart() -> Result<()> {
    run(async |on| {
        let controller = on.start().await?;
        on.create_many_ready(20).await?;
        controller.kill();
        on.delete_namespace(&on.namespace).await?;
        until("its domains and templates are being deleted", async || {
            let (domains, templates) = (on.domains(&on.namespace), on.templates(&on.namespace));
            let all = ListParams::default();
            let templates = templates.list(&all).await?;
            for object in domains.list(&all).await?.into_iter().chain(templates) {
                let deleted = object.metadata.deletion_timestamp.is_some();
                ensure!(deleted, "{:?} is not", object.metadata.name);
            }
            Ok(())
        })
        .await;
        controller.start()?;
        let took = gone(on).await?;
        Ok(format!("deleted {} after the start", seconds(took)))
    })
}

async fn gone(on: &Fixture) -> Result<Duration> {
    within(LIMIT, "the namespace is deleted", async || {
        on.namespace_gone(&on.namespace).await
    })
    .await
}
