//! Recovery of a damaged checkpoint: finds out which claims hold devices. A CDI spec without a record is damage, too.

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard, PoisonError};

use dra_checkpoint::lifecycle::{Event, Phase};
use dra_checkpoint::{Boot, ClaimRef, ClaimStatus, Claims, View};
use dra_common::error_chain;
use imex_cdi::{ChannelId, ClaimSpecs, ClaimUid, DeviceName, Major};

use crate::device_group::DeviceGroup;
use crate::holder_policy::{DomainState, HolderPolicy};
use crate::lifecycle::{ClaimState, Step, Transaction};
use crate::node_claims::{NodeClaims, steps};
use crate::request::ChannelRequest;
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

impl NodeClaims {
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
    /// `allocated` must have every claim of [`lost_claims`](Self::lost_claims) that is
    /// allocated to this node: a claim that is missing here loses its device.
    ///
    /// # Errors
    /// [`StartError`]: retry. Until this succeeds, no claim is prepared.
    // req: CKPT-13
    pub fn rebuild(
        &self,
        allocated: Vec<AllocatedClaim>,
        major: Option<Major>,
    ) -> Result<RebuildReport, StartError> {
        let (specs, holder_policy) = (Arc::clone(&self.specs), self.holder_policy);
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
                let Ok(request) = ChannelRequest::from_status(&status) else {
                    others.insert(uid);
                    continue;
                };
                let name = claim.clone();
                if restore(
                    claims,
                    &specs,
                    holder_policy,
                    (&uid, claim),
                    (status, request),
                )? {
                    restored.push(name);
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
        report.failures.extend(self.write_missing_specs(major)?);
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
fn remove_specs_without_record(
    claims: &Claims<DeviceGroup>,
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

fn lost_claims(
    view: &View<DeviceGroup>,
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

/// Restores the record if it was lost. Returns whether it was.
fn restore(
    claims: &mut Claims<DeviceGroup>,
    specs: &ClaimSpecs,
    holder_policy: HolderPolicy,
    (uid, claim): (&ClaimUid, ClaimRef),
    (status, request): (ClaimStatus, ChannelRequest),
) -> Result<bool, StartError> {
    let state = ClaimState {
        record: claims.phase(uid.as_str()),
        has_spec: specs.exists(uid)?,
    };
    if *state.steps(Transaction::Rebuild) != [Step::Record(Event::Restore)] {
        return Ok(false);
    }
    let Some(channel) = opened_channel(specs, holder_policy, uid, &request)? else {
        return Ok(false);
    };
    let id = specs.id(uid, &channel.device_name()).to_string();
    let group = request.device_group(channel, vec![id]);
    claims.restore(&claim, status, vec![group])?;
    Ok(state.record == Phase::Absent)
}

/// The channel that the claim opens, according to its spec: its containers have that channel.
/// `None` if the spec is damaged, too, and each domain has its own channel: the claim must not
/// open another channel from now on.
fn opened_channel(
    specs: &ClaimSpecs,
    holder_policy: HolderPolicy,
    uid: &ClaimUid,
    request: &ChannelRequest,
) -> Result<Option<ChannelId>, StartError> {
    let devices = specs.devices(uid)?;
    let names = devices.iter().map(DeviceName::as_str);
    let mut channels = names.filter_map(|name| ChannelId::from_device_name(name).ok());
    let domain = DomainState::Unassigned;
    let by_request = || holder_policy.channel(request, domain, "").ok();
    Ok(channels.next().or_else(by_request))
}

#[cfg(test)]
#[path = "rebuild_tests.rs"]
mod tests;
