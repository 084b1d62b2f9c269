//! Health across kubelet's restart, and with a kubelet that does not show it.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use dra_kubelet::Health;

use crate::support::{Node, Script, health, run, seconds, throughout, until};
use crate::together::health::{NO_HEALTH, shown, shows_health};

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn health_is_reported_again_after_kubelets_restart() -> Result<()> {
    run("20", async |on| {
        if !shows_health(on).await? {
            return Ok(NO_HEALTH.to_owned());
        }
        let running = on.serve(&Script::default()).await?;
        running
            .health
            .send_replace(vec![health("d0", Health::Healthy, "")]);
        on.start_pod("p").await?;
        on.until_running("p").await;
        on.kubelet.restart().await?;
        running.until_registered(2).await;
        running
            .health
            .send_replace(vec![health("d0", Health::Unhealthy, "")]);
        let started = Instant::now();
        until("the pod shows it", async || {
            let (word, _) = shown(on, "p").await?;
            ensure!(word == "Unhealthy", "it shows {word}");
            Ok(())
        })
        .await;
        let took = started.elapsed();
        on.delete_and_wait("p").await?;
        Ok(format!("shown after {}", seconds(took)))
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn without_the_feature_gate_no_health_is_shown() -> Result<()> {
    run("20", async |on| {
        // The second depends on the first, and older kubelets do not have it.
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
    let running = on.serve(&Script::default()).await?;
    running
        .health
        .send_replace(vec![health("d0", Health::Healthy, "")]);
    on.start_pod("p").await?;
    on.until_running("p").await;
    throughout(Duration::from_secs(15), async || {
        ensure!(shown(on, "p").await.is_err(), "health is shown");
        Ok(())
    })
    .await?;
    let streams = running.script.log().streams.1;
    on.delete_and_wait("p").await?;
    Ok(format!(
        "nothing for 15 s; kubelet opened {streams} streams"
    ))
}
