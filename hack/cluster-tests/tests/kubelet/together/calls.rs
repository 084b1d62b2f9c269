//! Prepare and Unprepare when pods start and end.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use dra_kubelet::Method::{Prepare, Unprepare};

use crate::support::{
    AllocationResult, Behavior, FAILURE, ScriptedDriver, TWICE, allocated, run, seconds, throughout,
};

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_pod_whose_prepare_blocks_past_the_deadline_stays_pending_and_runs_once_it_ends() -> Result<()>
{
    run("6", async |on| {
        let script = ScriptedDriver::preparing(Behavior::Block);
        let _running = on.serve(&script).await?;
        on.start_pod("p").await?;
        script.until_started(Prepare, 1).await;
        throughout(Duration::from_secs(60), async || {
            let phase = on.phase("p").await?;
            ensure!(phase == "Pending", "it is {phase}");
            Ok(())
        })
        .await?;
        let warning = on.until_warned("p", "ResourceClaim p: ").await;
        ensure!(warning.contains("longer than kubelet waits"), "{warning}");
        // kubelet's second call has joined the blocking step.
        ensure!(script.started(Prepare) == 1, "{:?}", script.log().steps);
        script.set(Prepare, Behavior::Succeed);
        let released = Instant::now();
        on.until_running("p").await;
        let took = released.elapsed();
        on.delete_and_wait("p").await?;
        Ok(format!(
            "one step for two calls; ran {} after it ended",
            seconds(took)
        ))
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_prepare_that_fails_and_then_succeeds_lets_the_pod_run() -> Result<()> {
    run("7", async |on| {
        let script = ScriptedDriver::preparing(Behavior::Fail);
        let _running = on.serve(&script).await?;
        on.start_pod("p").await?;
        let warning = on.until_warned("p", FAILURE).await;
        let message = format!("NodePrepareResources failed for ResourceClaim p: {FAILURE}");
        ensure!(warning.contains(&message), "{warning}");
        ensure!(on.phase("p").await? == "Pending");
        script.set(Prepare, Behavior::Succeed);
        let mended = Instant::now();
        on.until_running("p").await;
        let took = mended.elapsed();
        on.delete_and_wait("p").await?;
        Ok(format!("ran {} later, at kubelet's resync", seconds(took)))
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_passing_fault_costs_the_pod_no_resync() -> Result<()> {
    run("7", async |on| {
        let script = ScriptedDriver::preparing(Behavior::FailRetryable);
        let _running = on.serve(&script).await?;
        on.start_pod("p").await?;
        script.until_started(Prepare, 3).await;
        script.set(Prepare, Behavior::Succeed);
        let mended = Instant::now();
        on.until_running("p").await;
        let took = mended.elapsed();
        let calls = script.log().calls.len();
        ensure!(calls == 1, "kubelet called {calls} times");
        on.delete_and_wait("p").await?;
        Ok(format!("ran {} later, in the same call", seconds(took)))
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn an_unprepare_that_fails_and_then_succeeds_lets_the_pod_complete() -> Result<()> {
    run("8", async |on| {
        let script = ScriptedDriver::unpreparing(Behavior::Fail);
        let _running = on.serve(&script).await?;
        let claims = [("p", vec![allocated(&on.driver, "d0")])];
        on.start_pod_running("p", "true", &claims).await?;
        script.until_started(Unprepare, 2).await;
        let phase = on.phase("p").await?;
        ensure!(phase != "Succeeded", "it completed and is not unprepared");
        script.set(Unprepare, Behavior::Succeed);
        let mended = Instant::now();
        on.until_phase("p", "Succeeded").await;
        let took = mended.elapsed();
        on.delete_and_wait("p").await?;
        Ok(format!("completed {} later", seconds(took)))
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_deleted_pod_is_unprepared_until_that_works() -> Result<()> {
    run("11", async |on| {
        let script = ScriptedDriver::unpreparing(Behavior::Fail);
        let _running = on.serve(&script).await?;
        on.start_pod("p").await?;
        on.until_running("p").await;
        on.delete("p").await?;
        script.until_started(Unprepare, 2).await;
        ensure!(
            on.pods().get_opt("p").await?.is_some(),
            "the pod was deleted before it was unprepared"
        );
        script.set(Unprepare, Behavior::Succeed);
        on.until_gone("p").await;
        ensure!(script.started(Prepare) == 1, "{:?}", script.log().steps);
        Ok(format!("{} attempts", script.started(Unprepare)))
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_claim_of_two_drivers_is_prepared_by_both_although_one_fails_first() -> Result<()> {
    run("18", async |on| {
        if on.shows_health_twice().await? {
            return Ok(TWICE.to_owned());
        }
        let (mine, theirs) = (
            ScriptedDriver::default(),
            ScriptedDriver::preparing(Behavior::Fail),
        );
        let other = format!("other-{}", on.driver);
        let _mine = on.serve(&mine).await?;
        let running = on.serve_as(&other, &theirs, |builder| builder)?;
        running.until_registered(1).await;
        let results = vec![allocated(&on.driver, "d0"), allocated(&other, "d0")];
        on.start_pod_with("p", &[("p", results)]).await?;
        on.until_warned("p", FAILURE).await;
        theirs.set(Prepare, Behavior::Succeed);
        on.until_running("p").await;

        mine.set(Unprepare, Behavior::Fail);
        on.delete("p").await?;
        mine.until_started(Unprepare, 1).await;
        mine.set(Unprepare, Behavior::Succeed);
        on.until_gone("p").await;
        ensure!(
            theirs.started(Unprepare) >= 1,
            "the other driver was not called"
        );
        Ok(format!(
            "prepares {} + {}",
            mine.started(Prepare),
            theirs.started(Prepare)
        ))
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn claims_with_no_one_or_two_share_ids_of_a_device_are_prepared() -> Result<()> {
    run("21", async |on| {
        let script = ScriptedDriver::default();
        let _running = on.serve(&script).await?;
        let one = "0d2d3ec0-6e0c-4f5a-9c5f-2f0e5a4d1a01";
        let two = "0d2d3ec0-6e0c-4f5a-9c5f-2f0e5a4d1a02";
        let mut cases = vec![
            ("none", vec![None]),
            ("one", vec![Some(one)]),
            ("two", vec![Some(one), Some(two)]),
        ];
        // If kubelet stores share ids, it has them from the driver. In the gate's first version it does not
        // (seen with 1.34, where the gate is off by default).
        let mut kept = on.gate("DRAConsumableCapacity").await? == Some(true);
        kept &= on.gate(r#"DRAConsumableCapacity",stage="ALPHA"#).await? != Some(true);
        let two_run = !on.shows_health_twice().await?;
        cases.truncate(if two_run { 3 } else { 2 });
        for (pod, shares) in &cases {
            let share = |share: Option<&str>| AllocationResult {
                share: share.map(str::to_owned),
                ..allocated(&on.driver, "d0")
            };
            on.start_pod_with(pod, &[(pod, shares.iter().copied().map(share).collect())])
                .await?;
            on.until_running(pod).await;
        }
        let state = std::fs::read_to_string("/var/lib/kubelet/dra_manager_state")?;
        for id in cases.iter().flat_map(|(_, shares)| shares).flatten() {
            ensure!(state.contains(id) == kept, "share id {id}, kept: {kept}");
        }
        for (pod, _) in &cases {
            on.delete_and_wait(pod).await?;
        }
        let calls = (script.started(Prepare), script.started(Unprepare));
        ensure!(calls == (cases.len(), cases.len()), "{calls:?}");
        let two = if two_run { "ok" } else { TWICE };
        Ok(format!("kept in kubelet's checkpoint: {kept}; two: {two}"))
    })
}
