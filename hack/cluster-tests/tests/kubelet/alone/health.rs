//! Device health across kubelet's restart, and with a kubelet that does not show it.

use std::time::Duration;

use anyhow::{Result, ensure};
use dra_kubelet::Health;

use crate::support::{NO_HEALTH, Node, run, seconds, throughout};

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn health_is_reported_again_after_kubelets_restart() -> Result<()> {
    run("20", async |on| {
        if !on.shows_health().await? {
            return Ok(NO_HEALTH.to_owned());
        }
        let running = on.serve_healthy_pod("p").await?;
        on.kubelet.restart().await?;
        running.until_registered(2).await;
        running.report_health(Health::Unhealthy, "");
        let took = on.until_shown("p", "Unhealthy").await;
        on.delete_and_wait("p").await?;
        Ok(format!("shown after {}", seconds(took)))
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn without_the_feature_gate_no_health_is_shown() -> Result<()> {
    run("20", async |on| {
        // The second gate depends on the first, and older kubelets lack it.
        let mut gates = Vec::new();
        for gate in ["ResourceHealthStatus", "ResourceHealthStatusMessage"] {
            if on.gate(gate).await?.is_some() {
                gates.push(format!("{gate}: false"));
            }
        }
        on.kubelet
            .restart_with_gates(Some(&gates.join(", ")))
            .await?;
        let outcome = no_health_is_shown(on).await;
        on.kubelet.restart_with_gates(None).await?;
        outcome
    })
}

async fn no_health_is_shown(on: &Node) -> Result<String> {
    let running = on.serve_healthy_pod("p").await?;
    throughout(Duration::from_secs(15), async || {
        ensure!(on.health_of("p").await.is_err(), "health is shown");
        Ok(())
    })
    .await?;
    let streams = running.script.log().streams.1;
    on.delete_and_wait("p").await?;
    Ok(format!(
        "nothing for 15 s; kubelet opened {streams} streams"
    ))
}
