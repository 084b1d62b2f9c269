//! Prepare: the claim's record becomes Started, its CDI spec is written, its record becomes Completed. The checkpoint
//! is written twice; claims that are prepared at the same time share these writes.

use std::sync::Arc;

use dra_checkpoint::lifecycle::Phase;
use dra_checkpoint::{ClaimRef, ClaimStatus, KubeletDevice};
use dra_common::error_chain;
use imex_cdi::{ChannelId, ClaimUid, Major};

use crate::begin_prepare::{BeginOutcome, BeginPrepare, answer_if_prepared};
use crate::end_prepare::EndPrepare;
use crate::error::PrepareError;
use crate::hardware::Hardware;
use crate::holder_policy::DomainState;
use crate::imex_daemon::NeededDaemon;
use crate::moment::Moment;
use crate::node_claims::NodeClaims;
use crate::policy::PrepareAnswer;
use crate::request::ChannelRequest;
use crate::spec::ensure;

/// The claim to prepare, and all facts that the decision depends on.
#[derive(Debug, Clone, Copy)]
pub struct PrepareInput<'a> {
    /// The claim.
    pub claim: &'a ClaimRef,
    /// Its status, as the API server sent it. It identifies the allocation to prepare.
    pub status: &'a ClaimStatus,
    /// The result of [`ChannelRequest::from_status`], with the claim's label.
    pub request: &'a ChannelRequest,
    /// The state of the request's domain in the API server.
    pub domain: DomainState,
    /// The name of the node. Its own pool has the same name.
    pub node: &'a str,
    /// The node's hardware.
    pub hardware: &'a Hardware,
    /// The current time, for the fence of an aborted Prepare.
    pub now: Moment,
}

/// A prepared claim.
#[derive(Debug)]
pub struct Prepared {
    /// The devices for kubelet: the same at every call.
    pub devices: Vec<KubeletDevice>,
    /// The fabric's problem, if it works but is degraded.
    pub degraded: Option<String>,
    /// Why the claim was prepared without a device: in driver-managed mode, the node has no
    /// clique.
    pub without_device: Option<String>,
}

/// The last transaction of a Prepare, or the answer that needs none.
pub(crate) enum AfterBegin {
    Prepared(Vec<KubeletDevice>),
    Continues(Box<EndPrepare>),
}

// === impl NodeClaims ===

impl NodeClaims {
    /// Whether the claim is prepared according to this process's cache. Another process may have
    /// changed that: call [`already_prepared`](Self::already_prepared) before answering.
    pub fn cached_as_prepared(&self, uid: &str) -> bool {
        self.store.view().phase(uid) == Phase::Completed
    }

    /// The answer for a claim that is already prepared. Rewrites its CDI spec if it
    /// is missing or different, and writes no record. A prepared claim stays
    /// prepared, regardless of config and fabric.
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
        // In a commit, because another process may have changed the record. Without
        // the lock, an Unprepare there could interrupt this and leave a spec without
        // a record.
        let devices = self.commit(move |claims| answer_if_prepared(claims, &specs, &uid, major))?;
        Ok(devices.map(|devices| Prepared {
            devices,
            degraded: None,
            without_device: None,
        }))
    }

    /// Prepares a claim for which [`already_prepared`](Self::already_prepared) has no
    /// answer. May be repeated; resumes after a crash. Concurrent calls share durable writes.
    ///
    /// # Errors
    /// [`PrepareError`], checked in this order: the device or channel is in use; the device is
    /// not this driver's; the domain does not exist or has no channel; the claim lacks the
    /// domain's label; the hardware does not allow it; a file cannot be written. The claim then
    /// holds no device. A Started record and its spec may remain: the next call resumes them, and
    /// [`unprepare`](Self::unprepare) removes them.
    // req: NODE-16, NODE-22
    pub fn prepare(&self, input: &PrepareInput<'_>) -> Result<Prepared, PrepareError> {
        let begun = self.begin(input)?;
        let continued = self.write_spec(input, begun)?;
        Ok(Prepared {
            devices: self.end(continued)?,
            degraded: input.hardware.warning(),
            without_device: self
                .is_without_device(input)
                .then(|| input.hardware.fabric.to_string()),
        })
    }

    /// Writes the Started record before the first side effect. Returns early if
    /// the claim is already prepared or refused.
    pub(crate) fn begin(&self, input: &PrepareInput<'_>) -> Result<BeginOutcome, PrepareError> {
        let beginning = self.beginning(input)?;
        let (specs, fences) = (Arc::clone(&self.specs), Arc::clone(&self.fences));
        let holder_policy = self.holder_policy;
        self.commit(move |claims| beginning.run(claims, &specs, &fences, holder_policy))
    }

    /// Writes the spec of a claim with a Started record, without holding the lock.
    pub(crate) fn write_spec(
        &self,
        input: &PrepareInput<'_>,
        begun: BeginOutcome,
    ) -> Result<AfterBegin, PrepareError> {
        let (channel, major) = match begun {
            BeginOutcome::Prepared(devices) => return Ok(AfterBegin::Prepared(devices)),
            BeginOutcome::Started(channel, major) => (channel, major),
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
    fn is_without_device(&self, input: &PrepareInput<'_>) -> bool {
        self.daemon.is_some() && input.hardware.policy().prepare == PrepareAnswer::NoClique
    }

    /// The channel that the claim opens, if it may.
    fn channel_of(&self, input: &PrepareInput<'_>) -> Result<ChannelId, PrepareError> {
        input.request.check_pool(input.node)?;
        let namespace = &input.claim.namespace;
        let channel = self
            .holder_policy
            .channel(input.request, input.domain, namespace)?;
        input.request.check_label(input.domain)?;
        if self.is_without_device(input) {
            return Ok(channel);
        }
        input.hardware.require_channel(channel)
    }

    /// The major of channels, if the hardware allows one; `None` if the claim goes without a device.
    fn allowed(&self, input: &PrepareInput<'_>) -> Result<Option<Major>, PrepareError> {
        let major = if self.is_without_device(input) {
            None
        } else {
            Some(input.hardware.require_major()?)
        };
        input.hardware.require_clique(&input.request.pool)?;
        Ok(major)
    }

    /// The claim's requirements on the IMEX daemon, in driver-managed mode.
    fn needed_daemon(&self, input: &PrepareInput<'_>) -> Option<NeededDaemon> {
        let daemon = self.daemon.clone()?;
        let clique = input.hardware.fabric.clique();
        let clique = clique.map(|clique| clique.to_string());
        // In any other state, the hardware check refuses the claim.
        let is_known = clique.is_some() || self.is_without_device(input);
        is_known.then_some(NeededDaemon { daemon, clique })
    }

    /// Repeats the checks and completes the record in one commit. Of two claims
    /// that want the device, the second one is refused and its spec removed.
    pub(crate) fn end(&self, claim: AfterBegin) -> Result<Vec<KubeletDevice>, PrepareError> {
        let ending = match claim {
            AfterBegin::Prepared(devices) => return Ok(devices),
            AfterBegin::Continues(ending) => ending,
        };
        let (specs, holder_policy) = (Arc::clone(&self.specs), self.holder_policy);
        self.commit(move |claims| ending.run(claims, &specs, holder_policy))
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
