//! Recovery of a damaged checkpoint: finds out which claims hold devices. A CDI spec without a record is damage, too.

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard, PoisonError};

use dra_checkpoint::lifecycle::{Event, Phase};
use dra_checkpoint::{Boot, ClaimRef, ClaimStatus, Claims, Payload, View};
use dra_common::error_chain;
use imex_cdi::{ClaimSpecs, ClaimUid, DeviceName};

use crate::devices::{Devices, Restored};
use crate::lifecycle::{ClaimState, Step, Transaction};
use crate::node_claims::{NodeClaims, steps};
use crate::start::StartError;

/// A claim that the API server reports as allocated on this node.
#[derive(Debug, Clone)]
pub struct AllocatedClaim {
    /// Its names and UID.
    pub claim: ClaimRef,
    /// Its status.
    pub status: ClaimStatus,
}

/// Result of [`NodeClaims::rebuild`], for log and event.
#[derive(Debug, Default)]
pub struct RebuildReport {
    /// The claims whose records were restored.
    pub restored: Vec<ClaimRef>,
    /// The file names of the removed CDI specs: their claims are not allocated to this node.
    pub removed: Vec<String>,
    /// Why specs do not match their records yet, one line each. The claim's next call or the next
    /// start retries.
    pub failures: Vec<String>,
}

impl<D: Devices> NodeClaims<D> {
    /// The UIDs of claims with a CDI spec on this node but no record: a damaged checkpoint may have
    /// lost them. No other claim can have been prepared here, so [`rebuild`](Self::rebuild) needs no
    /// others. A spec has only the UID: look up the claims among all claims of the cluster. Empty
    /// after a reboot: no claim is prepared then, and every spec is stale.
    ///
    /// Takes no lock, and uses this process's cached records.
    ///
    /// # Errors
    /// [`StartError::Cdi`]: retry.
    pub fn lost_claims(&self) -> Result<BTreeSet<String>, StartError> {
        lost_claims(&self.store.view(), &self.specs)
    }

    /// Marks the checkpoint as damaged if there are [`lost_claims`](Self::lost_claims): it was removed, or replaced by
    /// an older one. Call this periodically.
    ///
    /// # Errors
    /// [`StartError`]: retry.
    // req: CKPT-14
    pub fn note_lost_claims(&self) -> Result<(), StartError> {
        let strays = self.strays().clone();
        if self.lost_claims()?.is_subset(&strays) {
            return Ok(());
        }
        let specs = Arc::clone(&self.specs);
        self.commit(move |claims| {
            // Now with the records that other processes have written.
            if !lost_claims(claims, &specs)?.is_subset(&strays) {
                claims.note_missing();
            }
            Ok(())
        })
    }

    /// Restores the records that a damaged checkpoint has lost: a claim that is
    /// allocated to this node and has a CDI spec here was prepared here. Removes the specs of other
    /// claims without a record. Afterwards, claims can be prepared again.
    ///
    /// Each claim gets what [`Devices::restored`] returns. Two claims with one device are not detected: the
    /// API server's allocations are already exclusive, except with `adminAccess` and for shared devices.
    ///
    /// `allocated` must have every claim of [`lost_claims`](Self::lost_claims) that is
    /// allocated to this node: a claim that is missing here loses its device.
    ///
    /// # Errors
    /// [`StartError`]: retry. Until this succeeds, no claim is prepared.
    // req: CKPT-13
    pub fn rebuild(
        &self,
        allocated: Vec<AllocatedClaim>,
        facts: &D::Facts,
    ) -> Result<RebuildReport, StartError> {
        let (specs, devices) = (Arc::clone(&self.specs), Arc::clone(&self.devices));
        let known = facts.clone();
        let mut report = self.commit(move |claims| {
            if matches!(claims.boot(), Boot::Changed { .. }) {
                // No claim was prepared since the reboot: every spec is stale.
                specs.sweep(&BTreeSet::new())?;
                claims.remove_earlier_boot();
            }
            let (mut restored, mut others) = (Vec::new(), BTreeSet::new());
            for AllocatedClaim { claim, status } in allocated {
                let Ok(uid) = ClaimUid::new(claim.uid.as_str()) else {
                    continue; // no spec has such a name
                };
                match restore(claims, &*devices, &specs, &known, (&uid, &claim, status))? {
                    Outcome::Restored => restored.push(claim),
                    Outcome::Foreign => drop(others.insert(uid)),
                    Outcome::Unchanged => {}
                }
            }
            claims.assume_same_boot()?;
            // Before marking as rebuilt: such a spec would count as damage again.
            let (removed, failures) = remove_specs_without_record(claims, &specs, others)?;
            claims.mark_rebuilt();
            Ok::<_, StartError>(RebuildReport {
                restored,
                removed,
                failures,
            })
        })?;
        // Specs that could not be removed would count as damage again.
        *self.strays() = self.lost_claims()?;
        report.failures.extend(self.write_missing_specs(facts)?);
        Ok(report)
    }

    fn strays(&self) -> MutexGuard<'_, BTreeSet<String>> {
        // A panic elsewhere cannot leave it half-changed.
        self.strays.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the names of the removed files, and the errors. Keeps the specs of `others`: claims that are allocated
/// here, but that this driver does not prepare, such as those of the Go driver's IMEX daemons.
// req: CKPT-14
fn remove_specs_without_record<G: Payload>(
    claims: &Claims<G>,
    specs: &ClaimSpecs,
    others: BTreeSet<ClaimUid>,
) -> Result<(Vec<String>, Vec<String>), StartError> {
    // A claim without a record is not kept.
    let recorded = claims.records_unchecked();
    let keep: BTreeSet<_> = recorded
        .filter_map(|(uid, _)| ClaimUid::new(uid).ok())
        .filter(|uid| {
            let steps = steps(claims, uid.as_str(), Transaction::RebuildWithout);
            *steps != [Step::RemoveSpec]
        })
        .chain(others)
        .collect();
    let swept = specs.sweep(&keep)?;
    let failed = swept.failed.iter().map(|error| error_chain(error));
    Ok((swept.removed, failed.collect()))
}

fn lost_claims<G: Payload>(
    view: &View<G>,
    specs: &ClaimSpecs,
) -> Result<BTreeSet<String>, StartError> {
    if matches!(view.boot(), Boot::Changed { .. }) {
        return Ok(BTreeSet::new());
    }
    let specs = specs.claims()?;
    let uids = specs.iter().map(ClaimUid::as_str);
    let lost = uids.filter(|uid| view.get(uid).is_none());
    Ok(lost.map(str::to_owned).collect())
}

/// What became of an allocated claim.
enum Outcome {
    /// It had lost its record.
    Restored,
    /// It is not of this driver's kind.
    Foreign,
    Unchanged,
}

/// Restores the record if it was lost.
fn restore<D: Devices>(
    claims: &mut Claims<D::Group>,
    devices: &D,
    specs: &ClaimSpecs,
    facts: &D::Facts,
    (uid, claim, status): (&ClaimUid, &ClaimRef, ClaimStatus),
) -> Result<Outcome, StartError> {
    let state = ClaimState {
        record: claims.phase(uid.as_str()),
        has_spec: specs.exists(uid)?,
    };
    if *state.steps(Transaction::Rebuild) != [Step::Record(Event::Restore)] {
        return Ok(Outcome::Unchanged);
    }
    let id = |device: &DeviceName| specs.id(uid, device).to_string();
    match devices.restored(&status, facts, &specs.devices(uid)?, &id) {
        Restored::Foreign => Ok(Outcome::Foreign),
        Restored::Unknown => Ok(Outcome::Unchanged),
        Restored::NotYet(reason) => Err(StartError::DevicesUnknown {
            claim: claim.clone(),
            reason,
        }),
        Restored::Devices(groups) => {
            claims.restore(claim, status, groups)?;
            Ok(match state.record {
                Phase::Absent => Outcome::Restored,
                _ => Outcome::Unchanged,
            })
        }
    }
}
