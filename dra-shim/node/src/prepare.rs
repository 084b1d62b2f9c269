//! Prepare: the claim's record becomes Started, its CDI spec is written, its
//! record becomes Completed.

use std::sync::Arc;

use dra_checkpoint::{ClaimName, ClaimRecord, ClaimStatus, Claims, View};
use imex_cdi::{ClaimDevice, ClaimSpecs, ClaimUid, Major};
use jiff::Timestamp;

use crate::device_group::{DeviceGroup, KubeletDevice};
use crate::error::PrepareError;
use crate::hardware::Hardware;
use crate::lifecycle::{ClaimState, Step, Transaction};
use crate::node_claims::{NodeClaims, steps};
use crate::request::ChannelRequest;
use crate::spec::{kubelet_devices, rewrite};
use crate::text::error_chain;

/// The claim to prepare, and every fact that decides about it.
#[derive(Debug)]
pub struct PrepareInput<'a> {
    /// The claim.
    pub claim: &'a ClaimName,
    /// Its status as the API server sent it: it identifies the allocation that is
    /// to be prepared.
    pub status: &'a ClaimStatus,
    /// What [`ChannelRequest::from_status`] read from the status.
    pub request: &'a ChannelRequest,
    /// Whether the request's domain exists in the claim's namespace.
    pub domain_exists: bool,
    /// The node's hardware.
    pub hardware: &'a Hardware,
    /// The current time, for the fence of an aborted Prepare.
    pub now: Timestamp,
}

/// A prepared claim.
#[derive(Debug)]
pub struct Prepared {
    /// The devices to answer kubelet with: the same ones at every call.
    pub devices: Vec<KubeletDevice>,
    /// What is wrong with the fabric, where it works but not well.
    pub degraded: Option<String>,
}

/// The last transaction of a Prepare, with everything that it may write.
struct Ending {
    uid: ClaimUid,
    status: ClaimStatus,
    request: ChannelRequest,
    device: ClaimDevice,
    group: DeviceGroup,
}

// === impl NodeClaims ===

impl NodeClaims {
    /// The answer for a claim that is prepared already, after its CDI spec is
    /// written again if it is missing or different. Neither config nor fabric
    /// matter: a prepared claim stays prepared.
    ///
    /// `None`: [`prepare`](Self::prepare) the claim. `major` looks up the channel
    /// major; it is called only for a prepared claim.
    ///
    /// # Errors
    /// [`PrepareError`] where the spec or the checkpoint cannot be used.
    pub fn already_prepared(
        &self,
        claim: &ClaimName,
        major: impl FnOnce() -> Option<Major>,
    ) -> Result<Option<Prepared>, PrepareError> {
        if !is_prepared(&self.store.view(), &claim.uid) {
            return Ok(None);
        }
        let uid = claim_uid(&claim.uid)?;
        let major = major();
        let specs = Arc::clone(&self.specs);
        // In a commit, though it writes no record: without the lock, an
        // Unprepare of another process could come in between and leave a spec
        // without record.
        let devices = self.commit(move |claims| match claims.get(uid.as_str()) {
            Some(record) if is_prepared(claims, uid.as_str()) => {
                rewrite(&specs, &uid, record, major).map(Some)
            }
            _ => Ok::<_, PrepareError>(None),
        })?;
        Ok(devices.map(|devices| Prepared {
            devices,
            degraded: None,
        }))
    }

    /// Prepares a claim for which [`already_prepared`](Self::already_prepared)
    /// has no answer. May be repeated, and resumes what a crash interrupted.
    ///
    /// # Errors
    /// [`PrepareError`]: the device is in use, the domain does not exist, the
    /// hardware does not allow it, a file cannot be written; in this order. The
    /// claim then holds no device. A Started record and its spec may remain: the
    /// next call resumes them, [`unprepare`](Self::unprepare) removes them.
    pub fn prepare(&self, input: &PrepareInput<'_>) -> Result<Prepared, PrepareError> {
        let uid = claim_uid(&input.claim.uid)?;
        check_unused(&self.store.view(), &uid, input.request)?;
        if !input.domain_exists {
            return Err(PrepareError::DomainNotFound {
                domain: input.request.domain.clone(),
                namespace: input.claim.namespace.clone(),
            });
        }
        let major = input.hardware.require_major()?;

        self.begin(input, &uid)?;
        let device = ClaimDevice::imex_channel(input.request.channel, major);
        let written = self
            .specs
            .ensure(&uid, std::slice::from_ref(&device))
            .map_err(|source| PrepareError::Cdi { source })?;
        let ids = written.ids.iter().map(ToString::to_string).collect();
        let group = input.request.device_group(ids);
        let devices = self.end(input, uid, device, group)?;

        Ok(Prepared {
            devices,
            degraded: input.hardware.warning(),
        })
    }

    /// Writes the Started record before the first side effect, and answers early
    /// where the device is in use.
    pub(crate) fn begin(
        &self,
        input: &PrepareInput<'_>,
        uid: &ClaimUid,
    ) -> Result<(), PrepareError> {
        let (claim, status, request) = (
            input.claim.clone(),
            input.status.clone(),
            input.request.clone(),
        );
        let (uid, now) = (uid.clone(), input.now);
        self.commit(move |claims| {
            check_unused(claims, &uid, &request)?;
            let steps = steps(claims, uid.as_str(), Transaction::BeginPrepare);
            if steps.contains(&Step::RecordStarted) {
                claims.start(&claim, &status, now)?;
            }
            Ok(())
        })
    }

    /// The deciding check and the record that it guards, in one commit. Of two
    /// claims that want the device, the second one loses and removes its spec.
    pub(crate) fn end(
        &self,
        input: &PrepareInput<'_>,
        uid: ClaimUid,
        device: ClaimDevice,
        group: DeviceGroup,
    ) -> Result<Vec<KubeletDevice>, PrepareError> {
        let ending = Ending {
            uid,
            status: input.status.clone(),
            request: input.request.clone(),
            device,
            group,
        };
        let specs = Arc::clone(&self.specs);
        self.commit(move |claims| ending.run(claims, &specs))
    }
}

// === impl Ending ===

impl Ending {
    fn run(
        self,
        claims: &mut Claims<DeviceGroup>,
        specs: &ClaimSpecs,
    ) -> Result<Vec<KubeletDevice>, PrepareError> {
        let cdi = |source| PrepareError::Cdi { source };
        let lost = self.check_may_complete(claims).err();
        let transaction = match lost {
            None => Transaction::EndPrepare,
            Some(_) => Transaction::EndPrepareRefused,
        };
        let uid = &self.uid;
        let state = ClaimState {
            record: claims.phase(uid.as_str()),
            has_spec: specs.exists(uid).map_err(cdi)?,
        };
        for step in state.steps(transaction) {
            match step {
                Step::WriteSpec => {
                    let device = std::slice::from_ref(&self.device);
                    specs.ensure(uid, device).map_err(cdi)?;
                }
                Step::RecordCompleted => {
                    claims.complete(uid.as_str(), &self.status, vec![self.group.clone()])?;
                }
                Step::RemoveSpec => specs.remove(uid).map_err(cdi)?,
                _ => {} // no other step ends a Prepare
            }
        }
        match claims.get(uid.as_str()) {
            Some(record) if record.is_completed() => Ok(kubelet_devices(record)),
            _ => Err(lost.unwrap_or(PrepareError::Aborted)),
        }
    }

    /// Fails if another claim uses the device, or if a Prepare of another claim
    /// status has taken the record over.
    fn check_may_complete(&self, view: &View<DeviceGroup>) -> Result<(), PrepareError> {
        check_unused(view, &self.uid, &self.request)?;
        match view.get(self.uid.as_str()) {
            Some(record) if record.status != self.status => Err(PrepareError::Aborted),
            _ => Ok(()),
        }
    }
}

// === the checks ===

/// Whether the claim holds its device already.
fn is_prepared(view: &View<DeviceGroup>, uid: &str) -> bool {
    !steps(view, uid, Transaction::BeginPrepare).contains(&Step::RecordStarted)
}

/// Fails if another claim uses the requested channel.
fn check_unused(
    view: &View<DeviceGroup>,
    uid: &ClaimUid,
    request: &ChannelRequest,
) -> Result<(), PrepareError> {
    let mut records = view.records().map_err(|_| PrepareError::NeedsRecovery)?;
    let holds = |record: &ClaimRecord<DeviceGroup>| {
        record
            .devices()
            .iter()
            .flat_map(DeviceGroup::channels)
            .any(|held| held.info.id == request.channel.get())
    };
    match records.find(|(other, record)| *other != uid.as_str() && holds(record)) {
        None => Ok(()),
        Some((other, record)) => Err(PrepareError::InUse {
            device: request.device.clone(),
            holder: format!("{}/{}:{other}", record.namespace, record.name),
        }),
    }
}

fn claim_uid(uid: &str) -> Result<ClaimUid, PrepareError> {
    ClaimUid::new(uid).map_err(|error| PrepareError::BadClaim {
        reason: error_chain(&error),
    })
}

#[cfg(test)]
#[path = "prepare_tests.rs"]
mod tests;
