//! Leftovers of the Go driver: objects of its driver-managed mode, and its controller still running
//! beside ours.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kube::api::{DynamicObject, PostParams};
use serde_json::json;

use crate::support::{Fixture, Setup, run, seconds, template, throughout};

const SECONDS: Duration = Duration::from_secs(10);

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_daemon_template_in_a_namespace_of_the_driver_is_reported_and_not_changed() -> Result<()> {
    run(async |on| {
        let driver = on.new_namespace("driver").await?;
        let controller = on.start_with(in_namespaces(&driver)).await?;
        let uid = on.create_ready("domain").await?;
        let name = format!("computedomain-daemon-{uid}");
        let daemon = template(&name, &uid, "Daemon");
        let daemon = on.create_template(&driver, &daemon).await?;
        let message = on.until_refused("domain", "DriverManagedLeftovers").await;
        for part in ["kubectl", &name, &driver] {
            ensure!(message.contains(part), "{part} is not in {message:?}");
        }
        on.until_event("domain", "DriverManagedLeftovers").await;
        controller.restart()?;
        controller.until_ready().await;
        ensure!(
            !controller.lines_with(&name).is_empty(),
            "the log does not name it"
        );
        on.delete_within(SECONDS, "domain").await?;
        stays(on, &driver, &daemon).await?;
        on.remove_template_in(&driver, &name).await?;
        Ok(String::new())
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_daemon_template_in_a_tenants_namespace_is_ignored() -> Result<()> {
    run(async |on| {
        let driver = on.new_namespace("driver").await?;
        let tenant = on.new_namespace("tenant").await?;
        on.start_with(in_namespaces(&driver)).await?;
        let uid = on.create_ready("domain").await?;
        let name = format!("computedomain-daemon-{uid}");
        let daemon = template(&name, &uid, "Daemon");
        let daemon = on.create_template(&tenant, &daemon).await?;
        let before = on.snapshot().await?;
        throughout(Duration::from_secs(2), async || {
            on.is_unchanged_since(&before).await
        })
        .await?;
        let took = on.delete_within(SECONDS, "domain").await?;
        stays(on, &tenant, &daemon).await?;
        on.remove_template_in(&tenant, &name).await?;
        Ok(format!("the domain was deleted after {}", seconds(took)))
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_second_controller_that_writes_is_reported() -> Result<()> {
    run(async |on| {
        on.start().await?;
        on.create_ready("domain").await?;
        // The Go driver's controller replaces the whole status.
        let params = PostParams {
            field_manager: Some("compute-domain-controller".to_owned()),
            ..PostParams::default()
        };
        let mut domain = on.get("domain").await?;
        domain.data["status"]["status"] = json!("NotReady");
        domain.data["status"]["nodes"] = json!([
            {"name": "n1", "ipAddress": "10.0.0.1", "cliqueID": "", "index": -1, "status": "NotReady"},
        ]);
        on.domains(&on.namespace)
            .replace_status("domain", &params, &domain)
            .await?;
        let note = on.until_event("domain", "SecondController").await;
        let took = on.ready_within(SECONDS, "domain").await?;
        Ok(format!("Ready again after {}: {note}", seconds(took)))
    })
}

/// Setup for a driver in the test's namespace and this one.
fn in_namespaces(additional: &str) -> Setup {
    Setup {
        additional_namespaces: additional.to_owned(),
        ..Setup::default()
    }
}

/// Checks that the template is neither written nor deleted.
async fn stays(on: &Fixture, namespace: &str, template: &DynamicObject) -> Result<()> {
    let name = template.metadata.name.as_deref().context("no name")?;
    throughout(Duration::from_secs(2), async || {
        let now = on.templates(namespace).get(name).await?;
        ensure!(now == *template, "it was written: {now:?}");
        Ok(())
    })
    .await
}
