//! The Go driver's CRD on the server, left by its chart: Helm never replaces a CRD.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::support::{
    GO_CRD, OUR_CRD, apply_crd, delete_crd, named, reason, run, seconds, state, until, within,
};

const A_MINUTE: Duration = Duration::from_secs(60);

// req: CD-3
#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn domains_get_ready_with_the_go_drivers_crd_and_conditions_once_it_is_replaced() -> Result<()> {
    run(async |on| {
        delete_crd().await?;
        apply_crd(&on.client, GO_CRD).await?;
        let controller = on.start().await?;
        on.create_foreign_template("taken-channel").await?;
        for name in ["one", "two", "taken", "goes"] {
            on.create(&named(name)).await?;
        }
        until("they have their status, without conditions", async || {
            for (name, expected) in [("one", "Ready"), ("two", "Ready"), ("taken", "NotReady")] {
                let domain = on.get(name).await?;
                let status = &domain.data["status"];
                ensure!(state(&domain) == Some(expected), "{name}: {status}");
                ensure!(
                    reason(&domain).is_none(),
                    "the server keeps conditions: {status}"
                );
            }
            Ok(())
        })
        .await;
        // The event has what the status cannot have.
        on.until_event("taken", "TemplateNameTaken").await;
        on.delete_within(A_MINUTE, "goes").await?;
        let warnings = controller.lines_with("WARN");
        let warnings = warnings
            .iter()
            .filter(|line| line.contains("CustomResourceDefinition"));
        let count = warnings.count();
        ensure!(count == 1, "{count} warnings mention the older CRD");

        apply_crd(&on.client, OUR_CRD).await?;
        let took = within(A_MINUTE, "they have conditions", async || {
            on.is_ready("one").await?;
            on.is_ready("two").await?;
            let taken = on.get("taken").await?;
            ensure!(
                reason(&taken) == Some("TemplateNameTaken"),
                "{}",
                taken.data
            );
            Ok(())
        })
        .await?;
        on.create_ready("after").await?;
        Ok(format!(
            "conditions {} after the CRD was replaced",
            seconds(took)
        ))
    })
}
