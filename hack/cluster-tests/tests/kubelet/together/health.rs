//! Devices' health in the status of pods.

use std::time::Duration;

use anyhow::{Result, ensure};
use dra_kubelet::Health;

use crate::support::{
    AllocationResult, NO_HEALTH, ScriptedDriver, TWICE, allocated, health, run, seconds,
};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_devices_health_is_shown_in_its_pods_status_as_it_changes() -> Result<()> {
    run("20", async |on| {
        if !on.shows_health().await? {
            return Ok(NO_HEALTH.to_owned());
        }
        let running = on.serve_healthy_pod("p").await?;
        on.until_shown("p", "Healthy").await;
        let mut took = Vec::new();
        for (verdict, word) in [
            (Health::Unhealthy, "Unhealthy"),
            (Health::Healthy, "Healthy"),
        ] {
            running.report_health(verdict, "a reason");
            took.push(on.until_shown("p", word).await);
        }
        ensure!(took.iter().all(|took| *took < LIMIT), "{took:?}");
        on.delete_and_wait("p").await?;
        let took: Vec<_> = took.into_iter().map(seconds).collect();
        Ok(format!("shown after {}", took.join(" and ")))
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn health_becomes_unknown_when_the_driver_stops_and_known_when_it_is_back() -> Result<()> {
    run("20", async |on| {
        if !on.shows_health().await? {
            return Ok(NO_HEALTH.to_owned());
        }
        let running = on.serve_healthy_pod("p").await?;
        on.until_shown("p", "Healthy").await;
        running.shutdown().await;
        let unknown = on.until_shown("p", "Unknown").await;
        ensure!(unknown < 2 * LIMIT, "{unknown:?}");
        let running = on.serve(&ScriptedDriver::default()).await?;
        running.report_health(Health::Unhealthy, "");
        let known = on.until_shown("p", "Unhealthy").await;
        on.start_pod("q").await?;
        on.until_running("q").await;
        on.delete_and_wait("p").await?;
        on.delete_and_wait("q").await?;
        Ok(format!(
            "Unknown after {}, known {} after the return",
            seconds(unknown),
            seconds(known)
        ))
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn several_pods_show_the_health_of_their_own_devices() -> Result<()> {
    run("20", async |on| {
        if !on.shows_health().await? {
            return Ok(NO_HEALTH.to_owned());
        }
        let running = on.serve(&ScriptedDriver::default()).await?;
        let pods = ["a", "b", "c"];
        for pod in pods {
            let device = format!("device-{pod}");
            let claims = [(pod, vec![allocated(&on.driver, &device)])];
            on.start_pod_with(pod, &claims).await?;
        }
        for pod in pods {
            on.until_running(pod).await;
        }
        let verdicts = [Health::Healthy, Health::Unhealthy, Health::Healthy];
        let words = ["Healthy", "Unhealthy", "Healthy"];
        let report = pods
            .iter()
            .zip(verdicts)
            .map(|(pod, it)| health(&format!("device-{pod}"), it, ""));
        running.health.send_replace(report.collect());
        for (pod, word) in pods.iter().zip(words) {
            on.until_shown(pod, word).await;
        }
        for pod in pods {
            on.delete_and_wait(pod).await?;
        }
        Ok("three pods, two verdicts".to_owned())
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_device_of_two_shares_shows_its_health() -> Result<()> {
    run("20", async |on| {
        if !on.shows_health().await? {
            return Ok(NO_HEALTH.to_owned());
        }
        if on.shows_health_twice().await? {
            return Ok(TWICE.to_owned());
        }
        let running = on.serve(&ScriptedDriver::default()).await?;
        let share = |n: u8| AllocationResult {
            share: Some(format!("0d2d3ec0-6e0c-4f5a-9c5f-2f0e5a4d1b0{n}")),
            ..allocated(&on.driver, "d0")
        };
        on.start_pod_with("p", &[("p", vec![share(1), share(2)])])
            .await?;
        on.until_running("p").await;
        running.report_health(Health::Unhealthy, "");
        on.until_shown("p", "Unhealthy").await;
        on.delete_and_wait("p").await?;
        Ok("two share ids of one device".to_owned())
    })
}
