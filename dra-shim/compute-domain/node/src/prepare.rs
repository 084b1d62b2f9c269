//! Prepare: the claim's record becomes Started, its CDI spec is written, its record becomes Completed. Two durable
//! writes of the checkpoint, which claims that are prepared at the same time share.

use std::sync::Arc;

use dra_checkpoint::lifecycle::Phase;
use dra_checkpoint::{ClaimRef, ClaimStatus};
use dra_common::error_chain;
use imex_cdi::{ChannelId, ClaimUid, Major};

use crate::begin_prepare::{BeginPrepare, Begun, answer_if_prepared};
use crate::device_group::KubeletDevice;
use crate::end_prepare::EndPrepare;
use crate::error::PrepareError;
use crate::guard::DomainState;
use crate::hardware::Hardware;
use crate::imex_daemon::NeededDaemon;
use crate::moment::Moment;
use crate::node_claims::NodeClaims;
use crate::policy::PrepareAnswer;
use crate::request::ChannelRequest;
use crate::spec::ensure;

/// The claim to prepare, and every fact that decides about it.
#[derive(Debug, Clone, Copy)]
pub struct PrepareInput<'a> {
    /// The claim.
    pub claim: &'a ClaimRef,
    /// Its status as the API server sent it: it identifies the allocation that is
    /// to be prepared.
    pub status: &'a ClaimStatus,
    /// What [`ChannelRequest::from_status`] read from the status, with the claim's label.
    pub request: &'a ChannelRequest,
    /// What the API server says of the request's domain.
    pub domain: DomainState,
    /// The name of the node, which is that of its own pool, too.
    pub node: &'a str,
    /// The node's hardware.
    pub hardware: &'a Hardware,
    /// The current time, for the fence of an aborted Prepare.
    pub now: Moment,
}

/// A prepared claim.
#[derive(Debug)]
pub struct Prepared {
    /// The devices to answer kubelet with: the same ones at every call.
    pub devices: Vec<KubeletDevice>,
    /// What is wrong with the fabric, where it works but not well.
    pub degraded: Option<String>,
    /// Why the claim was prepared without a device: the node has no clique, in the
    /// driver-managed mode.
    pub without_device: Option<String>,
}

/// The last transaction of a Prepare, or the answer that needs none.
pub(crate) enum AfterBegin {
    Prepared(Vec<KubeletDevice>),
    Continues(Box<EndPrepare>),
}

// === impl NodeClaims ===

impl NodeClaims {
    /// Whether this process knows the claim as prepared. Another one may have changed that: ask
    /// [`already_prepared`](Self::already_prepared) before answering.
    pub fn cached_as_prepared(&self, uid: &str) -> bool {
        self.store.view().phase(uid) == Phase::Completed
    }

    /// The answer for a claim that is prepared already, after its CDI spec is
    /// written again if it is missing or different. Neither config nor fabric
    /// matter: a prepared claim stays prepared. Writes no record.
    ///
    /// `None`: [prepare](Self::prepare) the claim. `major` is the channel major,
    /// if it is known.
    ///
    /// # Errors
    /// [`PrepareError`] where the spec or the checkpoint cannot be used.
    // req: KUBELET-33
    pub fn already_prepared(
        &self,
        claim: &ClaimRef,
        major: Option<Major>,
    ) -> Result<Option<Prepared>, PrepareError> {
        let uid = claim_uid(&claim.uid)?;
        let specs = Arc::clone(&self.specs);
        // In a commit, since another process may have changed the record; and
        // without the lock, an Unprepare there could come in between and leave a
        // spec without record.
        let devices = self.commit(move |claims| answer_if_prepared(claims, &specs, &uid, major))?;
        Ok(devices.map(|devices| Prepared {
            devices,
            degraded: None,
            without_device: None,
        }))
    }

    /// Prepares a claim for which [`already_prepared`](Self::already_prepared) has no
    /// answer. May be repeated, and resumes what a crash interrupted. Calls of several
    /// threads share durable writes.
    ///
    /// # Errors
    /// [`PrepareError`]: device or channel are in use, the device is none of
    /// this driver's, the domain does not exist or has no channel, the claim lacks the
    /// domain's label, the hardware does not allow it, a file cannot be written; in this order.
    /// The claim then holds no device. A Started record and its spec may remain: the next call
    /// resumes them, [`unprepare`](Self::unprepare) removes them.
    // req: NODE-16, NODE-22
    pub fn prepare(&self, input: &PrepareInput<'_>) -> Result<Prepared, PrepareError> {
        let begun = self.begin(input)?;
        let continued = self.write_spec(input, begun)?;
        Ok(Prepared {
            devices: self.end(continued)?,
            degraded: input.hardware.warning(),
            without_device: self
                .goes_without(input)
                .then(|| input.hardware.fabric.to_string()),
        })
    }

    /// Writes the Started record before the first side effect, and answers early
    /// where the claim is prepared or refused.
    pub(crate) fn begin(&self, input: &PrepareInput<'_>) -> Result<Begun, PrepareError> {
        let beginning = self.beginning(input)?;
        let (specs, fences) = (Arc::clone(&self.specs), Arc::clone(&self.fences));
        let guard = self.guard;
        self.commit(move |claims| beginning.run(claims, &specs, &fences, guard))
    }

    /// Writes a begun claim's spec. The lock is not held: the record announces it.
    pub(crate) fn write_spec(
        &self,
        input: &PrepareInput<'_>,
        begun: Begun,
    ) -> Result<AfterBegin, PrepareError> {
        let (channel, major) = match begun {
            Begun::Prepared(devices) => return Ok(AfterBegin::Prepared(devices)),
            Begun::Started(channel, major) => (channel, major),
        };
        let uid = claim_uid(&input.claim.uid)?;
        let ids = match major {
            Some(major) => {
                let written = ensure(&self.specs, &uid, channel, major)?;
                written.ids.iter().map(ToString::to_string).collect()
            }
            None => Vec::new(),
        };
        Ok(AfterBegin::Continues(Box::new(EndPrepare {
            uid,
            status: input.status.clone(),
            request: input.request.clone(),
            channel,
            major,
            daemon: self.needed_daemon(input),
            group: input.request.device_group(channel, ids),
        })))
    }

    fn beginning(&self, input: &PrepareInput<'_>) -> Result<BeginPrepare, PrepareError> {
        Ok(BeginPrepare {
            uid: claim_uid(&input.claim.uid)?,
            claim: input.claim.clone(),
            status: input.status.clone(),
            request: input.request.clone(),
            known_major: input.hardware.major.as_ref().ok().copied(),
            channel: self.channel_of(input),
            allowed: self.allowed(input),
            daemon: self.needed_daemon(input),
            now: input.now,
        })
    }

    /// Whether the claim is prepared without a device, as the Go driver does.
    // req: MODE-20
    fn goes_without(&self, input: &PrepareInput<'_>) -> bool {
        self.daemon.is_some() && input.hardware.policy().prepare == PrepareAnswer::NoClique
    }

    /// The channel that the claim opens, if it may.
    fn channel_of(&self, input: &PrepareInput<'_>) -> Result<ChannelId, PrepareError> {
        input.request.check_pool(input.node)?;
        let namespace = &input.claim.namespace;
        let channel = self.guard.channel(input.request, input.domain, namespace)?;
        input.request.check_label(input.domain)?;
        if self.goes_without(input) {
            return Ok(channel);
        }
        input.hardware.require_channel(channel)
    }

    /// The major of channels, if the hardware allows one; `None` if the claim goes without a device.
    fn allowed(&self, input: &PrepareInput<'_>) -> Result<Option<Major>, PrepareError> {
        let major = if self.goes_without(input) {
            None
        } else {
            Some(input.hardware.require_major()?)
        };
        input.hardware.require_clique(&input.request.pool)?;
        Ok(major)
    }

    /// What the claim needs of the daemon, where the driver runs one.
    fn needed_daemon(&self, input: &PrepareInput<'_>) -> Option<NeededDaemon> {
        let daemon = self.daemon.clone()?;
        let clique = input.hardware.fabric.clique();
        let clique = clique.map(|clique| clique.to_string());
        // Without either, the hardware allows no device.
        let is_known = clique.is_some() || self.goes_without(input);
        is_known.then_some(NeededDaemon { daemon, clique })
    }

    /// The deciding checks and the record that they guard, in one commit. Of two
    /// claims that want the device, the second one loses and removes its spec.
    pub(crate) fn end(&self, claim: AfterBegin) -> Result<Vec<KubeletDevice>, PrepareError> {
        let ending = match claim {
            AfterBegin::Prepared(devices) => return Ok(devices),
            AfterBegin::Continues(ending) => ending,
        };
        let (specs, guard) = (Arc::clone(&self.specs), self.guard);
        self.commit(move |claims| ending.run(claims, &specs, guard))
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
