//! The claims' lamps: a record and a CDI spec for each claim, written in this order:
//!
//! ```text
//! open       remove records of an earlier boot; a spec without a record shows that records are missing
//! prepare    record "started", if none is missing ──> CDI spec ──> record "completed", if no other claim has the lamp
//! unprepare  CDI spec removed, record removed or aborted: in one commit
//! ```
//!
//! A process may be killed between any two writes, and kubelet repeats every call. The code waits only for the
//! disk.

use std::collections::BTreeSet;
use std::sync::Arc;

use dra_checkpoint::{
    Boot, BootId, ClaimRecord, ClaimRef, ClaimStatus, Claims, CommitError, Damage, Payload,
    Refused, State, Store, StoreError,
};
use dra_common::Advice;
use dra_kubelet::{Claim, ClaimError, PreparedDevice};
use durable_file::Dir;
use imex_cdi::{
    ClaimDevice, ClaimSpec, ClaimSpecs, ClaimSpecsError, ClaimUid, ContainerEdits, DeviceName, Kind,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One lamp of a prepared claim. It has the whole answer to kubelet, so that a later process can repeat it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lamp {
    requests: Vec<String>,
    pool: String,
    pub(crate) device: String,
    cdi_ids: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    share_id: Option<String>,
}

impl Payload for Lamp {}

/// The lamps of a node. Only one claim at a time has a lamp, even if the scheduler allocates it twice.
pub(crate) struct Lamps {
    store: Store<Lamp>,
    specs: Arc<ClaimSpecs>,
}

/// Error of preparing or unpreparing a claim.
#[derive(Debug, thiserror::Error, Advice)]
#[advice(hint = "delete the claim and create it again", vis = "pub(crate)")]
pub(crate) enum LampError {
    // Retried, because the other claim may be unprepared meanwhile.
    #[error("{lamp} is in use by claim {holder}")]
    #[advice(
        code = "in-use",
        hint = "delete the pod of one of the two claims",
        retry
    )]
    InUse { lamp: String, holder: String },
    #[error("the claim's UID or device cannot be part of a CDI name: {0}")]
    #[advice(code = "bad-name", permanent)]
    BadName(String),
    #[error(transparent)]
    #[advice(from)]
    Refused(#[from] Refused),
    #[error(transparent)]
    #[advice(from)]
    Store(#[from] StoreError),
    #[error(transparent)]
    #[advice(from)]
    Specs(#[from] ClaimSpecsError),
}

// === impl Lamps ===

impl Lamps {
    /// Opens the records in `plugin_dir` and the specs in `cdi_dir`, and removes those of an earlier boot. No claim
    /// is prepared while [`is_damaged`](Self::is_damaged).
    pub(crate) fn open(
        plugin_dir: Arc<dyn Dir>,
        cdi_dir: Arc<dyn Dir>,
        boot: BootId,
    ) -> Result<Self, LampError> {
        let kind = Kind::new("lamps.example.com", "claim").map_err(bad_name)?;
        let specs = Arc::new(ClaimSpecs::new(cdi_dir, kind));
        let (store, _) = Store::open(plugin_dir, boot)?;
        let lamps = Self { store, specs };
        let specs = Arc::clone(&lamps.specs);
        lamps.commit(move |claims| begin(claims, &specs))?;
        Ok(lamps)
    }

    /// Whether claims may be missing from the records: the file was damaged, removed, or replaced by an older one.
    pub(crate) fn is_damaged(&self) -> bool {
        *self.store.view().damage() != Damage::None
    }

    /// Rebuilds damaged records from the claims that the API server has for this node. Claims with a spec are
    /// prepared; specs of other claims are removed. Two claims with the same lamp are an error, because the owner
    /// is unknown: the damage remains until one of them is deleted.
    pub(crate) fn rebuild(&self, allocated: &[Claim], now: Timestamp) -> Result<(), LampError> {
        let mut found = Vec::new();
        for claim in allocated {
            let (name, status, lamps) = self.wanted(claim)?;
            if self.specs.exists(&uid(&claim.id.uid)?)? {
                found.push((name, status, lamps));
            }
        }
        let allocated: BTreeSet<_> = allocated.iter().map(|it| it.id.uid.clone()).collect();
        let specs = Arc::clone(&self.specs);
        self.commit(move |claims| {
            // Records of deleted claims in an older file.
            let recorded = claims.records_unchecked().map(|(uid, _)| uid.to_owned());
            let gone = recorded.filter(|uid| !allocated.contains(uid));
            for gone in gone.collect::<Vec<_>>() {
                undo(claims, &specs, &uid(&gone)?, now)?;
            }
            for (name, status, lamps) in found {
                if claims.get(&name.uid).is_none() {
                    check_free(claims.records_unchecked(), &name.uid, &lamps)?;
                }
                claims.restore(&name, status, lamps)?;
            }
            for uid in specs.claims()? {
                if claims.get(uid.as_str()).is_none() {
                    specs.remove(&uid)?;
                }
            }
            claims.mark_rebuilt();
            Ok(())
        })
    }

    /// Prepares the claim's lamps. Every call returns the same answer, also from another process.
    pub(crate) fn prepare(
        &self,
        claim: &Claim,
        now: Timestamp,
    ) -> Result<Vec<PreparedDevice>, LampError> {
        let uid = uid(&claim.id.uid)?;
        let (name, status, wanted) = self.wanted(claim)?;
        let started = status.clone();
        // An administrator may have restored an older file since the start. This is a separate commit, because a
        // failed commit writes nothing.
        let specs = Arc::clone(&self.specs);
        self.commit(move |claims| note_missing(claims, &specs))?;
        let prepared = self.commit(move |claims| match claims.start(&name, &started, now) {
            Ok(()) => Ok(None),
            // The recorded lamps are the answer until the claim is unprepared.
            Err(Refused::Completed { uid }) => Ok(claims.get(&uid).map(|it| it.devices().to_vec())),
            Err(refused) => Err(refused.into()),
        })?;
        if let Some(lamps) = prepared {
            // After a reboot the directory of the specs is empty.
            self.specs.ensure(&uid, &spec(&lamps)?)?;
            return Ok(answer(&lamps));
        }
        self.specs.ensure(&uid, &spec(&wanted)?)?;
        let specs = Arc::clone(&self.specs);
        let lamps = self.commit(move |claims| {
            let records = claims.records().map_err(Refused::from)?;
            let free = check_free(records, uid.as_str(), &wanted);
            let completed = free.and_then(|()| {
                let completed = claims.complete(uid.as_str(), &status, wanted);
                completed.map_err(LampError::from)
            });
            match completed {
                // Another process was faster.
                Ok(()) | Err(LampError::Refused(Refused::Completed { .. })) => {}
                Err(error) => {
                    specs.remove(&uid)?;
                    return Err(error);
                }
            }
            let record = claims.get(uid.as_str());
            Ok(record.map(|it| it.devices().to_vec()).unwrap_or_default())
        })?;
        Ok(answer(&lamps))
    }

    /// Releases the claim's lamps. Succeeds also for a claim without lamps.
    pub(crate) fn unprepare(&self, claim_uid: &str, now: Timestamp) -> Result<(), LampError> {
        let (uid, specs) = (uid(claim_uid)?, Arc::clone(&self.specs));
        // One commit, so that no Prepare runs in between.
        self.commit(move |claims| {
            undo(claims, &specs, &uid, now)?;
            claims.expire(now);
            Ok(())
        })
    }

    /// The claim's identity, status and requested lamps.
    fn wanted(&self, claim: &Claim) -> Result<(ClaimRef, ClaimStatus, Vec<Lamp>), LampError> {
        let uid = uid(&claim.id.uid)?;
        let lamps = claim.results.iter().map(|result| {
            let device = DeviceName::new(result.device()).map_err(bad_name)?;
            Ok(Lamp {
                requests: vec![result.base_request().to_owned()],
                pool: result.pool().to_owned(),
                device: result.device().to_owned(),
                cdi_ids: vec![self.specs.id(&uid, &device).to_string()],
                share_id: result.share_id().map(str::to_owned),
            })
        });
        let lamps = lamps.collect::<Result<_, LampError>>()?;
        Ok((claim.id.clone(), claim.status.clone(), lamps))
    }

    fn commit<R: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Claims<Lamp>) -> Result<R, LampError> + Send + 'static,
    ) -> Result<R, LampError> {
        self.store.commit(change).map_err(|error| match error {
            CommitError::Refused(own) => own,
            CommitError::Store(error) => error.into(),
        })
    }
}

/// Checks the records and specs before the first claim.
fn begin(claims: &mut Claims<Lamp>, specs: &ClaimSpecs) -> Result<(), LampError> {
    let with_spec = specs.claims()?;
    match claims.boot() {
        Boot::Same => {}
        // The boot id in the file was damaged. A spec shows that there was no reboot.
        Boot::Missing if !with_spec.is_empty() => claims.assume_same_boot()?,
        // After a reboot no claim is prepared. kubelet prepares the claims of its pods again.
        Boot::Missing | Boot::Changed { .. } => {
            for uid in &with_spec {
                specs.remove(uid)?;
            }
            claims.remove_earlier_boot();
            return Ok(());
        }
    }
    note_missing(claims, specs)
}

/// Marks records as missing if a spec has none: the file was removed or is an older one. From then on, `records` is
/// an error.
fn note_missing(claims: &mut Claims<Lamp>, specs: &ClaimSpecs) -> Result<(), LampError> {
    let with_spec = specs.claims()?;
    let mut recorded = with_spec.iter().map(|uid| claims.get(uid.as_str()));
    if recorded.any(|record| record.is_none()) {
        claims.note_missing();
    }
    Ok(())
}

/// Removes the spec, then the record of it.
fn undo(
    claims: &mut Claims<Lamp>,
    specs: &ClaimSpecs,
    uid: &ClaimUid,
    now: Timestamp,
) -> Result<(), LampError> {
    specs.remove(uid)?;
    match claims.get(uid.as_str()).map(|record| &record.state) {
        Some(State::Completed(_)) => claims.remove(uid.as_str())?,
        Some(State::Started) => claims.abort(uid.as_str(), now)?,
        Some(State::Aborted { .. }) | None => {}
    }
    Ok(())
}

/// Checks that no other claim of `records` has one of the lamps.
fn check_free<'a>(
    records: impl Iterator<Item = (&'a str, &'a ClaimRecord<Lamp>)>,
    uid: &str,
    wanted: &[Lamp],
) -> Result<(), LampError> {
    for (holder, record) in records.filter(|(other, _)| *other != uid) {
        let has = |lamp: &&Lamp| record.devices().iter().any(|it| it.device == lamp.device);
        if let Some(lamp) = wanted.iter().find(has) {
            let (lamp, holder) = (lamp.device.clone(), holder.to_owned());
            return Err(LampError::InUse { lamp, holder });
        }
    }
    Ok(())
}

/// The content of a claim's CDI spec.
fn spec(lamps: &[Lamp]) -> Result<ClaimSpec, LampError> {
    let device = |lamp: &Lamp| {
        let edits = ContainerEdits {
            env: vec![format!("LAMP={}", lamp.device)],
            ..ContainerEdits::default()
        };
        let name = DeviceName::new(&lamp.device).map_err(bad_name)?;
        Ok(ClaimDevice { name, edits })
    };
    let devices = lamps.iter().map(device).collect::<Result<_, LampError>>()?;
    Ok(ClaimSpec {
        devices,
        ..ClaimSpec::default()
    })
}

fn answer(lamps: &[Lamp]) -> Vec<PreparedDevice> {
    let device = |lamp: &Lamp| PreparedDevice {
        requests: lamp.requests.clone(),
        pool: lamp.pool.clone(),
        device: lamp.device.clone(),
        cdi_ids: lamp.cdi_ids.clone(),
        share_id: lamp.share_id.clone(),
    };
    lamps.iter().map(device).collect()
}

fn uid(text: &str) -> Result<ClaimUid, LampError> {
    ClaimUid::new(text).map_err(bad_name)
}

fn bad_name(error: impl std::fmt::Display) -> LampError {
    LampError::BadName(error.to_string())
}

// === impl LampError ===

impl From<LampError> for ClaimError {
    fn from(error: LampError) -> Self {
        let message = format!("{error} ({})", error.hint());
        let claim_error = Self::new(error.class(), message);
        claim_error.with_code(error.code())
    }
}
