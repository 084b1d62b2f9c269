//! The owner of each channel, and the `ComputeDomains` that wait for one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;

use compute_domain_api::names::channel_lease_name;
use k8s_openapi::jiff::Timestamp;

use super::versioned::Versioned;
use crate::channel_lease::{ChannelLease, after_cool_down};
use crate::channels::{Assigned, ChannelCounts, ObservedChannels, Offer};
use crate::domain::Domain;

/// The channels, by number. The holder of a channel's `Lease` owns it, and the API server creates a Lease only once.
///
/// The lowest free channel is assigned first. The `ComputeDomains` that want one wait in a line, the oldest first.
/// Number N of the line is offered the Nth free channel. So no two are offered the same channel, and no free channel
/// is withheld from the first in the line.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// The channels that can be assigned; `None` without isolation.
    channels: Option<RangeInclusive<u32>>,
    /// By name of the Lease.
    versions: Versioned<Arc<ChannelLease>>,
    leases: BTreeMap<u32, Arc<ChannelLease>>,
    /// The Leases that other clients deleted before the end of the cool-down, as they were. Their channels are not
    /// free.
    lost: BTreeMap<u32, Arc<ChannelLease>>,
    /// By holder.
    held: HashMap<Arc<str>, BTreeSet<u32>>,
    /// The `ComputeDomains` with a channel in their status, by channel, the oldest first.
    assigned: BTreeMap<u32, BTreeMap<Place, Arc<Domain>>>,
    /// The `ComputeDomains` that want a channel, the oldest first. Some may already have a Lease.
    line: BTreeSet<Place>,
    /// The holders for which a Lease is being created.
    on_its_way: HashMap<Arc<str>, u32>,
    /// The channels whose Lease is not ours, with the time of the next try: no watch delivers such a Lease.
    foreign: BTreeMap<u32, Timestamp>,
    /// The UIDs that changes of other objects affect.
    woken: BTreeSet<Arc<str>>,
    /// Whether a channel may have become free for the first in the line.
    freed: bool,
}

/// Creation time and UID.
type Place = (Timestamp, Arc<str>);

impl Numbers {
    pub(super) fn new(channels: Option<RangeInclusive<u32>>) -> Self {
        Self {
            channels,
            ..Self::default()
        }
    }

    pub(super) fn channels(&self) -> Option<RangeInclusive<u32>> {
        self.channels.clone()
    }

    pub(super) fn set_first(&mut self, first: u32) {
        let Some(channels) = &mut self.channels else {
            return;
        };
        let before = std::mem::replace(channels, first..=*channels.end());
        self.freed = true;
        // The domains whose channel has become valid or invalid.
        let between = before.start().min(&first)..before.start().max(&first);
        let changed = self.assigned.range(between).flat_map(|(_, all)| all.keys());
        self.woken.extend(changed.map(|(_, uid)| uid.clone()));
    }

    // === ComputeDomains ===

    /// A ComputeDomain is new, changed or deleted.
    pub(super) fn domain_changed(
        &mut self,
        before: Option<&Arc<Domain>>,
        now: Option<&Arc<Domain>>,
    ) {
        if self.channels.is_none() {
            return;
        }
        let (left, came) = (before.map(place_in_line), now.map(place_in_line));
        if let Some(place) = left.flatten() {
            self.line.remove(&place);
            let stays = came.as_ref().is_some_and(Option::is_some);
            self.freed |= !stays && !self.has_or_gets(&place.1);
        }
        self.line.extend(came.flatten());
        if let Some((number, domain)) = before.and_then(assigned) {
            let others = self.assigned.entry(number).or_default();
            others.remove(&place(domain));
            if now.is_none() {
                self.freed = true;
                self.woken.extend(others.keys().map(|(_, uid)| uid.clone()));
            }
            if others.is_empty() {
                self.assigned.remove(&number);
            }
        }
        if let Some((number, domain)) = now.and_then(assigned) {
            let all = self.assigned.entry(number).or_default();
            all.insert(place(domain), domain.clone());
        }
    }

    // === Leases ===

    pub(super) fn begin(&mut self) {
        self.versions.begin();
    }

    pub(super) fn finish(&mut self) {
        for gone in self.versions.finish() {
            self.sync(gone.number());
        }
    }

    pub(super) fn apply(&mut self, lease: ChannelLease) {
        let (number, version) = (lease.number(), lease.version);
        self.foreign.remove(&number);
        self.versions
            .apply(lease.name().into(), version, Arc::new(lease));
        self.sync(number);
    }

    pub(super) fn learn(&mut self, lease: ChannelLease) {
        let (number, version) = (lease.number(), lease.version);
        self.foreign.remove(&number);
        self.versions
            .learn(lease.name().into(), version, Arc::new(lease));
        self.sync(number);
    }

    /// This Lease is deleted or no longer watched. Another Lease may have its name by now.
    pub(super) fn remove(&mut self, number: u32, uid: &str) {
        let known = self.leases.get(&number);
        if known.is_some_and(|lease| lease.uid() == uid) {
            self.versions.remove(&channel_lease_name(number));
            self.sync(number);
        }
    }

    pub(super) fn set_foreign(&mut self, number: u32, now: Timestamp) {
        self.foreign.insert(number, after_cool_down(now));
        // The foreign Lease has taken the name.
        self.lost.remove(&number);
        // The waiting domains have to wake up when the channel is tried again.
        let waiting: Vec<_> = self.waiting().map(|(_, uid)| uid.clone()).collect();
        self.woken.extend(waiting);
    }

    pub(super) fn start(&mut self, holder: &Arc<str>, number: u32) {
        self.on_its_way.insert(holder.clone(), number);
    }

    pub(super) fn end(&mut self, holder: &str) {
        self.on_its_way.remove(holder);
        self.freed = true;
    }

    /// Updates everything that depends on this channel's Lease.
    fn sync(&mut self, number: u32) {
        let now = self.versions.get(&channel_lease_name(number)).cloned();
        let before = match &now {
            Some(now) => self.leases.insert(number, now.clone()),
            None => self.leases.remove(&number),
        };
        if before == now {
            return;
        }
        match (&before, &now) {
            (Some(before), None) if before.holder().is_some() => {
                self.lost.insert(number, before.clone());
            }
            _ => drop(self.lost.remove(&number)),
        }
        self.freed = true;
        let holders = [&before, &now].map(|it| it.as_ref()?.holder().cloned());
        if let [Some(former), _] = &holders
            && let Some(numbers) = self.held.get_mut(former)
        {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.held.remove(former);
            }
        }
        if let [_, Some(holder)] = &holders {
            self.held.entry(holder.clone()).or_default().insert(number);
        }
        self.woken.extend(holders.into_iter().flatten());
        let others = self.assigned.get(&number).into_iter().flatten();
        self.woken.extend(others.map(|((_, uid), _)| uid.clone()));
    }

    // === results ===

    pub(super) fn holders(&self) -> impl Iterator<Item = &Arc<str>> {
        self.held.keys()
    }

    pub(super) fn is_holder(&self, key: &str) -> bool {
        self.held.contains_key(key)
    }

    /// The UIDs that other objects' changes affect, since the last call.
    pub(super) fn take_woken(&mut self, now: Timestamp) -> BTreeSet<Arc<str>> {
        // After the cool-down, any client may delete an unused Lease.
        self.lost.retain(|_, lease| !lease.is_cooled(now));
        if std::mem::take(&mut self.freed) && !self.line.is_empty() {
            let free = self.free(now).count();
            let next = self.waiting().take(free).map(|(_, uid)| uid.clone());
            let next: Vec<_> = next.collect();
            self.woken.extend(next);
        }
        std::mem::take(&mut self.woken)
    }

    /// The channels of this UID. `domain` is its ComputeDomain.
    pub(super) fn observe(
        &self,
        key: &str,
        domain: Option<&Arc<Domain>>,
        has_claims: impl Fn(&ChannelLease) -> bool,
        now: Timestamp,
    ) -> Option<ObservedChannels> {
        let channels = self.channels.as_ref()?;
        let held = self.held.get(key).into_iter().flatten();
        let held = held.filter_map(|number| self.leases.get(number));
        let held: Vec<_> = held.cloned().collect();
        let asks = domain.filter(|domain| domain.wants_channel() && held.is_empty());
        Some(ObservedChannels {
            now,
            count: channels.clone().count(),
            has_claims: held.iter().any(|lease| has_claims(lease)),
            held,
            lost: self.lost_of(key, now).cloned().collect(),
            assigned: domain.and_then(|domain| self.assigned_to(domain, now)),
            offer: asks.map_or(Offer::Nothing, |domain| self.offer(domain, now)),
        })
    }

    /// The Leases of this holder that have to be created again.
    fn lost_of(&self, key: &str, now: Timestamp) -> impl Iterator<Item = &Arc<ChannelLease>> {
        let lost = self.lost.values();
        lost.filter(move |lease| {
            let is_its = lease.holder().is_some_and(|holder| **holder == *key);
            is_its && !lease.is_cooled(now)
        })
    }

    /// The owner of the channel in the domain's status.
    fn assigned_to(&self, domain: &Arc<Domain>, now: Timestamp) -> Option<Assigned> {
        let (number, _) = assigned(domain)?;
        let channels = self.channels.as_ref()?;
        if number > *channels.end() {
            return Some(Assigned::OutOfRange);
        }
        if let Some(lease) = self.leases.get(&number) {
            return Some(Assigned::Holder(lease.clone()));
        }
        // A lower channel that was assigned before stays valid, but is not assigned again.
        if number < *channels.start() {
            return Some(Assigned::OutOfRange);
        }
        if let Some(until) = self.foreign_until(number, now) {
            return Some(Assigned::Foreign(until));
        }
        let oldest = self.assigned.get(&number)?.values().next()?;
        Some(if oldest.uid() == domain.uid() {
            Assigned::Unowned
        } else {
            Assigned::Older(oldest.clone())
        })
    }

    // req: CHANNEL-11
    fn offer(&self, domain: &Domain, now: Timestamp) -> Offer {
        let marks = self.leases.values();
        if let Some(until) = marks.filter_map(|lease| lease.suspends_until(now)).max() {
            return Offer::Rebuilding(until);
        }
        if self.is_any_lost() {
            return ObservedChannels::rebuilding(now);
        }
        let place = place(domain);
        // Counting more than there are channels is not necessary.
        let most = self.all().count();
        let before = self.waiting().take(most);
        let before = before.take_while(|other| **other < place).count();
        if let Some(number) = self.free(now).nth(before) {
            return Offer::Channel(number);
        }
        let foreign = self.foreign.values().filter(|until| **until > now);
        Offer::NoneFree(foreign.min().copied())
    }

    /// Whether a lost Lease has yet to be created again. A Lease that was foreign at the last try is not lost.
    fn is_any_lost(&self) -> bool {
        let Some(channels) = &self.channels else {
            return false;
        };
        let mut assigned = within(&self.assigned, channels);
        assigned.any(|(number, domains)| {
            let oldest = domains.values().next();
            !self.leases.contains_key(number)
                && !self.foreign.contains_key(number)
                && oldest.is_some_and(|oldest| oldest.has_finalizer())
        })
    }

    /// The domains in the line that have no Lease yet.
    fn waiting(&self) -> impl Iterator<Item = &Place> {
        let line = self.line.iter();
        line.filter(|(_, uid)| !self.has_or_gets(uid))
    }

    /// When a channel with a foreign Lease is tried again.
    fn foreign_until(&self, number: u32, now: Timestamp) -> Option<Timestamp> {
        let until = self.foreign.get(&number);
        until.copied().filter(|until| *until > now)
    }

    fn has_or_gets(&self, uid: &str) -> bool {
        self.held.contains_key(uid) || self.on_its_way.contains_key(uid)
    }

    /// The free channels, the lowest first.
    fn free(&self, now: Timestamp) -> impl Iterator<Item = u32> {
        let on_its_way: BTreeSet<_> = self.on_its_way.values().copied().collect();
        self.all().filter(move |number| {
            let is_foreign = self.foreign_until(*number, now).is_some();
            let lost = self.lost.get(number);
            let taken = self.leases.contains_key(number)
                || lost.is_some_and(|lease| !lease.is_cooled(now))
                || self.assigned.contains_key(number);
            !taken && !is_foreign && !on_its_way.contains(number)
        })
    }

    /// All channels for `ComputeDomains`, taken or not.
    fn all(&self) -> impl Iterator<Item = u32> {
        self.channels.iter().cloned().flatten()
    }

    pub(super) fn counts(&self, now: Timestamp) -> ChannelCounts {
        let Some(channels) = &self.channels else {
            return ChannelCounts::default();
        };
        if !self.versions.is_listed_once() {
            return ChannelCounts::default();
        }
        let free = self.free(now).count();
        let given = within(&self.leases, channels);
        let cooling = given.filter(|(_, lease)| lease.is_released()).count();
        ChannelCounts {
            used: self.all().count().saturating_sub(free + cooling),
            free,
            cooling,
        }
    }
}

/// The entries of these channels. The range may be empty: the first may be beyond the last.
fn within<'a, T>(
    all: &'a BTreeMap<u32, T>,
    channels: &RangeInclusive<u32>,
) -> impl Iterator<Item = (&'a u32, &'a T)> {
    let last = *channels.end();
    let from_first = all.range(channels.start()..);
    from_first.take_while(move |(number, _)| **number <= last)
}

fn place(domain: &Domain) -> Place {
    (domain.created, domain.uid().as_str().into())
}

/// The domain's place in the line, if it waits.
fn place_in_line(domain: &Arc<Domain>) -> Option<Place> {
    let waits = domain.wants_channel() && !domain.is_rejected_otherwise();
    waits.then(|| place(domain))
}

/// The channel in the domain's status, unless it is the shared channel 0.
fn assigned(domain: &Arc<Domain>) -> Option<(u32, &Arc<Domain>)> {
    let number = domain.channel().filter(|number| *number > 0)?;
    Some((number, domain))
}
