//! Our templates with wrong content, which are repaired, and those that must be left alone.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kube::api::DynamicObject;
use serde_json::json;

use crate::support::{Controller, Fixture, run, seconds, template, throughout, within};

const SECONDS: Duration = Duration::from_secs(10);

/// A damage to a template.
type Harm = fn(&mut DynamicObject);

const HARMS: [(&str, Harm); 4] = [
    ("class", |template| {
        template.data["spec"]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] =
            json!("gpu.nvidia.com");
    }),
    ("request", |template| {
        let devices = &mut template.data["spec"]["spec"]["devices"];
        devices["requests"][0]["name"] = json!("other");
        devices["config"][0]["requests"][0] = json!("other");
    }),
    ("config", |template| {
        template.data["spec"]["spec"]["devices"]["config"][0]["opaque"]["parameters"]["domainID"] =
            json!("00000000-0000-0000-0000-000000000000");
    }),
    ("no-config", |template| {
        template.data["spec"]["spec"]["devices"]["config"] = json!([]);
    }),
];

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_template_of_ours_with_other_content_is_repaired() -> Result<()> {
    run(async |on| {
        let controller = on.start().await?;
        for (name, _) in HARMS {
            on.create_ready(name).await?;
        }
        let good = on.template("class-channel").await?.data["spec"].clone();
        controller.kill();
        for (name, harm) in HARMS {
            let uid = on.get(name).await?.metadata.uid.context("no UID")?;
            let mut changed = template(&format!("{name}-channel"), &uid, "Workload");
            harm(&mut changed);
            replace(on, &changed).await?;
        }
        controller.start()?;
        let took = within(SECONDS, "all are repaired", async || {
            for (name, _) in HARMS {
                is_repaired(on, name, &good).await?;
            }
            Ok(())
        })
        .await?;
        for (name, _) in HARMS {
            on.until_event(name, "TemplateRepaired").await;
            on.until_ready(name).await;
        }
        Ok(format!("{} repaired after {}", HARMS.len(), seconds(took)))
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_restart_does_not_write_to_intact_domains_and_templates() -> Result<()> {
    run(async |on| {
        let controller = on.start().await?;
        on.create_many_ready(20).await?;
        let before = on.snapshot().await?;
        for _ in 0..3 {
            controller.restart()?;
            knows(&controller, 20).await?;
            throughout(Duration::from_secs(2), async || {
                on.is_unchanged_since(&before).await
            })
            .await?;
        }
        Ok("20 domains, 3 restarts".to_owned())
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_template_of_the_go_drivers_controller_is_not_changed() -> Result<()> {
    run(async |on| {
        let controller = on.start().await?;
        let uid = on.create_ready("domain").await?;
        controller.kill();
        replace(on, &template("domain-channel", &uid, "Workload")).await?;
        let before = on.snapshot().await?;
        controller.start()?;
        knows(&controller, 1).await?;
        throughout(Duration::from_secs(3), async || {
            on.is_ready("domain").await?;
            on.is_unchanged_since(&before).await
        })
        .await?;
        Ok(String::new())
    })
}

/// Waits until the controller counts this many Ready domains: it has listed them.
async fn knows(controller: &Controller, count: u64) -> Result<()> {
    let series = "nvidia_dra_compute_domain_info{status=\"Ready\"}";
    within(
        SECONDS,
        "the controller has listed the domains",
        async || {
            let value = controller.metric(series)?;
            ensure!(value == count, "{series} is {value}");
            Ok(())
        },
    )
    .await
    .map(drop)
}

/// Replaces the template with this name.
async fn replace(on: &Fixture, template: &DynamicObject) -> Result<()> {
    let name = template.metadata.name.as_deref().context("no name")?;
    on.remove_template(name).await?;
    on.create_template(&on.namespace, template).await?;
    Ok(())
}

/// Checks that the domain's template equals another domain's, except for UIDs and names.
async fn is_repaired(on: &Fixture, name: &str, good: &serde_json::Value) -> Result<()> {
    let uid = on.get(name).await?.metadata.uid.context("no UID")?;
    let template = format!("{name}-channel");
    on.is_new_template(&template, "", &uid).await?;
    let spec = &on.template(&template).await?.data["spec"]["spec"];
    let good = &good["spec"];
    for path in ["/devices/requests", "/devices/config/0/requests"] {
        let is = spec.pointer(path);
        ensure!(is == good.pointer(path), "{path} of {template} is {is:?}");
    }
    Ok(())
}
