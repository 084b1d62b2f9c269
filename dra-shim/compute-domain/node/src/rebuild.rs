//! Finding out which claims hold devices, after the checkpoint was damaged. Records that are missing are damage,
//! too: the claim has a CDI spec.

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard, PoisonError};

use dra_checkpoint::lifecycle::{Event, Phase};
use dra_checkpoint::{Boot, ClaimRef, ClaimStatus, Claims, View};
use dra_common::error_chain;
use imex_cdi::{ChannelId, ClaimSpecs, ClaimUid, DeviceName, Major};

use crate::device_group::DeviceGroup;
use crate::guard::{DomainState, Guard};
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

/// What [`NodeClaims::rebuild`] did, for log and event.
#[derive(Debug, Default)]
pub struct RebuildReport {
    /// The claims whose records were restored.
    pub restored: Vec<ClaimRef>,
    /// The file names of the CDI specs that were removed: their claims are not allocated to this node.
    pub removed: Vec<String>,
    /// Why specs do not match their records yet, one line each. A later call for the
    /// claim, or the next start, tries again.
    pub failures: Vec<String>,
}

impl NodeClaims {
    /// The claims that a damaged checkpoint may have lost: they have a CDI spec on
    /// this node and no record. No other claim can have been prepared here, so
    /// [`rebuild`](Self::rebuild) needs to know of no other. A spec tells only the UID:
    /// look for the rest among all claims of the cluster. None after a reboot:
    /// nothing is prepared then, and every spec is stale.
    ///
    /// A look without lock, and so from what this process knows of the records.
    ///
    /// # Errors
    /// [`StartError::Cdi`]: try again.
    pub fn lost_claims(&self) -> Result<BTreeSet<String>, StartError> {
        lost_claims(&self.store.view(), &self.specs)
    }

    /// Makes the checkpoint count as damaged if there are [`lost_claims`](Self::lost_claims): somebody has put
    /// back an older one, or removed it. To be called from time to time.
    ///
    /// # Errors
    /// [`StartError`]: try again.
    // req: CKPT-14
    pub fn note_lost_claims(&self) -> Result<(), StartError> {
        let strays = self.strays().clone();
        if self.lost_claims()?.is_subset(&strays) {
            return Ok(());
        }
        let specs = Arc::clone(&self.specs);
        self.commit(move |claims| {
            // Now with what other processes have written.
            if !lost_claims(claims, &specs)?.is_subset(&strays) {
                claims.note_missing();
            }
            Ok(())
        })
    }

    /// Restores the records that a damaged checkpoint has lost: a claim that is
    /// allocated here and has a CDI spec here was prepared here. The specs of other claims
    /// without a record are removed. Then claims can be prepared again.
    ///
    /// `allocated` is every claim of [`lost_claims`](Self::lost_claims) that is
    /// allocated to this node: one that is missing from it loses its device.
    ///
    /// # Errors
    /// [`StartError`]: try again; nothing is prepared before.
    // req: CKPT-13
    pub fn rebuild(
        &self,
        allocated: Vec<AllocatedClaim>,
        major: Option<Major>,
    ) -> Result<RebuildReport, StartError> {
        let (specs, guard) = (Arc::clone(&self.specs), self.guard);
        let mut report = self.commit(move |claims| {
            if matches!(claims.boot(), Boot::Changed { .. }) {
                // Nothing is prepared since the reboot: every spec is stale.
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
                if restore(claims, &specs, guard, (&uid, claim), (status, request))? {
                    restored.push(name);
                }
            }
            claims.assume_same_boot()?;
            // Before the damage is over: such a spec would be damage again.
            let (removed, failures) = remove_specs_without_record(claims, &specs, others)?;
            claims.mark_rebuilt();
            Ok::<_, StartError>(RebuildReport {
                restored,
                removed,
                failures,
            })
        })?;
        // Those that could not be removed would be damage again.
        *self.strays() = self.lost_claims()?;
        report.failures.extend(self.write_missing_specs(major)?);
        Ok(report)
    }

    fn strays(&self) -> MutexGuard<'_, BTreeSet<String>> {
        // A panic elsewhere cannot leave it half-changed.
        self.strays.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the names of the files that are gone, and why others are not. The specs of `others` stay: these claims
/// are allocated here and are not ours to prepare, such as those of the Go driver's IMEX daemons.
// req: CKPT-14
fn remove_specs_without_record(
    claims: &Claims<DeviceGroup>,
    specs: &ClaimSpecs,
    others: BTreeSet<ClaimUid>,
) -> Result<(Vec<String>, Vec<String>), StartError> {
    // A claim without a record is not among those to keep.
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

/// Returns whether the record was lost, and is restored.
fn restore(
    claims: &mut Claims<DeviceGroup>,
    specs: &ClaimSpecs,
    guard: Guard,
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
    let Some(channel) = opened_channel(specs, guard, uid, &request)? else {
        return Ok(false);
    };
    let id = specs.id(uid, &channel.device_name()).to_string();
    let group = request.device_group(channel, vec![id]);
    claims.restore(&claim, status, vec![group])?;
    Ok(state.record == Phase::Absent)
}

/// The channel that the claim opens: its spec says so, since that is what its containers
/// have. `None` if the spec is damaged, too, and each domain has a channel of its own: the
/// claim must not open another one from now on.
fn opened_channel(
    specs: &ClaimSpecs,
    guard: Guard,
    uid: &ClaimUid,
    request: &ChannelRequest,
) -> Result<Option<ChannelId>, StartError> {
    let devices = specs.devices(uid)?;
    let names = devices.iter().map(DeviceName::as_str);
    let mut channels = names.filter_map(|name| ChannelId::from_device_name(name).ok());
    let domain = DomainState::Unassigned;
    let by_request = || guard.channel(request, domain, "").ok();
    Ok(channels.next().or_else(by_request))
}

#[cfg(test)]
#[path = "rebuild_tests.rs"]
mod tests;
