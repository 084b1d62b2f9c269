//! Pods with claims, from admission to their end: when kubelet calls, and what it
//! does when a call fails.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

use super::call::call;
use super::event::Event;
use super::options::jittered;
use super::session::Session;
use crate::claim::ClaimRef;
use crate::observer::Method;

/// A pod on the node, as far as claims go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its UID.
    pub uid: String,
    /// Its claims. That they are allocated and reserved for it is taken for granted.
    pub claims: Vec<PodClaim>,
}

/// A pod's claim and the drivers named in its allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodClaim {
    /// Which claim.
    pub claim: ClaimRef,
    /// Each of them is called, with all of the pod's claims that name it.
    pub drivers: Vec<String>,
}

/// Where a pod stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its claims are not prepared yet.
    Pending,
    /// They are: its sandbox exists.
    Running,
    /// Its claims are unprepared, or still needed by other pods.
    Gone,
}

/// How a pod was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deletion {
    No,
    /// It stays on the API server until it has ended.
    Graceful,
    /// The API server has forgotten it at once.
    Forced,
}

/// Clones are the same pod.
#[derive(Clone)]
pub(super) struct PodRecord {
    pub(super) pod: Pod,
    pub(super) phase: watch::Sender<Phase>,
    pub(super) deletion: watch::Sender<Deletion>,
}

impl PodRecord {
    pub(super) fn new(pod: Pod) -> Self {
        Self {
            pod,
            phase: watch::Sender::new(Phase::Pending),
            deletion: watch::Sender::new(Deletion::No),
        }
    }

    async fn deleted(&self) -> Deletion {
        let mut deletion = self.deletion.subscribe();
        let deleted = deletion.wait_for(|it| *it != Deletion::No).await;
        // The sender is in `self`.
        deleted.map_or(Deletion::Forced, |it| *it)
    }

    fn is_active(&self) -> bool {
        *self.deletion.borrow() != Deletion::Forced && *self.phase.borrow() != Phase::Gone
    }
}

/// A pod's worker, from wherever the pod stands. A deletion cuts a Prepare off, as
/// kubelet's pod workers cancel what they are at.
pub(super) async fn work(session: Arc<Session>, uid: String) {
    let Some(record) = session.world.pod(&uid) else {
        return;
    };
    if *record.phase.borrow() == Phase::Gone {
        return;
    }
    let deletion = tokio::select! {
        biased;
        deletion = record.deleted() => deletion,
        never = run(&session, &record) => match never {},
    };
    if deletion == Deletion::Graceful {
        end(&session, &record).await;
    }
    // Forced: the clean-up finds its claims.
}

/// Fact: a failed Prepare comes again 60 to 90 s later; a running pod is not
/// prepared again by a kubelet that has restarted.
async fn run(session: &Session, record: &PodRecord) -> std::convert::Infallible {
    let times = &session.world.options.times;
    while *record.phase.borrow() == Phase::Pending {
        match prepare(session, &record.pod).await {
            Ok(()) => {
                record.phase.send_replace(Phase::Running);
            }
            Err(message) => {
                let pod = record.pod.uid.clone();
                session
                    .world
                    .log
                    .push(Event::PrepareFailed { pod, message });
                tokio::time::sleep(jittered(times.pod_retry)).await;
            }
        }
    }
    std::future::pending().await
}

/// Fact: the pod stays until Unprepare works, tried again after 10 to 15 s.
async fn end(session: &Session, record: &PodRecord) {
    let times = &session.world.options.times;
    while let Err(message) = unprepare(session, &record.pod.uid).await {
        let pod = record.pod.uid.clone();
        session
            .world
            .log
            .push(Event::UnprepareFailed { pod, message });
        tokio::time::sleep(jittered(times.unprepare_retry)).await;
    }
    record.phase.send_replace(Phase::Gone);
}

/// Unprepares what pods left that are no longer active: deleted by force, or while
/// no kubelet ran.
pub(super) async fn clean_up(session: Arc<Session>) {
    let period = session.world.options.times.cleanup;
    loop {
        tokio::time::sleep(period).await;
        let uids = session.world.claims().pods();
        for uid in uids {
            let record = session.world.pod(&uid);
            if record.as_ref().is_some_and(PodRecord::is_active) {
                continue;
            }
            match unprepare(&session, &uid).await {
                Ok(()) => {
                    if let Some(record) = record {
                        record.phase.send_replace(Phase::Gone);
                    }
                }
                Err(message) => {
                    let failed = Event::UnprepareFailed { pod: uid, message };
                    session.world.log.push(failed);
                }
            }
        }
    }
}

/// Facts: every driver must be registered before anything is recorded; one call per
/// driver has all the claims that are not prepared; drivers are called one after
/// the other in no order; the first failure ends the attempt, and the drivers before
/// it are called again by the next.
async fn prepare(session: &Session, pod: &Pod) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("prepare dynamic resources: {error}");
    for driver in pod.claims.iter().flat_map(|claim| &claim.drivers) {
        session.plugin(driver).map_err(|error| failed(&error))?;
    }
    let to_prepare = {
        let mut claims = session.world.claims();
        let to_prepare = claims.admit(&pod.uid, &pod.claims);
        to_prepare.map_err(|error| failed(&error))?
    };
    let batches = by_driver(to_prepare.iter().map(|it| (&it.claim, &it.drivers)));
    for (driver, claims) in batches {
        let answers = call(session, &driver, Method::Prepare, &claims).await;
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
            session.world.claims().add_devices(claim, &driver, devices);
        }
    }
    let mut claims = session.world.claims();
    for it in to_prepare {
        claims.set_prepared(&it.claim);
    }
    Ok(())
}

/// Fact: only claims whose last pod this is, and only by what is recorded: neither
/// pod nor claim need exist any more. A success is forgotten claim by claim.
async fn unprepare(session: &Session, pod: &str) -> Result<(), String> {
    let last = session.world.claims().release(pod);
    let batches = by_driver(last.iter().map(|(claim, drivers)| (claim, drivers)));
    for (driver, claims) in batches {
        let answers = call(session, &driver, Method::Unprepare, &claims).await;
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
    let mut claims = session.world.claims();
    for (claim, _) in last {
        claims.remove(&claim);
    }
    Ok(())
}

/// In no order, as Go's maps have none.
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
