//! What the `Leases` of the channels say, as far as it concerns one UID.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use crate::channel_lease::{ChannelLease, after_cool_down};
use crate::domain::Domain;

/// What is known of the channels of one UID, where every ComputeDomain has its own.
#[derive(Clone, Debug)]
pub struct ObservedChannels {
    /// When this was so.
    pub(crate) now: Timestamp,
    /// How many channels can be given.
    pub(crate) count: usize,
    /// The Leases that name the UID as their holder, by their numbers.
    pub(crate) held: Vec<Arc<ChannelLease>>,
    /// Those that named it and that somebody has deleted before their time, as they were.
    pub(crate) lost: Vec<Arc<ChannelLease>>,
    /// Whether claims of the ComputeDomain exist, in its namespace.
    pub(crate) has_claims: bool,
    /// Whose the channel in the status is; `None` if there is none, or 0.
    pub(crate) assigned: Option<Assigned>,
    /// What a ComputeDomain without channel gets.
    pub(crate) offer: Offer,
}

/// Whose the channel is that a status says.
#[derive(Clone, Debug)]
pub(crate) enum Assigned {
    /// It is none that can be given: nodes have fewer, or it is one of the groups'.
    OutOfRange,
    /// No owner: there is no Lease.
    Unowned,
    /// No owner, but an older ComputeDomain has it in its status, too.
    Older(Arc<Domain>),
    /// That of whoever is in this Lease.
    Holder(Arc<ChannelLease>),
    /// There is a Lease of its name that is not one of ours. It is looked at again at this time.
    Foreign(Timestamp),
}

/// What a ComputeDomain without channel gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// It does not ask.
    Nothing,
    /// This channel.
    Channel(u32),
    /// None, until a Lease is deleted; at this time, one that is not ours may be gone.
    NoneFree(Option<Timestamp>),
    /// None before this time: Leases were lost, and are being created again.
    Rebuilding(Timestamp),
}

/// How many channels there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelCounts {
    /// Those that a ComputeDomain has, or somebody else.
    pub used: usize,
    /// Those that can be given.
    pub free: usize,
    /// Those that were released, and are given to nobody for a while.
    pub cooling: usize,
}

// === impl ObservedChannels ===

impl ObservedChannels {
    /// When something is to be done although nothing changes: a Lease can be deleted, or a channel may
    /// be free.
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

    /// The Lease that a ComputeDomain without channel in its status has: it was given, and nothing else
    /// has happened yet. One that is not released comes first.
    pub(crate) fn given(&self) -> Option<&Arc<ChannelLease>> {
        let order = |lease: &&Arc<ChannelLease>| (lease.is_released(), lease.number());
        self.held.iter().min_by_key(order)
    }

    /// Whether the ComputeDomain uses this Lease that names it.
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

    /// It is unknown how long it takes until every Lease is there again: it is looked at after a
    /// cool-down.
    pub(crate) fn rebuilding(now: Timestamp) -> Offer {
        Offer::Rebuilding(after_cool_down(now))
    }
}
