//! Prepare of a channel claim: the facts about it, and the answer.

use dra_checkpoint::{ClaimRef, ClaimStatus, KubeletDevice};
use imex_cdi::{ChannelId, Major};
use node_claims::{Moment, Prepare};

use crate::channels::{ImexChannels, NodeClaims, WantedChannel};
use crate::error::PrepareError;
use crate::hardware::Hardware;
use crate::holder_policy::DomainState;
use crate::imex_daemon::NeededDaemon;
use crate::policy::PrepareAnswer;
use crate::request::ChannelRequest;

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

// === impl Prepared ===

impl From<Vec<KubeletDevice>> for Prepared {
    /// A claim that was prepared before.
    fn from(devices: Vec<KubeletDevice>) -> Self {
        Self {
            devices,
            degraded: None,
            without_device: None,
        }
    }
}

// === impl PrepareInput ===

impl PrepareInput<'_> {
    /// Prepares the claim.
    ///
    /// # Errors
    /// [`PrepareError`], checked in this order: the device or channel is in use; the device is
    /// not this driver's; the domain does not exist or has no channel; the claim lacks the
    /// domain's label; the hardware does not allow it; a file cannot be written. See
    /// [`prepare`](node_claims::NodeClaims::prepare).
    pub fn prepare(&self, claims: &NodeClaims) -> Result<Prepared, PrepareError> {
        let channels = claims.devices();
        Ok(Prepared {
            devices: claims.prepare(self.for_channels(channels))?,
            degraded: self.hardware.warning(),
            without_device: self
                .is_without_device(channels)
                .then(|| self.hardware.fabric.to_string()),
        })
    }

    /// What the engine needs of these facts.
    pub(crate) fn for_channels(&self, channels: &ImexChannels) -> Prepare<ImexChannels> {
        Prepare {
            claim: self.claim.clone(),
            status: self.status.clone(),
            request: WantedChannel {
                request: self.request.clone(),
                channel: self.channel(channels),
                allowed: self.allowed(channels),
                daemon: self.needed_daemon(channels),
            },
            facts: self.hardware.major.as_ref().ok().copied(),
            now: self.now,
        }
    }

    /// Whether the claim is prepared without a device, as the Go driver does.
    // req: MODE-20
    fn is_without_device(&self, channels: &ImexChannels) -> bool {
        channels.daemon.is_some() && self.hardware.policy().prepare == PrepareAnswer::NoClique
    }

    /// The channel that the claim opens, if it may.
    pub(crate) fn channel(&self, channels: &ImexChannels) -> Result<ChannelId, PrepareError> {
        self.request.check_pool(self.node)?;
        let namespace = &self.claim.namespace;
        let channel = channels
            .holder_policy
            .channel(self.request, self.domain, namespace)?;
        self.request.check_label(self.domain)?;
        if self.is_without_device(channels) {
            return Ok(channel);
        }
        self.hardware.require_channel(channel)
    }

    /// The major of channels, if the hardware allows one; `None` if the claim goes without a device.
    fn allowed(&self, channels: &ImexChannels) -> Result<Option<Major>, PrepareError> {
        let major = if self.is_without_device(channels) {
            None
        } else {
            Some(self.hardware.require_major()?)
        };
        self.hardware.require_clique(&self.request.pool)?;
        Ok(major)
    }

    /// The claim's requirements on the IMEX daemon, in driver-managed mode.
    fn needed_daemon(&self, channels: &ImexChannels) -> Option<NeededDaemon> {
        let daemon = channels.daemon.clone()?;
        let clique = self.hardware.fabric.clique();
        let clique = clique.map(|clique| clique.to_string());
        // In any other state, the hardware check refuses the claim.
        let is_known = clique.is_some() || self.is_without_device(channels);
        is_known.then_some(NeededDaemon { daemon, clique })
    }
}

#[cfg(test)]
#[path = "prepare_tests.rs"]
mod tests;
