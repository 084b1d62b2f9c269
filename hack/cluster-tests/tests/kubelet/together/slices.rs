//! The driver's slices when its connection is lost and restored.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use dra_kubelet::Method::Unprepare;

use crate::support::{Node, ScriptedDriver, run, seconds, throughout};

/// The time after which kubelet deletes the slices of a driver without connection, less the
/// time between the end of the connection and the start of the test's clock.
const WIPE: Duration = Duration::from_secs(28);

/// Waits for the wipe; returns the time since `lost`.
async fn wiped_after(on: &Node, lost: Instant) -> Result<String> {
    on.until_withdrawn().await;
    let took = lost.elapsed();
    ensure!(took > WIPE, "kubelet wiped after {took:?}");
    Ok(format!("wiped after {}", seconds(took)))
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn slices_are_removed_after_the_driver_has_unregistered() -> Result<()> {
    run("19", async |on| {
        let running = on.serve(&ScriptedDriver::default()).await?;
        on.until_published().await;
        running.shutdown().await;
        wiped_after(on, Instant::now()).await
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn slices_are_removed_after_the_driver_was_killed() -> Result<()> {
    run("19", async |on| {
        let mut process = on.spawn_registered("d0").await?;
        on.until_published().await;
        process.kill()?;
        wiped_after(on, Instant::now()).await
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn slices_are_removed_when_the_service_never_comes_up() -> Result<()> {
    run("19", async |on| {
        let registry = Path::new("/run").join(&on.namespace);
        let mut process = on.spawn("d0", Some(&registry))?;
        on.until_published().await;
        // kubelet does not know the plugin yet: it finds one without service.
        let directory = Path::new("/var/lib/kubelet/plugins").join(&on.driver);
        std::fs::rename(&directory, directory.with_extension("away"))?;
        let _proxy = on.proxy(&[])?;
        process.until_printed("registered").await;
        process.kill()?;
        wiped_after(on, Instant::now()).await
    })
}

/// The slice as JSON, with its resource version.
async fn published(on: &Node) -> Result<String> {
    Ok(serde_json::to_string(&on.until_published().await)?)
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn slices_are_untouched_when_the_driver_is_back_within_five_seconds() -> Result<()> {
    run("19", async |on| {
        let mut process = on.spawn_registered("d0").await?;
        let before = published(on).await?;
        let history = on.watch_slices().await?;
        process.terminate().await?;
        let mut process = on.spawn_registered("d0").await?;
        process.kill()?;
        tokio::time::sleep(Duration::from_secs(4)).await;
        let _process = on.spawn_registered("d0").await?;
        throughout(WIPE + Duration::from_secs(7), async || {
            ensure!(published(on).await? == before, "it changed");
            Ok(())
        })
        .await?;
        ensure!(history.events().is_empty(), "{:?}", history.events());
        Ok("no watch event in 35 s, a shutdown and a kill -9".to_owned())
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_pod_is_deleted_after_its_driver_was_down_and_is_back() -> Result<()> {
    run("15", async |on| {
        let mut process = on.spawn_registered("d0").await?;
        on.start_pod("p").await?;
        on.until_running("p").await;
        let claim = on.claim_uid("p").await?;
        on.until_published().await;
        process.kill()?;
        let wiped = wiped_after(on, Instant::now()).await?;
        let process = on.spawn_registered("d0").await?;
        on.until_published().await;
        ensure!(on.phase("p").await? == "Running");
        on.delete_and_wait("p").await?;
        process.until_printed(&format!("{Unprepare} {claim}")).await;
        Ok(format!("{wiped}, back, unprepared"))
    })
}
