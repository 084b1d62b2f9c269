//! Two instances on one data directory.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures_util::future::try_join_all;

use crate::support::{Node, run, seconds};

/// The number of pods that start during an update, and the delay between them.
const PODS: u32 = 8;
const DISTANCE: Duration = Duration::from_millis(250);

/// Starts a pod after `delay`; returns how long that took. If kubelet's call reaches
/// no plugin, the pod gets a warning and waits for kubelet's resync.
async fn start(on: &Node, pod: &str, delay: Duration) -> Result<Duration> {
    tokio::time::sleep(delay).await;
    let began = Instant::now();
    on.start_pod(pod).await?;
    on.until_running(pod).await;
    let mut warnings = on.warnings(pod).await?;
    // The API server's node authorizer notices a bound pod after a short delay.
    warnings.retain(|warning| !warning.contains("no relationship found between node"));
    ensure!(warnings.is_empty(), "{pod}: {warnings:?}");
    Ok(began.elapsed())
}

/// Starts pods during `update` and deletes them afterwards.
async fn pods_start_during(on: &Node, update: impl Future<Output = Result<()>>) -> Result<String> {
    let names: Vec<_> = (0..PODS).map(|n| format!("p{n}")).collect();
    let starts = names
        .iter()
        .zip(0..)
        .map(|(pod, n)| start(on, pod, DISTANCE * n));
    let (starts, ()) = tokio::try_join!(try_join_all(starts), update)?;
    for pod in &names {
        on.delete(pod).await?;
    }
    for pod in &names {
        on.until_gone(pod).await;
    }
    let slowest = starts.into_iter().max().unwrap_or_default();
    Ok(format!(
        "{PODS} pods during it, no warning, the slowest ran after {}",
        seconds(slowest)
    ))
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_rolling_update_has_no_gap() -> Result<()> {
    run("rolling", async |on| {
        let mut old = on.spawn_registered("d0").await?;
        let before = on.until_published().await;
        let history = on.watch_slices().await?;
        let mut new = None;
        let update = async {
            new = Some(on.spawn_registered("d0").await?);
            tokio::time::sleep(DISTANCE).await;
            old.terminate().await
        };
        let pods = pods_start_during(on, update).await?;
        ensure!(on.until_published().await == before, "the slice changed");
        ensure!(history.events().is_empty(), "{:?}", history.events());
        drop(new);
        Ok(format!("{pods}; slice unchanged"))
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn the_new_instance_serves_although_the_old_one_was_killed() -> Result<()> {
    run("rolling", async |on| {
        let mut old = on.spawn_registered("d0").await?;
        let mut new = None;
        let update = async {
            new = Some(on.spawn_registered("d0").await?);
            old.kill()
        };
        let pods = pods_start_during(on, update).await?;
        drop(new);
        Ok(pods)
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn the_old_instance_serves_on_although_the_new_one_was_killed() -> Result<()> {
    run("rolling", async |on| {
        let old = on.spawn_registered("d0").await?;
        // Before the pods: calls in flight at a killed instance always fail.
        let mut new = on.spawn_registered("d0").await?;
        new.kill()?;
        let pods = pods_start_during(on, async { Ok(()) }).await?;
        drop(old);
        Ok(pods)
    })
}
