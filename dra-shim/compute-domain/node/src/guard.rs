//! Who may hold which channel on this node, and which channel a claim opens: the tables
//! are at [`Guard`].

use compute_domain_api::names::clique_of_pool;
use compute_domain_api::{GROUP_CHANNELS, Isolation, Settings, Sharing};
use dra_checkpoint::{ClaimRecord, ClaimRef, View};
use imex_cdi::{ChannelId, ClaimUid};

use crate::device_group::{DeviceDetails, DeviceGroup};
use crate::error::{ChannelSource, PrepareError};
use crate::request::ChannelRequest;

/// What the operator has chosen, for the whole life of the process: which channel a claim
/// opens, and who may hold it.
///
/// A claim's device is a ticket to the node (`channel-0`) or a channel by itself
/// (`channel-N`, N from 1 on). With it and [the state of its domain](DomainState), a claim
/// opens
///
/// | device | domain | [`isolation`](Self::isolation) | channel, or the error's code |
/// |---|---|---|---|
/// | `channel-N` of a pool that is neither the node's own nor, up to N = 127, a clique's | any | any | `foreign-device` |
/// | any | `Missing` | any | `domain-not-found` |
/// | any | `NotConfirmed` | any | `channel-not-confirmed` |
/// | `channel-N` | `Unassigned`, `Assigned` | any | N: it is the claim's own. `other-clique` if the node is not in the clique of its pool |
/// | `channel-0` | `Assigned(0)` | any | 0 |
/// | `channel-0` | `Assigned(M)`, M from 1 on | any | M: it is the domain's. `claim-not-labelled` if [the claim lacks the domain's label](ChannelRequest::label) |
/// | `channel-0` | `Unassigned` | `None` | 0 |
/// | `channel-0` | `Unassigned` | `Channel` | `no-channel-yet` |
///
/// In every line, a claim that has the label of another domain is refused (`claim-not-labelled`):
/// it would keep the channel of that one.
///
/// Of two claims on one node, the second one is refused, by the first line that applies:
///
/// | both have | [`sharing`](Self::sharing) | [`isolation`](Self::isolation) | the second one |
/// |---|---|---|---|
/// | one device | `One` | any | `device-held` |
/// | channel 0 | any | `None` | is prepared: that channel is everybody's |
/// | one channel, both through `channel-0` and for one domain | any | any | is prepared |
/// | one channel in any other way | any | any | `channel-held` |
/// | none of this | any | any | is prepared |
///
/// The API's numbers only propose: what is said in the commit that completes a record
/// decides.
///
/// Slots and share ids are not checked here: the scheduler counts. `Sharing::Many` has as many
/// holders as come, whatever its `slots`, and a claim that consumes no slot
/// (`slots: "0"`, written by hand) shares without limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guard {
    /// Whether each domain has a channel of its own.
    pub isolation: Isolation,
    /// Whether claims share the node's device.
    pub sharing: Sharing,
}

/// What the API server says of a claim's domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DomainState {
    /// There is none of this UID in the claim's namespace.
    Missing,
    /// It has no channel of its own, or not yet.
    Unassigned,
    /// It has this channel.
    Assigned(ChannelId),
    /// Its status names this channel, and the controller says that it is not the
    /// domain's.
    NotConfirmed(ChannelId),
}

/// A channel that a claim holds, or is to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holding<'a> {
    /// The device that the claim was allocated.
    pub device: ChannelId,
    /// The channel that it opens; `None` if that is not known, or is no channel's number.
    pub channel: Option<ChannelId>,
    /// The UID of the claim's domain.
    pub domain: &'a str,
    /// The claim's UID.
    pub claim: &'a str,
}

/// The name of the device that stands for the node: the channel that it opens is the
/// domain's.
const NODE_DEVICE: u32 = 0;

// === impl Guard ===

impl Guard {
    /// As the settings have it.
    pub fn new(settings: &Settings) -> Self {
        Self {
            isolation: settings.isolation,
            sharing: settings.sharing,
        }
    }

    /// The channel that the claim opens, whatever its label.
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
                asked: request.asked(),
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

    /// Fails if another claim's holding excludes this one. While the channel is not
    /// known, only the device counts.
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
        let records = view.records().map_err(|_| PrepareError::NeedsRecovery)?;
        let others = records.filter(|(other, _)| *other != uid.as_str());
        for (other, record) in others {
            let name = || ClaimRef {
                uid: other.to_owned(),
                name: record.name.clone(),
                namespace: record.namespace.clone(),
            };
            for held in Holding::in_record(other, record) {
                if self.sharing == Sharing::One && held.device == wanted.device {
                    return Err(PrepareError::InUse {
                        device: request.device.clone(),
                        holder: name(),
                    });
                }
                if let Some(channel) = self.contested(&held, &wanted) {
                    return Err(PrepareError::ChannelInUse {
                        channel,
                        holder: name(),
                        held: held.asked(),
                        wanted: wanted.asked(),
                    });
                }
            }
        }
        Ok(())
    }

    /// The channel that both open and only one of them may.
    // req: CHANNEL-14
    fn contested(self, held: &Holding<'_>, wanted: &Holding<'_>) -> Option<ChannelId> {
        let channel = wanted.channel?;
        let is_everybodys = channel.get() == 0 && self.isolation == Isolation::None;
        let is_contested =
            held.channel == wanted.channel && held.owner() != wanted.owner() && !is_everybodys;
        is_contested.then_some(channel)
    }
}

// === impl Holding ===

impl<'a> Holding<'a> {
    /// What the record of the claim `uid` holds: nothing unless it is Completed.
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

    /// The UID of the domain or of the claim: whose the channel is.
    pub fn owner(&self) -> &'a str {
        match self.asked() {
            ChannelSource::Domain => self.domain,
            ChannelSource::Device => self.claim,
        }
    }

    fn asked(&self) -> ChannelSource {
        ChannelSource::through(self.device)
    }
}

// === impl ChannelRequest ===

impl ChannelRequest {
    /// Whether the device is one that this driver publishes for the node, and not of a
    /// `ResourceSlice` that somebody else has made: through that, a claim could have any number.
    /// Whether the node is in the clique of the pool is the [hardware](crate::Hardware)'s to say.
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

    /// Whether the claim may open its channel: for that of its domain, it has the
    /// [label](Self::label) by which the controller knows that the channel is in use, and
    /// never has it the label of another domain.
    // req: CHANNEL-16
    pub(crate) fn check_label(&self, domain: DomainState) -> Result<(), PrepareError> {
        let opens_its_channel = self.is_node_device()
            && matches!(domain, DomainState::Assigned(channel) if channel.get() > 0);
        let domain = || self.domain.clone();
        match self.label.as_deref() {
            Some(label) if label != self.domain.as_str() => Err(PrepareError::OtherLabel {
                domain: domain(),
                found: label.to_owned(),
                asked: self.asked(),
            }),
            None if opens_its_channel => Err(PrepareError::NotLabelled { domain: domain() }),
            _ => Ok(()),
        }
    }

    fn asked(&self) -> ChannelSource {
        ChannelSource::through(self.device_channel)
    }

    /// Whether the device stands for the node, and not for a channel.
    pub(crate) fn is_node_device(&self) -> bool {
        self.asked() == ChannelSource::Domain
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

/// The channel in the name of the device that was allocated.
fn device_channel(held: &DeviceDetails) -> Option<ChannelId> {
    let device = held.device.as_ref()?;
    ChannelId::from_device_name(&device.device_name).ok()
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
