//! Finding out which claims hold devices, after the checkpoint was damaged.

use std::collections::BTreeSet;
use std::sync::Arc;

use dra_checkpoint::{Boot, ClaimName, ClaimStatus, Claims};
use imex_cdi::{ChannelId, ClaimSpecs, ClaimUid, DeviceName, Major};

use crate::device_group::DeviceGroup;
use crate::guard::{DomainState, Guard};
use crate::lifecycle::{ClaimState, Step, Transaction};
use crate::node_claims::NodeClaims;
use crate::request::ChannelRequest;
use crate::start::{SpecReport, StartError};

/// A claim that the API server reports as allocated on this node.
#[derive(Debug, Clone)]
pub struct AllocatedClaim {
    /// Its names and UID.
    pub claim: ClaimName,
    /// Its status.
    pub status: ClaimStatus,
}

impl NodeClaims {
    /// The claims that a damaged checkpoint may have lost: they have a CDI spec on
    /// this node and no record. No other claim can have been prepared here, so
    /// [`rebuild`](Self::rebuild) needs to know of no other. A spec tells only the UID:
    /// look for the rest among all claims of the cluster. None after a reboot:
    /// nothing is prepared then, and every spec is stale.
    ///
    /// # Errors
    /// [`StartError::Cdi`]: try again.
    pub fn lost_claims(&self) -> Result<BTreeSet<String>, StartError> {
        let view = self.store.view();
        if matches!(view.boot(), Boot::Changed { .. }) {
            return Ok(BTreeSet::new());
        }
        let specs = self.specs.claims()?;
        let uids = specs.iter().map(ClaimUid::as_str);
        let lost = uids.filter(|uid| view.get(uid).is_none());
        Ok(lost.map(str::to_owned).collect())
    }

    /// Restores the records that a damaged checkpoint has lost: a claim that is
    /// allocated here and has a CDI spec here was prepared here. Then specs are
    /// aligned with records, as by [`start`](Self::start), and claims can be
    /// prepared again.
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
    ) -> Result<SpecReport, StartError> {
        let (specs, guard) = (Arc::clone(&self.specs), self.guard);
        self.commit(move |claims| {
            if matches!(claims.boot(), Boot::Changed { .. }) {
                // Nothing is prepared since the reboot: every spec is stale.
                specs.sweep(&BTreeSet::new())?;
                claims.remove_earlier_boot();
            }
            for claim in allocated {
                restore(claims, &specs, guard, claim)?;
            }
            claims.assume_same_boot()?;
            claims.mark_rebuilt();
            Ok::<_, StartError>(())
        })?;
        self.align_specs(major)
    }
}

fn restore(
    claims: &mut Claims<DeviceGroup>,
    specs: &ClaimSpecs,
    guard: Guard,
    allocated: AllocatedClaim,
) -> Result<(), StartError> {
    let AllocatedClaim { claim, status } = allocated;
    let (Ok(uid), Ok(request)) = (
        ClaimUid::new(claim.uid.as_str()),
        ChannelRequest::from_status(&status),
    ) else {
        return Ok(()); // not one that we prepare
    };
    let state = ClaimState {
        record: claims.phase(uid.as_str()),
        has_spec: specs.exists(&uid)?,
    };
    if !state
        .steps(Transaction::Rebuild)
        .contains(&Step::RestoreRecord)
    {
        return Ok(());
    }
    let Some(channel) = opened_channel(specs, guard, &uid, &request)? else {
        return Ok(());
    };
    let id = specs.id(&uid, &channel.device_name()).to_string();
    let group = request.device_group(channel, vec![id]);
    Ok(claims.restore(&claim, status, vec![group])?)
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
