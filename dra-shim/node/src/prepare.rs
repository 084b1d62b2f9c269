//! Prepare: the claim's record becomes Started, its CDI spec is written, its
//! record becomes Completed.

use std::sync::Arc;

use dra_checkpoint::{ClaimName, ClaimRecord, ClaimStatus, Refused, View};
use imex_cdi::{ClaimDevice, ClaimUid, Major};
use jiff::Timestamp;

use crate::device_group::{DeviceGroup, KubeletDevice};
use crate::error::PrepareError;
use crate::hardware::Hardware;
use crate::node_claims::NodeClaims;
use crate::request::ChannelRequest;
use crate::spec::{kubelet_devices, reassert};
use crate::text::error_chain;

/// One attempt to prepare a claim, with every fact that it needs.
#[derive(Debug)]
pub struct Attempt<'a> {
    /// The claim.
    pub claim: &'a ClaimName,
    /// Its status as the API server sent it: it identifies the allocation that is
    /// to be prepared.
    pub status: &'a ClaimStatus,
    /// What [`ChannelRequest::from_status`] read from the status.
    pub request: &'a ChannelRequest,
    /// Whether the API server knows the request's domain in the claim's namespace.
    pub domain_exists: bool,
    /// The node's hardware.
    pub hardware: &'a Hardware,
    /// The current time, for the fence of an aborted attempt.
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
        if !self
            .store
            .view()
            .get(&claim.uid)
            .is_some_and(ClaimRecord::is_completed)
        {
            return Ok(None);
        }
        let uid = claim_uid(&claim.uid)?;
        let major = major();
        let specs = Arc::clone(&self.specs);
        // In a commit, though it writes no record: without the lock, an
        // Unprepare of another process could come in between and leave a spec
        // without record.
        let devices = self.commit(move |claims| match claims.get(uid.as_str()) {
            Some(record) if record.is_completed() => {
                reassert(&specs, &uid, record, major).map(Some)
            }
            _ => Ok(None),
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
    /// [`PrepareError`], the first of them in the order of the seed's 7.2. The
    /// claim holds no device after an error. A Started record and its spec may
    /// remain: the next call resumes them, [`unprepare`](Self::unprepare)
    /// removes them.
    pub fn prepare(&self, attempt: &Attempt<'_>) -> Result<Prepared, PrepareError> {
        let uid = claim_uid(&attempt.claim.uid)?;
        free_for(&self.store.view(), &uid, attempt.request)?;
        if !attempt.domain_exists {
            return Err(PrepareError::DomainNotFound {
                domain: attempt.request.domain.clone(),
                namespace: attempt.claim.namespace.clone(),
            });
        }
        let clique = attempt.hardware.clique()?;
        let major = attempt.hardware.channel_major()?;

        self.begin(attempt, &uid)?;
        let device = ClaimDevice::imex_channel(attempt.request.channel, major);
        let asserted = self
            .specs
            .ensure(&uid, &[device])
            .map_err(|source| PrepareError::Cdi { source })?;
        let ids = asserted.ids.iter().map(ToString::to_string).collect();
        let devices = self.complete(attempt, uid, ids)?;

        let degraded = (!clique.degraded.is_empty()).then(|| clique.to_string());
        Ok(Prepared { devices, degraded })
    }

    /// Writes the Started record before the first side effect, and answers early
    /// where the device is in use.
    fn begin(&self, attempt: &Attempt<'_>, uid: &ClaimUid) -> Result<(), PrepareError> {
        let (claim, status, request) = (
            attempt.claim.clone(),
            attempt.status.clone(),
            attempt.request.clone(),
        );
        let (uid, now) = (uid.clone(), attempt.now);
        self.commit(move |claims| {
            free_for(claims, &uid, &request)?;
            match claims.start(&claim, &status, now) {
                // Another process has completed it meanwhile: `complete` answers.
                Ok(()) | Err(Refused::Completed { .. }) => Ok(()),
                Err(refused) => Err(from_refused(refused)),
            }
        })
    }

    /// The deciding check and the record that it guards, in one commit. The
    /// loser removes its spec.
    fn complete(
        &self,
        attempt: &Attempt<'_>,
        uid: ClaimUid,
        cdi_ids: Vec<String>,
    ) -> Result<Vec<KubeletDevice>, PrepareError> {
        let (status, request) = (attempt.status.clone(), attempt.request.clone());
        let specs = Arc::clone(&self.specs);
        self.commit(move |claims| {
            if let Some(record) = claims
                .get(uid.as_str())
                .filter(|record| record.is_completed())
            {
                return Ok(kubelet_devices(record));
            }
            let group = request.device_group(cdi_ids);
            let devices = group.kubelet_devices().cloned().collect();
            let decided = free_for(claims, &uid, &request).and_then(|()| {
                claims
                    .complete(uid.as_str(), &status, vec![group])
                    .map_err(from_refused)
            });
            match decided {
                Ok(()) => Ok(devices),
                Err(error) => {
                    specs
                        .remove(&uid)
                        .map_err(|source| PrepareError::Cdi { source })?;
                    Err(error)
                }
            }
        })
    }
}

// === the checks inside a commit ===

/// Whether no other claim holds the requested channel.
fn free_for(
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

fn from_refused(refused: Refused) -> PrepareError {
    match refused {
        Refused::RecoveryNeeded(_) => PrepareError::NeedsRecovery,
        Refused::Aborted { .. } | Refused::NotStarted { .. } | Refused::OtherVersion { .. } => {
            PrepareError::Aborted
        }
        other => PrepareError::Checkpoint {
            reason: error_chain(&other),
        },
    }
}

#[cfg(test)]
#[path = "prepare_tests.rs"]
mod tests;
