//! Prepare: the claim's record becomes Started, hardware is changed if the claim asks for it, its CDI spec is written,
//! its record becomes Completed. The checkpoint is written twice; claims that are prepared at the same time share
//! these writes.

use std::sync::Arc;

use dra_checkpoint::lifecycle::Phase;
use dra_checkpoint::{ClaimRef, ClaimStatus, Claims, KubeletDevice, View};
use dra_common::error_chain;
use imex_cdi::{ClaimSpecs, ClaimUid};

use crate::devices::Devices;
use crate::error::PrepareError;
use crate::lifecycle::{Step, Transaction};
use crate::moment::{FenceClock, Moment};
use crate::node_claims::{NodeClaims, steps};
use crate::spec::{ensure, ids, kubelet_devices, remove, rewrite};

/// A claim to prepare.
#[derive(Debug)]
pub struct Prepare<D: Devices> {
    /// The claim.
    pub claim: ClaimRef,
    /// Its status, as the API server sent it. It identifies the allocation to prepare. Not checked here: the
    /// caller has checked [`is_allocated`](ClaimStatus::is_allocated), as `dra_kubelet::Claim::parse` does.
    pub status: ClaimStatus,
    /// What it asks for, with the facts about it.
    pub request: D::Request,
    /// The facts, for the spec of a claim that is already prepared.
    pub facts: D::Facts,
    /// The current time, for the fence of an aborted Prepare.
    pub now: Moment,
}

/// A Prepare after its first transaction.
#[derive(Debug)]
pub enum Begun<D: Devices> {
    /// The claim was already prepared, and its spec is in place.
    Prepared(Vec<KubeletDevice>),
    /// The record is Started.
    Started(Box<Started<D>>),
}

/// A claim whose record is Started, and what its spec and record will contain.
#[derive(Debug)]
pub struct Started<D: Devices> {
    /// The claim.
    pub uid: ClaimUid,
    /// Its status, which identifies the allocation.
    pub status: ClaimStatus,
    /// The devices that it may have.
    pub plan: D::Plan,
    /// As in [`Prepare`].
    pub facts: D::Facts,
}

// === impl NodeClaims ===

impl<D: Devices> NodeClaims<D> {
    /// Whether the claim is prepared according to this process's cache. Another process may have
    /// changed that: call [`already_prepared`](Self::already_prepared) before answering.
    pub fn cached_as_prepared(&self, uid: &str) -> bool {
        self.view().phase(uid) == Phase::Completed
    }

    /// The answer for a claim that is already prepared. Rewrites its CDI spec if it
    /// is missing or different, and writes no record. A prepared claim stays
    /// prepared, regardless of config and hardware.
    ///
    /// `None`: [prepare](Self::prepare) the claim.
    ///
    /// # Errors
    /// The spec or the checkpoint cannot be used.
    // req: KUBELET-33
    pub fn already_prepared(
        &self,
        claim: &ClaimRef,
        facts: D::Facts,
    ) -> Result<Option<Vec<KubeletDevice>>, D::Error> {
        let uid = claim_uid(&claim.uid)?;
        let (specs, devices) = (Arc::clone(&self.specs), Arc::clone(&self.devices));
        // In a commit, because another process may have changed the record. Without
        // the lock, an Unprepare there could interrupt this and leave a spec without
        // a record.
        self.commit_prepare(move |claims| {
            answer_if_prepared(claims, &*devices, &specs, &uid, &facts)
        })
    }

    /// Prepares a claim for which [`already_prepared`](Self::already_prepared) has no
    /// answer. May be repeated; resumes after a crash. Concurrent calls share durable writes.
    ///
    /// # Errors
    /// [`Devices::plan`] refuses the claim, or a file cannot be written. The claim then
    /// holds no device. A Started record and its spec may remain: the next call resumes them, and
    /// [`unprepare`](Self::unprepare) removes them.
    // req: NODE-16, NODE-22
    pub fn prepare(&self, prepare: Prepare<D>) -> Result<Vec<KubeletDevice>, D::Error> {
        let claim = prepare.claim.clone();
        let started = match self.begin(prepare)? {
            Begun::Prepared(devices) => return Ok(devices),
            Begun::Started(started) => started,
        };
        let view = || self.read_view();
        let changed = self.devices.change(&view, &claim, &started.plan)?;
        let ended = self.write_spec(&started).and_then(|()| self.end(*started));
        if let (Err(_), Some(mut changed)) = (&ended, changed)
            && let view = self.view()
            && view.phase(&claim.uid) != Phase::Completed
        {
            // If this fails, too, the claim's next call repeats it.
            let _ = changed.restore(&view).and_then(|()| changed.forget(&view));
        }
        ended
    }

    /// The first transaction of [`prepare`](Self::prepare): writes the Started record before the first
    /// side effect. Public, like the two that follow, for tests that interrupt a Prepare.
    ///
    /// # Errors
    /// [`Devices::plan`] refuses the claim, or the checkpoint cannot be used.
    pub fn begin(&self, prepare: Prepare<D>) -> Result<Begun<D>, D::Error> {
        let uid = claim_uid(&prepare.claim.uid)?;
        let (specs, fences) = (Arc::clone(&self.specs), Arc::clone(&self.fences));
        let devices = Arc::clone(&self.devices);
        self.commit_prepare(move |claims| begin(prepare, uid, claims, &*devices, &specs, &fences))
    }

    /// Writes the spec of a claim with a Started record, without holding the lock.
    ///
    /// # Errors
    /// The spec cannot be written.
    pub fn write_spec(&self, started: &Started<D>) -> Result<(), D::Error> {
        match self.devices.spec(&started.plan) {
            Some(spec) => Ok(ensure(&self.specs, &started.uid, &spec).map(drop)?),
            None => Ok(()),
        }
    }

    /// Checks again and completes the record, in one commit. Of two claims
    /// that want a device, the second one is refused and its spec removed.
    ///
    /// # Errors
    /// [`Devices::check`] refuses the claim, an Unprepare came in between, or a file cannot be written.
    pub fn end(&self, started: Started<D>) -> Result<Vec<KubeletDevice>, D::Error> {
        let (specs, devices) = (Arc::clone(&self.specs), Arc::clone(&self.devices));
        self.commit_prepare(move |claims| started.end(claims, &*devices, &specs))
    }
}

/// The first transaction. It runs under the lock, so it never refuses or answers based on stale records.
// req: NODE-21
fn begin<D: Devices>(
    prepare: Prepare<D>,
    uid: ClaimUid,
    claims: &mut Claims<D::Group>,
    devices: &D,
    specs: &ClaimSpecs,
    fences: &FenceClock,
) -> Result<Begun<D>, D::Error> {
    if let Some(answer) = answer_if_prepared(claims, devices, specs, &uid, &prepare.facts)? {
        return Ok(Begun::Prepared(answer));
    }
    let plan = devices.plan(claims, &uid, prepare.request)?;
    let now = match claims.get(uid.as_str()) {
        Some(record) => fences.now(uid.as_str(), record, prepare.now),
        None => prepare.now.wall,
    };
    let started = claims.start(&prepare.claim, &prepare.status, now);
    started.map_err(PrepareError::from)?;
    Ok(Begun::Started(Box::new(Started {
        uid,
        status: prepare.status,
        plan,
        facts: prepare.facts,
    })))
}

/// The answer if the claim already holds its devices. Rewrites its spec if necessary.
// req: KUBELET-32
fn answer_if_prepared<D: Devices>(
    view: &View<D::Group>,
    devices: &D,
    specs: &ClaimSpecs,
    uid: &ClaimUid,
    facts: &D::Facts,
) -> Result<Option<Vec<KubeletDevice>>, D::Error> {
    let steps = steps(view, uid.as_str(), Transaction::BeginPrepare);
    match view.get(uid.as_str()) {
        Some(record) if *steps == [Step::WriteSpec] => {
            rewrite(devices, specs, uid, record, facts)?;
            Ok(Some(kubelet_devices::<D>(record)))
        }
        _ => Ok(None),
    }
}

// === impl Started ===

impl<D: Devices> Started<D> {
    /// The last transaction of a Prepare. It decides which claim gets a device.
    // req: NODE-24
    fn end(
        self,
        claims: &mut Claims<D::Group>,
        devices: &D,
        specs: &ClaimSpecs,
    ) -> Result<Vec<KubeletDevice>, D::Error> {
        let uid = &self.uid;
        let (transaction, lost) = self.decide(claims, devices);
        for step in steps(claims, uid.as_str(), transaction) {
            match step {
                Step::WriteSpec => self.write_spec(claims, devices, specs)?,
                Step::RemoveSpec => remove(specs, uid)?,
                Step::Record(_) => {
                    let ids = devices.spec(&self.plan).map(|spec| ids(specs, uid, &spec));
                    let groups = devices.groups(&self.plan, ids.unwrap_or_default());
                    let completed = claims.complete(uid.as_str(), &self.status, groups);
                    completed.map_err(PrepareError::from)?;
                }
            }
        }
        match claims.get(uid.as_str()) {
            Some(record) if record.is_completed() => Ok(kubelet_devices::<D>(record)),
            _ => Err(lost.unwrap_or_else(|| PrepareError::Aborted.into())),
        }
    }

    /// Writes the spec of the record. If the record is Completed, that may be for another claim status.
    fn write_spec(
        &self,
        view: &View<D::Group>,
        devices: &D,
        specs: &ClaimSpecs,
    ) -> Result<(), D::Error> {
        let record = view.get(self.uid.as_str());
        if let Some(record) = record.filter(|record| record.is_completed()) {
            return rewrite(devices, specs, &self.uid, record, &self.facts).map(drop);
        }
        match devices.spec(&self.plan) {
            Some(spec) => Ok(ensure(specs, &self.uid, &spec).map(drop)?),
            // Left by an earlier attempt, when the claim was to have a device.
            None => Ok(remove(specs, &self.uid)?),
        }
    }

    /// Chooses the transaction. Returns the error if the claim does not get its devices.
    // req: NODE-18
    fn decide(&self, view: &View<D::Group>, devices: &D) -> (Transaction, Option<D::Error>) {
        let record = view.get(self.uid.as_str());
        if record.is_some_and(|record| record.status != self.status) {
            let error = PrepareError::Aborted.into();
            return (Transaction::EndPrepareSuperseded, Some(error));
        }
        match devices.check(view, &self.uid, &self.plan) {
            Ok(()) => (Transaction::EndPrepare, None),
            Err(error) => (Transaction::EndPrepareRefused, Some(error)),
        }
    }
}

fn claim_uid(uid: &str) -> Result<ClaimUid, PrepareError> {
    ClaimUid::new(uid).map_err(|error| PrepareError::BadClaim {
        reason: error_chain(&error),
    })
}
