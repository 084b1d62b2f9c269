//! Registration, Prepare and Unprepare across kubelet's restart.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use dra_kubelet::Method::{Prepare, Unprepare};

use crate::support::{
    Behavior, FAILURE, ScriptedDriver, allocated, run, seconds, throughout, until,
};

// req: KUBELET-8
#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_plugin_is_registered_again_after_kubelets_restart() -> Result<()> {
    run("1", async |on| {
        let running = on.serve(&ScriptedDriver::default()).await?;
        let started = Instant::now();
        on.kubelet.restart().await?;
        running.until_registered(2).await;
        let took = started.elapsed();
        ensure!(took < Duration::from_secs(60), "{took:?}");
        on.start_pod("p").await?;
        on.until_running("p").await;
        on.delete_and_wait("p").await?;
        Ok(format!("{} after kubelet's SIGTERM", seconds(took)))
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_pod_made_while_kubelet_is_down_runs_after_its_restart() -> Result<()> {
    run("5", async |on| {
        let _running = on.serve(&ScriptedDriver::default()).await?;
        on.kubelet.stop().await?;
        on.start_pod("p").await?;
        on.kubelet.start().await?;
        let started = Instant::now();
        on.until_running("p").await;
        let took = started.elapsed();
        on.delete_and_wait("p").await?;
        Ok(format!("ran {} after kubelet's start", seconds(took)))
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_prepare_that_fails_across_kubelets_restart_succeeds_later() -> Result<()> {
    run("9", async |on| {
        let script = ScriptedDriver::preparing(Behavior::Fail);
        let _running = on.serve(&script).await?;
        on.start_pod("p").await?;
        on.until_warned("p", FAILURE).await;
        let before = script.started(Prepare);
        on.kubelet.restart().await?;
        script.until_started(Prepare, before + 1).await;
        script.set(Prepare, Behavior::Succeed);
        on.until_running("p").await;
        on.delete_and_wait("p").await?;
        Ok(format!("{} attempts", script.started(Prepare)))
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn an_unprepare_that_fails_across_kubelets_restart_succeeds_later() -> Result<()> {
    run("10", async |on| {
        let script = ScriptedDriver::unpreparing(Behavior::Fail);
        let _running = on.serve(&script).await?;
        on.start_pod_running("p", "true", &[("p", vec![allocated(&on.driver, "d0")])])
            .await?;
        script.until_started(Unprepare, 1).await;
        on.kubelet.restart().await?;
        let before = script.started(Unprepare);
        script.until_started(Unprepare, before + 1).await;
        script.set(Unprepare, Behavior::Succeed);
        on.until_phase("p", "Succeeded").await;
        on.delete_and_wait("p").await?;
        Ok(format!("{} attempts", script.started(Unprepare)))
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_pod_deleted_by_force_is_unprepared_also_across_kubelets_restart() -> Result<()> {
    run("12", async |on| {
        let script = ScriptedDriver::unpreparing(Behavior::Fail);
        let _running = on.serve(&script).await?;
        on.start_pod("p").await?;
        on.until_running("p").await;
        on.delete_by_force("p").await?;
        script.until_started(Unprepare, 1).await;
        on.kubelet.restart().await?;
        script.set(Unprepare, Behavior::Succeed);
        let started = Instant::now();
        until_answered(&script, Unprepare).await;
        ensure!(script.started(Prepare) == 1, "{:?}", script.log().steps);
        Ok(format!(
            "unprepared {} after the restart",
            seconds(started.elapsed())
        ))
    })
}

/// Waits until a step of the method has succeeded.
async fn until_answered(script: &ScriptedDriver, method: dra_kubelet::Method) {
    until(&format!("a successful {method}"), async || {
        let answers = script.log().answers;
        let done = answers
            .iter()
            .any(|(it, _, outcome)| *it == method && outcome.is_ok());
        ensure!(done, "there are {answers:?}");
        Ok(())
    })
    .await;
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_pod_deleted_while_kubelet_is_down_and_prepare_blocks_is_not_prepared_again() -> Result<()> {
    run("13", async |on| {
        let script = ScriptedDriver::preparing(Behavior::Block);
        let _running = on.serve(&script).await?;
        on.start_pod("p").await?;
        script.until_started(Prepare, 1).await;
        on.kubelet.stop().await?;
        on.delete_by_force("p").await?;
        on.kubelet.start().await?;
        // The Prepare still blocks: the Unprepare of kubelet's reconcile loop fences it.
        until_answered(&script, Unprepare).await;
        throughout(Duration::from_secs(20), async || {
            ensure!(script.started(Prepare) == 1, "{:?}", script.log().steps);
            Ok(())
        })
        .await?;
        Ok("one prepare, cancelled by the unprepare".to_owned())
    })
}
