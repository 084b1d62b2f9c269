//! kubelet's work for pods with claims, from admission to their end: when it calls, and
//! what it does when a call fails.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::call::call;
use super::event::Event;
use super::options::jittered;
use super::pod::{Deletion, Phase, Pod, PodRecord};
use super::process::Process;
use crate::observer::Method;
use dra_claim::ClaimRef;

/// A pod's worker, from whatever phase the pod is in. A deletion cancels a Prepare in
/// flight, as in kubelet's pod workers.
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

/// Facts: a failed Prepare is repeated 60 to 90 s later; a running pod is not prepared
/// again by a kubelet that has restarted.
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

/// Fact: the pod stays until Unprepare succeeds; it is repeated after 10 to 15 s.
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

/// Unprepares the claims of pods that are no longer active: deleted by force, or while no
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

/// Facts: every driver must be registered before anything is recorded; each driver gets
/// one call with all of its claims that are not prepared; drivers are called one after
/// the other, in no order; the first failure ends the attempt, and the next attempt calls
/// the drivers before it again.
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
                // `call` refuses an answer that lacks one.
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

/// Facts: only claims whose last pod this is, and only from what is recorded: neither pod
/// nor claim need exist any more. The claims are forgotten when all calls succeeded.
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

/// The claims of each driver; drivers are in random order, as in Go's maps.
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
