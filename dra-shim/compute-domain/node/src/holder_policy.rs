//! Decides which channel a claim opens, and which claims may hold a channel. [`HolderPolicy`] has the
//! tables.

use compute_domain_api::names::clique_of_pool;
use compute_domain_api::{GROUP_CHANNELS, Isolation, Settings, Sharing};
use dra_checkpoint::{ClaimRecord, View};
use imex_cdi::{ChannelId, ClaimUid};

use crate::device_group::{DeviceDetails, DeviceGroup};
use crate::error::{ChannelSource, PrepareError};
use crate::request::ChannelRequest;

/// The administrator's settings that decide which channel a claim opens and which claims may hold
/// it. They do not change while the process runs.
///
/// A claim's device stands for the node (`channel-0`) or is itself a channel (`channel-N`, N from 1
/// on). The device and [the state of the claim's domain](DomainState) decide the channel:
///
/// | device | domain | [`isolation`](Self::isolation) | channel, or the error's code |
/// |---|---|---|---|
/// | `channel-N` of a pool that is neither the node's own nor, up to N = 127, a clique's | any | any | `foreign-device` |
/// | any | `Missing` | any | `domain-not-found` |
/// | any | `NotConfirmed` | any | `channel-not-confirmed` |
/// | `channel-N` | `Unassigned`, `Assigned` | any | N, which belongs to the claim. `other-clique` if the node is not in the clique of its pool |
/// | `channel-0` | `Assigned(0)` | any | 0 |
/// | `channel-0` | `Assigned(M)`, M from 1 on | any | M, which belongs to the domain. `claim-not-labelled` if [the claim lacks the domain's label](ChannelRequest::label) |
/// | `channel-0` | `Unassigned` | `None` | 0 |
/// | `channel-0` | `Unassigned` | `Channel` | `no-channel-yet` |
///
/// In every row, a claim with the label of another domain is refused (`claim-not-labelled`): it
/// would keep that domain's channel in use.
///
/// Of two claims on one node, the first matching row decides about the second claim:
///
/// | both have | [`sharing`](Self::sharing) | [`isolation`](Self::isolation) | the second claim |
/// |---|---|---|---|
/// | the same device | `One` | any | `device-held` |
/// | channel 0 | any | `None` | is prepared: the channel is shared by all domains |
/// | the same channel, both through `channel-0` and for the same domain | any | any | is prepared |
/// | the same channel in any other way | any | any | `channel-held` |
/// | no device or channel in common | any | any | is prepared |
///
/// Channel numbers from the API server are only proposals: the check in the commit that completes
/// a record decides.
///
/// Slots and share ids are not checked here: the scheduler counts them. With `Sharing::Many`, any
/// number of claims may hold the device, regardless of its `slots`. A claim that consumes no slot
/// (handwritten `slots: "0"`) shares without limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HolderPolicy {
    /// Whether each domain has a channel of its own.
    pub isolation: Isolation,
    /// Whether claims share the node's device.
    pub sharing: Sharing,
}

/// The state of a claim's domain in the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DomainState {
    /// No ComputeDomain with this UID exists in the claim's namespace.
    Missing,
    /// It has no channel of its own (yet).
    Unassigned,
    /// It has this channel.
    Assigned(ChannelId),
    /// Its status names this channel, but the controller reports that the channel does not
    /// belong to the domain.
    NotConfirmed(ChannelId),
}

/// A channel that a claim holds or wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holding<'a> {
    /// The device that the claim was allocated.
    pub device: ChannelId,
    /// The channel that it opens; `None` if unknown or not a channel number.
    pub channel: Option<ChannelId>,
    /// The UID of the claim's domain.
    pub domain: &'a str,
    /// The claim's UID.
    pub claim: &'a str,
}

/// The number of the device that stands for the node: its claims open the domain's channel.
const NODE_DEVICE: u32 = 0;

// === impl HolderPolicy ===

impl HolderPolicy {
    /// The policy of these settings.
    pub fn new(settings: &Settings) -> Self {
        Self {
            isolation: settings.isolation,
            sharing: settings.sharing,
        }
    }

    /// The channel that the claim opens. Does not check its label.
    // req: CHANNEL-1
    pub(crate) fn channel(
        self,
        request: &ChannelRequest,
        domain: DomainState,
        namespace: &str,
    ) -> Result<ChannelId, PrepareError> {
        let uid = || request.domain.clone();
        match domain {
            DomainState::Missing => Err(PrepareError::DomainNotFound {
                domain: uid(),
                namespace: namespace.to_owned(),
                channel_source: request.channel_source(),
            }),
            DomainState::NotConfirmed(channel) => Err(PrepareError::ChannelNotConfirmed {
                domain: uid(),
                channel,
            }),
            _ if !request.is_node_device() => Ok(request.device_channel),
            DomainState::Assigned(channel) => Ok(channel),
            DomainState::Unassigned => match self.isolation {
                Isolation::Channel => Err(PrepareError::NoChannelYet { domain: uid() }),
                Isolation::None => Ok(request.device_channel),
            },
        }
    }

    /// Fails if another claim holds the device or the channel exclusively. While the channel is
    /// unknown, only the device counts.
    // req: CHANNEL-3, NODE-6
    pub(crate) fn check(
        self,
        view: &View<DeviceGroup>,
        uid: &ClaimUid,
        request: &ChannelRequest,
        channel: Option<ChannelId>,
    ) -> Result<(), PrepareError> {
        let wanted = Holding {
            device: request.device_channel,
            channel,
            domain: request.domain.as_str(),
            claim: uid.as_str(),
        };
        let records = view
            .records()
            .map_err(|_| node_claims::PrepareError::NeedsRecovery)?;
        let others = records.filter(|(other, _)| *other != uid.as_str());
        for (other, record) in others {
            for held in Holding::in_record(other, record) {
                if self.sharing == Sharing::One && held.device == wanted.device {
                    return Err(PrepareError::InUse {
                        device: request.device.clone(),
                        holder: record.claim_ref(other),
                    });
                }
                if let Some(channel) = self.contested(&held, &wanted) {
                    return Err(PrepareError::ChannelInUse {
                        channel,
                        holder: record.claim_ref(other),
                        held: held.channel_source(),
                        wanted: wanted.channel_source(),
                    });
                }
            }
        }
        Ok(())
    }

    /// The channel that both claims open, if only one of them may.
    // req: CHANNEL-14
    fn contested(self, held: &Holding<'_>, wanted: &Holding<'_>) -> Option<ChannelId> {
        let channel = wanted.channel?;
        let is_shared_by_all = channel.get() == 0 && self.isolation == Isolation::None;
        let is_contested =
            held.channel == wanted.channel && held.owner() != wanted.owner() && !is_shared_by_all;
        is_contested.then_some(channel)
    }
}

// === impl Holding ===

impl<'a> Holding<'a> {
    /// The channels that the record of the claim `uid` holds: none unless it is Completed.
    // req: NODE-17
    pub fn in_record(
        uid: &'a str,
        record: &'a ClaimRecord<DeviceGroup>,
    ) -> impl Iterator<Item = Self> {
        record.devices().iter().flat_map(move |group| {
            let domain = group.config_state.compute_domain.as_str();
            let channels = group.channels();
            channels.filter_map(move |held| {
                let channel = ChannelId::new(held.info.id).ok();
                Some(Self {
                    device: device_channel(held).or(channel)?,
                    channel,
                    domain,
                    claim: uid,
                })
            })
        })
    }

    /// The channel's owner: the UID of the domain or of the claim.
    pub fn owner(&self) -> &'a str {
        match self.channel_source() {
            ChannelSource::Domain => self.domain,
            ChannelSource::Device => self.claim,
        }
    }

    fn channel_source(&self) -> ChannelSource {
        ChannelSource::through(self.device)
    }
}

// === impl ChannelRequest ===

impl ChannelRequest {
    /// Whether this driver publishes the device for the node. Through a foreign `ResourceSlice`, a
    /// claim could open any channel. [`Hardware`](crate::Hardware) checks whether the node is in the
    /// clique of the pool.
    // req: CHANNEL-15
    pub(crate) fn check_pool(&self, node: &str) -> Result<(), PrepareError> {
        let is_cliques = || {
            let number = self.device_channel.get();
            clique_of_pool(&self.pool).is_some() && GROUP_CHANNELS.contains(&number)
        };
        if self.is_node_device() || self.pool == node || is_cliques() {
            return Ok(());
        }
        Err(PrepareError::ForeignDevice {
            device: self.device.clone(),
            pool: self.pool.clone(),
        })
    }

    /// Whether the claim's [label](Self::label) allows its channel. For the domain's channel, it
    /// needs the domain's label: the controller finds channels in use by it. The label of another
    /// domain is never allowed.
    // req: CHANNEL-16
    pub(crate) fn check_label(&self, domain: DomainState) -> Result<(), PrepareError> {
        let opens_its_channel = self.is_node_device()
            && matches!(domain, DomainState::Assigned(channel) if channel.get() > 0);
        let domain = || self.domain.clone();
        match self.label.as_deref() {
            Some(label) if label != self.domain.as_str() => Err(PrepareError::OtherLabel {
                domain: domain(),
                found: label.to_owned(),
                channel_source: self.channel_source(),
            }),
            None if opens_its_channel => Err(PrepareError::NotLabelled { domain: domain() }),
            _ => Ok(()),
        }
    }

    fn channel_source(&self) -> ChannelSource {
        ChannelSource::through(self.device_channel)
    }

    /// Whether the device stands for the node, not for a channel.
    pub(crate) fn is_node_device(&self) -> bool {
        self.channel_source() == ChannelSource::Domain
    }
}

// === impl ChannelSource ===

impl ChannelSource {
    pub(crate) fn through(device: ChannelId) -> Self {
        if device.get() == NODE_DEVICE {
            Self::Domain
        } else {
            Self::Device
        }
    }
}

/// The channel number in the name of the allocated device.
fn device_channel(held: &DeviceDetails) -> Option<ChannelId> {
    let device = held.device.as_ref()?;
    ChannelId::from_device_name(&device.device_name).ok()
}

#[cfg(test)]
#[path = "holder_policy_tests.rs"]
mod tests;
