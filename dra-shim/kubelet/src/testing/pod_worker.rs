//! kubelet's work for pods with claims, from admission to their end: calls and retries.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::call::call;
use super::event::Event;
use super::options::jittered;
use super::pod::{Deletion, Phase, Pod, PodRecord};
use super::process::Process;
use crate::observer::Method;
use dra_claim::ClaimRef;

/// Runs a pod's worker, from any phase of the pod. As in kubelet's pod workers, a deletion
/// cancels a Prepare in flight.
pub(super) async fn run(process: Arc<Process>, uid: String) {
    let Some(record) = process.node.pod(&uid) else {
        return;
    };
    if *record.phase.borrow() == Phase::Gone {
        return;
    }
    let deletion = tokio::select! {
        biased;
        deletion = record.deleted() => deletion,
        never = keep_running(&process, &record) => match never {},
    };
    if deletion == Deletion::Graceful {
        end(&process, &record).await;
    }
    // After a forced deletion, the clean-up finds its claims.
}

/// Prepares the pod's claims with retries. Facts: a failed Prepare is repeated after 60 to
/// 90 s. A restarted kubelet does not prepare a running pod again.
async fn keep_running(process: &Process, record: &PodRecord) -> std::convert::Infallible {
    let times = &process.node.options.times;
    while *record.phase.borrow() == Phase::Pending {
        match prepare(process, &record.pod).await {
            Ok(()) => {
                record.phase.send_replace(Phase::Running);
            }
            Err(message) => {
                let pod = record.pod.uid.clone();
                process.node.log.push(Event::PrepareFailed { pod, message });
                tokio::time::sleep(jittered(times.pod_retry)).await;
            }
        }
    }
    std::future::pending().await
}

/// Unprepares the pod's claims with retries. Fact: the pod remains until Unprepare succeeds; a
/// failed one is repeated after 10 to 15 s.
async fn end(process: &Process, record: &PodRecord) {
    let times = &process.node.options.times;
    while let Err(message) = unprepare(process, &record.pod.uid).await {
        let pod = record.pod.uid.clone();
        process
            .node
            .log
            .push(Event::UnprepareFailed { pod, message });
        tokio::time::sleep(jittered(times.unprepare_retry)).await;
    }
    record.phase.send_replace(Phase::Gone);
}

/// Unprepares the claims of pods that are no longer active: force-deleted, or deleted while no
/// kubelet ran.
pub(super) async fn clean_up(process: Arc<Process>) {
    let period = process.node.options.times.cleanup;
    loop {
        tokio::time::sleep(period).await;
        let uids = process.node.claims().pods();
        for uid in uids {
            let record = process.node.pod(&uid);
            if record.as_ref().is_some_and(PodRecord::is_active) {
                continue;
            }
            match unprepare(&process, &uid).await {
                Ok(()) => {
                    if let Some(record) = record {
                        record.phase.send_replace(Phase::Gone);
                    }
                }
                Err(message) => {
                    let failed = Event::UnprepareFailed { pod: uid, message };
                    process.node.log.push(failed);
                }
            }
        }
    }
}

/// Prepares a pod's claims once. Facts: every driver must be registered before anything is
/// recorded. Each driver gets one call with all of its unprepared claims. Drivers are called
/// one after the other, in random order. The first failure ends the attempt, and the next
/// attempt repeats the earlier drivers' calls.
async fn prepare(process: &Process, pod: &Pod) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("prepare dynamic resources: {error}");
    for driver in pod.claims.iter().flat_map(|claim| &claim.drivers) {
        process.plugin(driver).map_err(|error| failed(&error))?;
    }
    let to_prepare = {
        let mut claims = process.node.claims();
        let to_prepare = claims.admit(&pod.uid, &pod.claims);
        to_prepare.map_err(|error| failed(&error))?
    };
    let batches = by_driver(to_prepare.iter().map(|it| (&it.claim, &it.drivers)));
    for (driver, claims) in batches {
        let answers = call(process, &driver, Method::Prepare, &claims).await;
        let answers = answers
            .map_err(|error| failed(&format_args!("NodePrepareResources failed: {error}")))?;
        for claim in &claims {
            let devices = match answers.get(&claim.uid) {
                Some(Ok(devices)) => devices.clone(),
                Some(Err(error)) => {
                    let name = &claim.name;
                    return Err(failed(&format_args!(
                        "NodePrepareResources failed for ResourceClaim {name}: {error}"
                    )));
                }
                // Cannot happen: `call` refuses an answer that lacks a claim.
                None => continue,
            };
            process.node.claims().add_devices(claim, &driver, devices);
        }
    }
    let mut claims = process.node.claims();
    for it in to_prepare {
        claims.set_prepared(&it.claim);
    }
    Ok(())
}

/// Unprepares a pod's claims once. Facts: only claims without other pods are unprepared. Only
/// the record is used, so pod and claim may already be deleted. The claims are removed from
/// the record when all calls have succeeded.
async fn unprepare(process: &Process, pod: &str) -> Result<(), String> {
    let last = process.node.claims().release(pod);
    let batches = by_driver(last.iter().map(|(claim, drivers)| (claim, drivers)));
    for (driver, claims) in batches {
        let answers = call(process, &driver, Method::Unprepare, &claims).await;
        let answers = answers.map_err(|error| format!("NodeUnprepareResources failed: {error}"))?;
        let failed = claims.iter().find_map(|claim| {
            let error = answers.get(&claim.uid)?.as_ref().err()?;
            Some((claim, error))
        });
        if let Some((claim, error)) = failed {
            let name = &claim.name;
            return Err(format!(
                "NodeUnprepareResources failed for ResourceClaim {name}: {error}"
            ));
        }
    }
    let mut claims = process.node.claims();
    for (claim, _) in last {
        claims.remove(&claim);
    }
    Ok(())
}

/// Groups the claims by driver; drivers are in random order, as in Go's maps.
fn by_driver<'a>(
    claims: impl Iterator<Item = (&'a ClaimRef, &'a Vec<String>)>,
) -> Vec<(String, Vec<ClaimRef>)> {
    let mut batches: BTreeMap<String, Vec<ClaimRef>> = BTreeMap::new();
    for (claim, drivers) in claims {
        for driver in drivers {
            let batch = batches.entry(driver.clone()).or_default();
            batch.push(claim.clone());
        }
    }
    let mut batches: Vec<_> = batches.into_iter().collect();
    fastrand::shuffle(&mut batches);
    batches
}
