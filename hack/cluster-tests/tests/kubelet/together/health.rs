//! Devices' health in the status of pods.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use dra_kubelet::Health;

use crate::support::{Node, Script, health, run, seconds, until};

/// The remark of a scenario that has nothing to see.
pub(crate) const NO_HEALTH: &str = "not applicable: kubelet's gate ResourceHealthStatus is off";

/// Whether this kubelet reports health at all: since 1.36 without being asked.
pub(crate) async fn shows_health(on: &Node) -> Result<bool> {
    Ok(on.gate("ResourceHealthStatus").await? == Some(true))
}

const LIMIT: Duration = Duration::from_secs(60);

/// What the pod's status says of its one device: health and message.
pub(crate) async fn shown(on: &Node, pod: &str) -> Result<(String, String)> {
    let pod = on.pods().get(pod).await?;
    let containers = pod.status.and_then(|it| it.container_statuses);
    let container = containers
        .into_iter()
        .flatten()
        .next()
        .context("no container")?;
    let resources = container
        .allocated_resources_status
        .context("no resources")?;
    let all = resources
        .into_iter()
        .flat_map(|it| it.resources.unwrap_or_default());
    let resource = all.into_iter().next().context("no device")?;
    Ok((
        resource.health.unwrap_or_default(),
        serde_json::to_string(&resource.resource_id)?,
    ))
}

/// Waits until the pod's status shows this health; how long it took.
async fn until_shown(on: &Node, pod: &str, wanted: &str) -> Result<Duration> {
    let started = Instant::now();
    until(&format!("pod {pod} shows {wanted}"), async || {
        let (health, _) = shown(on, pod).await?;
        ensure!(health == wanted, "it shows {health:?}");
        Ok(())
    })
    .await;
    Ok(started.elapsed())
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_devices_health_is_shown_in_its_pods_status_as_it_changes() -> Result<()> {
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
        until_shown(on, "p", "Healthy").await?;
        let mut took = Vec::new();
        for (verdict, word) in [
            (Health::Unhealthy, "Unhealthy"),
            (Health::Healthy, "Healthy"),
        ] {
            running
                .health
                .send_replace(vec![health("d0", verdict, "a reason")]);
            took.push(until_shown(on, "p", word).await?);
        }
        ensure!(took.iter().all(|took| *took < LIMIT), "{took:?}");
        on.delete_and_wait("p").await?;
        let took: Vec<_> = took.into_iter().map(seconds).collect();
        Ok(format!("shown after {}", took.join(" and ")))
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn health_becomes_unknown_when_the_driver_stops_and_known_again_with_all_calls() -> Result<()> {
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
        until_shown(on, "p", "Healthy").await?;
        running.shutdown().await;
        let unknown = until_shown(on, "p", "Unknown").await?;
        ensure!(unknown < 2 * LIMIT, "{unknown:?}");
        let running = on.serve(&Script::default()).await?;
        running
            .health
            .send_replace(vec![health("d0", Health::Unhealthy, "")]);
        let known = until_shown(on, "p", "Unhealthy").await?;
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
        if !shows_health(on).await? {
            return Ok(NO_HEALTH.to_owned());
        }
        let running = on.serve(&Script::default()).await?;
        let pods = ["a", "b", "c"];
        for pod in pods {
            let device = format!("device-{pod}");
            let claims = [(pod, vec![crate::support::wanted(&on.driver, &device)])];
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
            until_shown(on, pod, word).await?;
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
        if !shows_health(on).await? {
            return Ok(NO_HEALTH.to_owned());
        }
        let running = on.serve(&Script::default()).await?;
        let share = |n: u8| crate::support::Wanted {
            share: Some(format!("0d2d3ec0-6e0c-4f5a-9c5f-2f0e5a4d1b0{n}")),
            ..crate::support::wanted(&on.driver, "d0")
        };
        on.start_pod_with("p", &[("p", vec![share(1), share(2)])])
            .await?;
        on.until_running("p").await;
        running
            .health
            .send_replace(vec![health("d0", Health::Unhealthy, "")]);
        until_shown(on, "p", "Unhealthy").await?;
        on.delete_and_wait("p").await?;
        Ok("two share ids of one device".to_owned())
    })
}
