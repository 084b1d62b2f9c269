//! Claims of two drivers, and kubelet's metrics about them.

use std::time::Instant;

use anyhow::{Result, ensure};
use dra_kubelet::Method::{Prepare, Unprepare};

use crate::support::{Behavior, Node, ScriptedDriver, allocated, run, seconds, until};

/// Waits until kubelet's metrics have this number of claims in use, for all drivers and for each of the two.
async fn until_in_use(on: &Node, other: &str, count: u32) {
    until(&format!("{count} claims are in use"), async || {
        for driver in ["<any>", &on.driver, other] {
            let in_use = on.claims_in_use(driver).await?;
            ensure!(in_use == count, "{driver} has {in_use}");
        }
        Ok(())
    })
    .await;
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn kubelets_metrics_count_a_claim_of_two_drivers_once_for_each() -> Result<()> {
    run("18", async |on| {
        let other = format!("other-{}", on.driver);
        let _mine = on.serve(&ScriptedDriver::default()).await?;
        let theirs = on.serve_as(&other, &ScriptedDriver::default(), |builder| builder)?;
        theirs.until_registered(1).await;
        until_in_use(on, &other, 0).await;
        let results = vec![allocated(&on.driver, "d0"), allocated(&other, "d0")];
        on.start_pod_with("p", &[("p", results)]).await?;
        on.until_running("p").await;
        until_in_use(on, &other, 1).await;
        on.delete_and_wait("p").await?;
        until_in_use(on, &other, 0).await;
        Ok("in_use 1/1/1, then 0/0/0".to_owned())
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_kubelet_restart_while_one_of_two_drivers_blocks_in_prepare_is_harmless() -> Result<()> {
    run("18", async |on| {
        let other = format!("other-{}", on.driver);
        let (mine, blocked) = (
            ScriptedDriver::default(),
            ScriptedDriver::preparing(Behavior::Block),
        );
        let _mine = on.serve(&mine).await?;
        let theirs = on.serve_as(&other, &blocked, |builder| builder)?;
        theirs.until_registered(1).await;
        let results = vec![allocated(&on.driver, "d0"), allocated(&other, "d0")];
        on.start_pod_with("p", &[("p", results)]).await?;
        blocked.until_started(Prepare, 1).await;
        on.kubelet.restart().await?;
        theirs.until_registered(2).await;
        blocked.set(Prepare, Behavior::Succeed);
        let released = Instant::now();
        on.until_running("p").await;
        let took = released.elapsed();
        on.delete_and_wait("p").await?;
        Ok(format!(
            "ran {} after the driver was released",
            seconds(took)
        ))
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_kubelet_restart_while_one_of_two_drivers_blocks_in_unprepare_is_harmless() -> Result<()> {
    run("18", async |on| {
        let other = format!("other-{}", on.driver);
        let (mine, blocked) = (
            ScriptedDriver::default(),
            ScriptedDriver::unpreparing(Behavior::Block),
        );
        let _mine = on.serve(&mine).await?;
        let theirs = on.serve_as(&other, &blocked, |builder| builder)?;
        theirs.until_registered(1).await;
        let results = vec![allocated(&on.driver, "d0"), allocated(&other, "d0")];
        on.start_pod_with("p", &[("p", results)]).await?;
        on.until_running("p").await;
        on.delete("p").await?;
        blocked.until_started(Unprepare, 1).await;
        on.kubelet.restart().await?;
        theirs.until_registered(2).await;
        blocked.set(Unprepare, Behavior::Succeed);
        let released = Instant::now();
        on.until_gone("p").await;
        ensure!(
            mine.started(Unprepare) >= 1,
            "the first driver was not called"
        );
        Ok(format!(
            "deleted {} after the driver was released",
            seconds(released.elapsed())
        ))
    })
}
