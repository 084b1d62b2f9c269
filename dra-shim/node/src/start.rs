//! Start, once per process before the first claim: removes the records and CDI
//! specs of an earlier boot, then writes the missing specs of records. A spec
//! without a record means that the checkpoint is damaged.

use std::sync::Arc;

use dra_checkpoint::lifecycle::Event;
use dra_checkpoint::{Boot, BootId, ClaimRef, Damage, Refused, Store, StoreError};
use dra_common::error_chain;
use durable_file::Dir;
use imex_cdi::{ClaimSpecs, ClaimSpecsError, ClaimUid, Kind};

use crate::devices::Devices;
use crate::lifecycle::{Step, Transaction};
use crate::node_claims::{NodeClaims, steps};

/// Result of [`NodeClaims::start`], for log and event.
#[derive(Debug)]
pub struct StartReport {
    /// Whether the checkpoint is damaged. Until [`NodeClaims::rebuild`] succeeds, the
    /// holders of devices are unknown and no claim is prepared.
    pub damage: Damage,
    /// The number of removed records of an earlier boot.
    pub removed_records: usize,
    /// Why CDI specs do not match their records yet, one line each. The claim's next call or the
    /// next start retries. Empty while the checkpoint is damaged.
    pub failures: Vec<String>,
}

/// Why the node's claims cannot be used. All causes are on the disk: retry.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The checkpoint cannot be opened.
    #[error("the checkpoint cannot be opened")]
    Open(#[source] StoreError),
    /// The checkpoint cannot be read or written.
    #[error("the checkpoint cannot be used: {reason}")]
    Checkpoint {
        /// Why.
        reason: String,
    },
    /// A claim that lost its record has devices that are not known now.
    #[error("the devices of claim {claim}, which lost its record, are not known yet: {reason}")]
    DevicesUnknown {
        /// The claim.
        claim: ClaimRef,
        /// Why.
        reason: String,
    },
    /// What claims have changed on hardware cannot be read.
    #[error("what claims have changed on hardware is not known: {reason}")]
    Hardware {
        /// Why.
        reason: String,
    },
    /// The CDI directory cannot be used.
    #[error("the CDI directory cannot be used")]
    Cdi(#[source] ClaimSpecsError),
}

// === impl NodeClaims ===

impl<D: Devices> NodeClaims<D> {
    /// Opens the checkpoint in `checkpoint` and the CDI specs in `cdi`, removes
    /// the state of an earlier boot, and writes missing specs. Needs no API server.
    /// A CDI spec without a record is damage: the checkpoint was removed, or
    /// replaced by an older one.
    ///
    /// `kind` is the CDI kind of the claims' specs, `boot` the current boot's id. If `facts` do not
    /// suffice to write a missing spec, that is a failure in the report. `devices` decides about
    /// every claim from now on.
    ///
    /// # Errors
    /// [`StartError`]: retry later.
    // req: NODE-22
    pub fn start(
        checkpoint: Arc<dyn Dir>,
        cdi: Arc<dyn Dir>,
        kind: Kind,
        boot: BootId,
        devices: D,
        facts: &D::Facts,
    ) -> Result<(Self, StartReport), StartError> {
        let specs = Arc::new(ClaimSpecs::new(cdi, kind));
        let (store, _) = Store::open(checkpoint, boot).map_err(StartError::Open)?;
        let claims = Self {
            store,
            specs,
            fences: Arc::default(),
            devices: Arc::new(devices),
            strays: Arc::default(),
        };
        let removed_records = claims.end_earlier_boot()?;
        claims.note_lost_claims()?;
        let damage = claims.damage();
        let failures = match damage {
            Damage::None => claims.write_missing_specs(facts)?,
            Damage::Damaged { .. } => Vec::new(),
        };
        let report = StartReport {
            damage,
            removed_records,
            failures,
        };
        Ok((claims, report))
    }

    /// Removes the specs of an earlier boot, then its records. Returns the number of
    /// removed records. Keeps records without a boot id if one of them has a spec: the
    /// CDI directory is usually empty after a reboot, so they are from this boot.
    // req: NODE-26
    fn end_earlier_boot(&self) -> Result<usize, StartError> {
        let specs = Arc::clone(&self.specs);
        self.commit(move |claims| {
            if *claims.boot() == Boot::Same || *claims.damage() != Damage::None {
                return Ok(0);
            }
            let uids: Vec<ClaimUid> = claims
                .records_unchecked()
                .filter_map(|(uid, _)| ClaimUid::new(uid).ok())
                .collect();
            if *claims.boot() == Boot::Missing {
                for uid in &uids {
                    if specs.exists(uid)? {
                        claims.assume_same_boot()?;
                        return Ok(0);
                    }
                }
            }
            for uid in &uids {
                let steps = steps(claims, uid.as_str(), Transaction::StartAfterReboot);
                if *steps == [Step::RemoveSpec, Step::Record(Event::AfterReboot)] {
                    specs.remove(uid)?;
                }
            }
            let removed = claims.records_unchecked().count();
            claims.remove_earlier_boot();
            Ok(removed)
        })
    }

    /// Writes the missing specs of Completed records. Returns the errors.
    // req: NODE-25
    pub(crate) fn write_missing_specs(&self, facts: &D::Facts) -> Result<Vec<String>, StartError> {
        Ok(self.rewrite_all(Transaction::Start, facts)?.failures)
    }
}

// === impl StartError ===

impl From<StoreError> for StartError {
    fn from(error: StoreError) -> Self {
        Self::Checkpoint {
            reason: error_chain(&error),
        }
    }
}

impl From<Refused> for StartError {
    fn from(refused: Refused) -> Self {
        Self::Checkpoint {
            reason: error_chain(&refused),
        }
    }
}

impl From<ClaimSpecsError> for StartError {
    fn from(source: ClaimSpecsError) -> Self {
        Self::Cdi(source)
    }
}
