//! The parts of the channels' `Leases` that concern one UID.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use crate::channel_lease::{ChannelLease, after_cool_down};
use crate::domain::Domain;

/// The channels of one UID, if every ComputeDomain has its own.
#[derive(Clone, Debug)]
pub struct ObservedChannels {
    /// The time of the observation.
    pub(crate) now: Timestamp,
    /// The number of channels that can be assigned.
    pub(crate) count: usize,
    /// The Leases with the UID as holder, by number.
    pub(crate) held: Vec<Arc<ChannelLease>>,
    /// Its Leases that another client deleted before the end of the cool-down, as they were.
    pub(crate) lost: Vec<Arc<ChannelLease>>,
    /// Whether claims of the ComputeDomain exist in its namespace.
    pub(crate) has_claims: bool,
    /// The owner of the channel in the status; `None` without one, or for channel 0.
    pub(crate) assigned: Option<Assigned>,
    /// The offer for a ComputeDomain without a channel.
    pub(crate) offer: Offer,
}

/// The owner of the channel in a status.
#[derive(Clone, Debug)]
pub(crate) enum Assigned {
    /// None: the channel is beyond the nodes' channels, or reserved for groups.
    OutOfRange,
    /// None: there is no Lease.
    Unowned,
    /// None, but an older ComputeDomain has the channel in its status, too.
    Older(Arc<Domain>),
    /// The holder of this Lease.
    Holder(Arc<ChannelLease>),
    /// A Lease of that name exists that is not ours. It is checked again at this time.
    Foreign(Timestamp),
}

/// The offer for a ComputeDomain without a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// It does not want a channel.
    Nothing,
    /// This channel.
    Channel(u32),
    /// No channel is free until a Lease is deleted. At this time, a foreign Lease may be deleted.
    NoneFree(Option<Timestamp>),
    /// No channel before this time: Leases were lost and are being created again.
    Rebuilding(Timestamp),
}

/// The numbers of channels by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelCounts {
    /// Channels that are in use, by a ComputeDomain or another holder.
    pub used: usize,
    /// Free channels.
    pub free: usize,
    /// Released channels in their cool-down.
    pub cooling: usize,
}

// === impl ObservedChannels ===

impl ObservedChannels {
    /// The time of the next reconcile without a change: a Lease can be deleted, or a channel may be free.
    pub fn wake_at(&self) -> Option<Timestamp> {
        let offered = match self.offer {
            Offer::Nothing | Offer::Channel(_) => None,
            Offer::NoneFree(at) => at,
            Offer::Rebuilding(until) => Some(until),
        };
        let foreign = match self.assigned {
            Some(Assigned::Foreign(at)) => Some(at),
            _ => None,
        };
        let cooled = self.held.iter().filter_map(|lease| lease.cooled_at());
        let times = cooled.chain(offered).chain(foreign);
        times.filter(|at| *at > self.now).min()
    }

    /// The Lease of a ComputeDomain without a channel in its status: the channel has just been assigned. Of several, a
    /// Lease that is not released comes first.
    pub(crate) fn given(&self) -> Option<&Arc<ChannelLease>> {
        let order = |lease: &&Arc<ChannelLease>| (lease.is_released(), lease.number());
        self.held.iter().min_by_key(order)
    }

    /// Whether the ComputeDomain uses this Lease, of which it is the holder.
    // req: CHANNEL-9
    pub(crate) fn is_used(&self, lease: &ChannelLease, domain: Option<&Domain>) -> bool {
        let Some(domain) = domain else {
            return self.has_claims;
        };
        match domain.channel() {
            Some(number) => number == lease.number(),
            None => self.given().is_some_and(|given| **given == *lease),
        }
    }

    /// The offer while Leases are missing. How long that takes is unknown, so it is checked after a cool-down.
    pub(crate) fn rebuilding(now: Timestamp) -> Offer {
        Offer::Rebuilding(after_cool_down(now))
    }
}
