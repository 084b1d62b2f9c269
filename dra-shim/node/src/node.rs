//! Prepare and Unprepare.

use std::sync::Arc;

use dra_checkpoint::{
    ClaimName, ClaimRecord, ClaimStatus, Claims, CommitError, Damage, Refused, State, Store, View,
};
use imex_cdi::{ChannelId, ClaimDevice, ClaimSpecs, ClaimUid, Major};
use jiff::Timestamp;

use crate::error::{PrepareError, UnprepareError};
use crate::payload::{Device, Group};
use crate::request::ChannelRequest;
use crate::world::{World, with_sources};

/// The claims of one node: its checkpoint and its CDI files.
#[derive(Debug)]
pub struct Node {
    pub(crate) store: Store<Group>,
    pub(crate) specs: Arc<ClaimSpecs>,
}

/// One attempt to prepare a claim, with every fact that it needs.
#[derive(Debug)]
pub struct Attempt<'a> {
    /// The claim.
    pub claim: &'a ClaimName,
    /// Its status as the API server sent it: its version.
    pub status: &'a ClaimStatus,
    /// What [`ChannelRequest::of`] read from the status.
    pub request: &'a ChannelRequest,
    /// Whether the API server knows the request's domain in the claim's namespace.
    pub domain_exists: bool,
    /// The node's hardware.
    pub world: &'a World,
    /// The time.
    pub now: Timestamp,
}

/// A prepared claim.
#[derive(Debug)]
pub struct Prepared {
    /// For kubelet.
    pub devices: Vec<Device>,
    /// What is wrong with the fabric, where it works but not well.
    pub degraded: Option<String>,
}

// === impl Node ===

impl Node {
    /// The record of a claim that is prepared already, its CDI file put back if
    /// it is gone or says something else. Neither config nor fabric matter: a
    /// prepared claim stays so. `None`: it is to be prepared, and `major` (the
    /// channel major, looked up only where it is needed) was not asked for.
    ///
    /// # Errors
    /// [`PrepareError`] where the file or the checkpoint cannot be used.
    pub fn held(
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
        // In a commit, though it writes no record: an Unprepare of another
        // process between look and file would leave a file without record.
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

    /// Prepares a claim that [`held`](Self::held) does not know. May be repeated,
    /// and resumes what a crash cut off.
    ///
    /// # Errors
    /// [`PrepareError`], in the order of the seed's 7.2. Nothing is held after
    /// an error; what is left of a started attempt the next call resumes, or
    /// [`unprepare`](Self::unprepare) undoes.
    pub fn prepare(&self, attempt: &Attempt<'_>) -> Result<Prepared, PrepareError> {
        let uid = claim_uid(&attempt.claim.uid)?;
        free_for(&self.store.view(), &uid, attempt.request)?;
        if !attempt.domain_exists {
            return Err(PrepareError::DomainNotFound {
                domain: attempt.request.domain.clone(),
                namespace: attempt.claim.namespace.clone(),
            });
        }
        let clique = attempt.world.clique()?;
        let major = attempt.world.channel_major()?;

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

    /// Undoes a claim. One that was never prepared is undone; only local state
    /// is needed, and the claim object may be gone.
    ///
    /// The caller sees to it that no attempt to prepare the claim runs in this
    /// process. One in another process finds its record gone when it completes.
    ///
    /// # Errors
    /// [`UnprepareError`]: repeat the call.
    pub fn unprepare(&self, uid: &str, now: Timestamp) -> Result<(), UnprepareError> {
        let owned = uid.to_owned();
        let specs = Arc::clone(&self.specs);
        let undone = self
            .store
            .commit(move |claims| undo(claims, &specs, &owned, now));
        undone.map_err(undo_failed)
    }

    /// Whether it is known who holds what. Damage may be found by any call, and
    /// lasts until [`rebuild`](Self::rebuild).
    pub fn damage(&self) -> Damage {
        self.store.view().damage().clone()
    }

    /// Forgets aborted attempts that fence nothing any more.
    ///
    /// # Errors
    /// [`UnprepareError`]: they go with a later call.
    pub fn expire(&self, now: Timestamp) -> Result<(), UnprepareError> {
        let expired = self.store.commit(move |claims| {
            claims.expire(now);
            Ok(())
        });
        expired.map_err(undo_failed)
    }

    /// Every record's claim, for checks against the API server. The names are
    /// empty in records of releases that did not write them.
    pub fn claims(&self) -> Vec<ClaimName> {
        let view = self.store.view();
        view.records_unchecked()
            .map(|(uid, record)| ClaimName {
                uid: uid.to_owned(),
                name: record.name.clone(),
                namespace: record.namespace.clone(),
            })
            .collect()
    }

    /// How many channels Completed records hold.
    pub fn prepared_channels(&self) -> usize {
        let view = self.store.view();
        view.records_unchecked()
            .flat_map(|(_, record)| record.devices())
            .flat_map(Group::channels)
            .count()
    }

    /// Writes the intent before the first effect, and answers early where the
    /// device is taken.
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
                // Another process completed it since `held` looked: `complete` answers.
                Ok(()) | Err(Refused::Completed { .. }) => Ok(()),
                Err(refused) => Err(refusal(refused)),
            }
        })
    }

    /// The deciding check and the record that it guards, in one commit. The
    /// loser takes its file back.
    fn complete(
        &self,
        attempt: &Attempt<'_>,
        uid: ClaimUid,
        ids: Vec<String>,
    ) -> Result<Vec<Device>, PrepareError> {
        let (status, request) = (attempt.status.clone(), attempt.request.clone());
        let specs = Arc::clone(&self.specs);
        self.commit(move |claims| {
            if let Some(record) = claims
                .get(uid.as_str())
                .filter(|record| record.is_completed())
            {
                return Ok(kubelet_devices(record));
            }
            let device = request.device_with(ids);
            let group = Group::of_channel(
                request.channel.get(),
                device.clone(),
                request.domain.as_str(),
            );
            let decided = free_for(claims, &uid, &request).and_then(|()| {
                claims
                    .complete(uid.as_str(), &status, vec![group])
                    .map_err(refusal)
            });
            match decided {
                Ok(()) => Ok(vec![device]),
                Err(error) => {
                    specs
                        .remove(&uid)
                        .map_err(|source| PrepareError::Cdi { source })?;
                    Err(error)
                }
            }
        })
    }

    fn commit<R: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Claims<Group>) -> Result<R, PrepareError> + Send + 'static,
    ) -> Result<R, PrepareError> {
        self.store.commit(change).map_err(|error| match error {
            CommitError::Refused(error) => error,
            CommitError::Store(error) => PrepareError::Checkpoint {
                reason: with_sources(&error),
            },
        })
    }
}

// === the steps inside a commit ===

/// Whether no other claim holds the requested channel.
fn free_for(
    view: &View<Group>,
    uid: &ClaimUid,
    request: &ChannelRequest,
) -> Result<(), PrepareError> {
    let mut all = view.records().map_err(|_| PrepareError::HoldersUnknown)?;
    let holds = |record: &ClaimRecord<Group>| {
        record
            .devices()
            .iter()
            .flat_map(Group::channels)
            .any(|held| held.info.id == request.channel.get())
    };
    match all.find(|(other, record)| *other != uid.as_str() && holds(record)) {
        None => Ok(()),
        Some((other, record)) => Err(PrepareError::Held {
            device: request.device.clone(),
            holder: format!("{}/{}:{other}", record.namespace, record.name),
        }),
    }
}

fn undo(
    claims: &mut Claims<Group>,
    specs: &ClaimSpecs,
    uid: &str,
    now: Timestamp,
) -> Result<(), UnprepareError> {
    // What is no UID names no file of ours; there may still be a record.
    if let Ok(uid) = ClaimUid::new(uid) {
        specs
            .remove(&uid)
            .map_err(|source| UnprepareError::Cdi { source })?;
    }
    let undone = match claims.get(uid).map(|record| &record.state) {
        Some(State::Completed(_)) => claims.remove(uid).map(drop),
        Some(State::Started) => claims.abort(uid, now),
        Some(State::Aborted { .. }) | None => Ok(()),
    };
    undone.map_err(|refused| UnprepareError::Checkpoint {
        reason: with_sources(&refused),
    })
}

fn undo_failed(error: CommitError<UnprepareError>) -> UnprepareError {
    match error {
        CommitError::Refused(error) => error,
        CommitError::Store(error) => UnprepareError::Checkpoint {
            reason: with_sources(&error),
        },
    }
}

/// Puts a Completed record's file back. One that a driver in another mode wrote
/// is left as it is, and cannot be written anew.
pub(crate) fn reassert(
    specs: &ClaimSpecs,
    uid: &ClaimUid,
    record: &ClaimRecord<Group>,
    major: Option<Major>,
) -> Result<Vec<Device>, PrepareError> {
    let cdi = |source| PrepareError::Cdi { source };
    match (own_channel(record), major) {
        (Some(channel), Some(major)) => {
            specs
                .ensure(uid, &[ClaimDevice::imex_channel(channel, major)])
                .map_err(cdi)?;
        }
        (own, _) => {
            if !specs.exists(uid).map_err(cdi)? {
                return Err(match own {
                    Some(_) => PrepareError::NoMajor {
                        reason: "its CDI file is gone, too".to_owned(),
                    },
                    None => PrepareError::ForeignSpecLost,
                });
            }
        }
    }
    Ok(kubelet_devices(record))
}

/// The channel of a record as we write them: one channel, one CDI device.
fn own_channel(record: &ClaimRecord<Group>) -> Option<ChannelId> {
    let [group] = record.devices() else {
        return None;
    };
    let [slot] = group.devices.as_slice() else {
        return None;
    };
    let single = ChannelRequest::of(&record.status).is_ok();
    slot.channel
        .as_ref()
        .filter(|_| single)
        .and_then(|held| ChannelId::new(held.info.id).ok())
}

fn kubelet_devices(record: &ClaimRecord<Group>) -> Vec<Device> {
    record
        .devices()
        .iter()
        .flat_map(Group::kubelet_devices)
        .cloned()
        .collect()
}

fn claim_uid(uid: &str) -> Result<ClaimUid, PrepareError> {
    ClaimUid::new(uid).map_err(|error| PrepareError::BadClaim {
        reason: with_sources(&error),
    })
}

fn refusal(refused: Refused) -> PrepareError {
    match refused {
        Refused::RecoveryNeeded(_) => PrepareError::HoldersUnknown,
        Refused::Aborted { .. } | Refused::NotStarted { .. } | Refused::OtherVersion { .. } => {
            PrepareError::Aborted
        }
        other => PrepareError::Checkpoint {
            reason: with_sources(&other),
        },
    }
}

impl ChannelRequest {
    /// What kubelet is told about the prepared channel.
    pub(crate) fn device_with(&self, cdi_ids: Vec<String>) -> Device {
        Device {
            requests: Some(vec![self.request.clone()]),
            pool_name: self.pool.clone(),
            device_name: self.device.clone(),
            cdi_device_ids: Some(cdi_ids),
            share_id: None,
            metadata: None,
        }
    }
}

#[cfg(test)]
#[path = "node_tests.rs"]
mod tests;
