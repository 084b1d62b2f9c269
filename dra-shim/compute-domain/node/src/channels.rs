//! The devices of ComputeDomain claims: IMEX channels.

use std::collections::BTreeSet;
use std::sync::Arc;

use dra_checkpoint::{BootId, ClaimRecord, ClaimStatus, KubeletDevice, View};
use durable_file::Dir;
use imex_cdi::{ChannelId, ClaimSpec, ClaimUid, DeviceName, Kind, Major};
use node_claims::{Devices, Restored, StartError, StartReport};

use crate::device_group::DeviceGroup;
use crate::error::PrepareError;
use crate::holder_policy::{DomainState, HolderPolicy};
use crate::imex_daemon::{ImexDaemon, NeededDaemon};
use crate::request::ChannelRequest;

/// The claims of one node, with IMEX channels as their devices.
pub type NodeClaims = node_claims::NodeClaims<ImexChannels>;

/// Which claims may hold a channel on this node, and what their specs and records contain.
#[derive(Debug)]
pub struct ImexChannels {
    pub(crate) holder_policy: HolderPolicy,
    /// Only in driver-managed mode.
    pub(crate) daemon: Option<Arc<ImexDaemon>>,
}

/// A claim's request, with what the caller's facts allow.
#[derive(Debug)]
pub struct WantedChannel {
    pub(crate) request: ChannelRequest,
    /// The channel that it opens, or why the domain does not allow it.
    pub(crate) channel: Result<ChannelId, PrepareError>,
    /// The major, or why the hardware does not allow the claim; `None`: the claim gets no device.
    pub(crate) allowed: Result<Option<Major>, PrepareError>,
    /// The claim's requirements on the IMEX daemon.
    pub(crate) daemon: Option<NeededDaemon>,
}

/// The channel of an allowed claim.
#[derive(Debug)]
pub struct PlannedChannel {
    pub(crate) request: ChannelRequest,
    pub(crate) channel: ChannelId,
    /// `None`: the claim goes without a device.
    pub(crate) major: Option<Major>,
    /// The claim's requirements on the IMEX daemon.
    pub(crate) daemon: Option<NeededDaemon>,
}

// === impl ImexChannels ===

impl ImexChannels {
    /// Channels in host-managed mode.
    pub fn new(holder_policy: HolderPolicy) -> Self {
        Self {
            holder_policy,
            daemon: None,
        }
    }

    /// Switches to driver-managed mode: the commits of a Prepare check that this daemon is ready.
    /// On a node that definitely has no clique, claims are prepared without a device and need no
    /// daemon.
    #[must_use]
    pub fn with_daemon(self, daemon: ImexDaemon) -> Self {
        Self {
            daemon: Some(Arc::new(daemon)),
            ..self
        }
    }

    /// Opens the node's claims: [`node_claims::NodeClaims::start`] for the specs of channels. `major` is
    /// the channel major if known: without it, a missing spec is a failure in the report.
    ///
    /// # Errors
    /// [`StartError`]: retry later.
    pub fn start(
        self,
        checkpoint: Arc<dyn Dir>,
        cdi: Arc<dyn Dir>,
        boot: BootId,
        major: Option<Major>,
    ) -> Result<(NodeClaims, StartReport), StartError> {
        NodeClaims::start(
            checkpoint,
            cdi,
            Kind::compute_domain_claim(),
            boot,
            self,
            &major,
        )
    }
}

impl Devices for ImexChannels {
    type Group = DeviceGroup;
    type Facts = Option<Major>;
    type Request = WantedChannel;
    type Plan = PlannedChannel;
    type Error = PrepareError;

    // req: NODE-21
    fn plan(
        &self,
        view: &View<DeviceGroup>,
        claim: &ClaimUid,
        wanted: WantedChannel,
    ) -> Result<PlannedChannel, PrepareError> {
        let channel = wanted.channel.as_ref().ok().copied();
        self.holder_policy
            .check(view, claim, &wanted.request, channel)?;
        let plan = PlannedChannel {
            channel: wanted.channel?,
            major: wanted.allowed?,
            request: wanted.request,
            daemon: wanted.daemon,
        };
        plan.check_daemon()?;
        Ok(plan)
    }

    fn check(
        &self,
        view: &View<DeviceGroup>,
        claim: &ClaimUid,
        plan: &PlannedChannel,
    ) -> Result<(), PrepareError> {
        self.holder_policy
            .check(view, claim, &plan.request, Some(plan.channel))?;
        plan.check_daemon()
    }

    fn spec(&self, plan: &PlannedChannel) -> Option<ClaimSpec> {
        let major = plan.major?;
        Some(ClaimSpec::imex_channel(plan.channel, major))
    }

    fn groups(&self, plan: &PlannedChannel, ids: Vec<String>) -> Vec<DeviceGroup> {
        vec![plan.request.device_group(plan.channel, ids)]
    }

    fn kubelet_devices(group: &DeviceGroup) -> impl Iterator<Item = &KubeletDevice> {
        group.kubelet_devices()
    }

    fn has_own_spec(record: &ClaimRecord<DeviceGroup>) -> bool {
        own_channel(record).is_some()
    }

    fn recorded_spec(
        &self,
        record: &ClaimRecord<DeviceGroup>,
        major: &Option<Major>,
    ) -> Result<Option<ClaimSpec>, PrepareError> {
        if has_no_device(record) {
            return Ok(None);
        }
        let channel = own_channel(record).ok_or(node_claims::PrepareError::ForeignSpecLost)?;
        let major = major.ok_or_else(|| PrepareError::NoMajor {
            reason: "the claim's CDI spec is missing and cannot be written".to_owned(),
        })?;
        Ok(Some(ClaimSpec::imex_channel(channel, major)))
    }

    /// The channel is the one in the spec: the claim's containers have it. If the spec is damaged,
    /// too, and each domain has its own channel, it is unknown.
    fn restored(
        &self,
        status: &ClaimStatus,
        _major: &Option<Major>,
        found: &BTreeSet<DeviceName>,
        id: &dyn Fn(&DeviceName) -> String,
    ) -> Restored<DeviceGroup> {
        let Ok(request) = ChannelRequest::from_status(status) else {
            return Restored::Foreign;
        };
        let names = found.iter().map(DeviceName::as_str);
        let mut channels = names.filter_map(|name| ChannelId::from_device_name(name).ok());
        let by_request = || {
            let domain = DomainState::Unassigned;
            self.holder_policy.channel(&request, domain, "").ok()
        };
        match channels.next().or_else(by_request) {
            Some(channel) => {
                let ids = vec![id(&channel.device_name())];
                Restored::Devices(vec![request.device_group(channel, ids)])
            }
            None => Restored::Unknown,
        }
    }
}

// === impl PlannedChannel ===

impl PlannedChannel {
    /// Read under the lock, so that no record becomes Completed after
    /// [`drained`](crate::drained) has reported the node as drained.
    fn check_daemon(&self) -> Result<(), PrepareError> {
        match &self.daemon {
            Some(daemon) => Ok(daemon.require_ready()?),
            None => Ok(()),
        }
    }
}

/// Whether the claim was prepared without a device, on a node without a clique: it has no spec.
/// The Go driver writes the same record.
fn has_no_device(record: &ClaimRecord<DeviceGroup>) -> bool {
    let devices = record.devices().iter();
    let mut devices = devices.flat_map(DeviceGroup::kubelet_devices).peekable();
    devices.peek().is_some()
        && devices.all(|device| device.cdi_device_ids.as_ref().is_none_or(Vec::is_empty))
}

/// The channel of a record that this driver wrote: one channel, one CDI device.
pub(crate) fn own_channel(record: &ClaimRecord<DeviceGroup>) -> Option<ChannelId> {
    if has_no_device(record) {
        return None;
    }
    let [group] = record.devices() else {
        return None;
    };
    let [device] = group.devices.as_slice() else {
        return None;
    };
    let is_ours = ChannelRequest::from_status(&record.status).is_ok();
    device
        .channel
        .as_ref()
        .filter(|_| is_ours)
        .and_then(|held| ChannelId::new(held.info.id).ok())
}
