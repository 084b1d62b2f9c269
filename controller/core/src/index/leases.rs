//! What the watch and responses tell of the Leases of channels.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;

use super::{Index, Key};
use crate::channel_lease::ChannelLease;
use crate::channels::ChannelCounts;

impl Index {
    /// `ComputeDomains` are given no channel below this one from now on, or those from this one on again.
    pub fn set_first_channel(&mut self, first: u32) {
        self.numbers.set_first(first);
    }

    /// The watch begins to list all Leases.
    pub fn begin_leases(&mut self) {
        self.numbers.begin();
    }

    /// The watch has listed all Leases: the others are gone, or have no label any more.
    pub fn finish_leases(&mut self) {
        self.numbers.finish();
    }

    /// The watch has a Lease.
    pub fn apply_lease(&mut self, lease: ChannelLease) {
        self.numbers.apply(lease);
    }

    /// A request of ours had this Lease as its response. One without the label is not ours: the watch
    /// would never say that it is gone.
    pub fn learn_lease(&mut self, lease: ChannelLease, now: Timestamp) {
        if lease.is_labelled() {
            self.numbers.learn(lease);
        } else {
            self.numbers.remove(lease.number(), lease.uid());
            self.numbers.set_foreign(lease.number(), now);
        }
    }

    /// The Lease of this channel with this UID is gone, or has no label any more.
    pub fn remove_lease(&mut self, number: u32, uid: &str) {
        self.numbers.remove(number, uid);
    }

    /// A Lease is about to be created: nobody else is offered the channel.
    pub fn start_lease(&mut self, key: &Key, number: u32) {
        self.numbers.start(key, number);
    }

    /// The response has come, and was learnt; or none will.
    pub fn end_lease(&mut self, key: &str) {
        self.numbers.end(key);
    }

    /// The UIDs that changes of others concern, since the last call: of whom the Lease is, and of those
    /// for which a channel may be free now.
    pub fn take_woken(&mut self, now: Timestamp) -> BTreeSet<Key> {
        self.numbers.take_woken(now)
    }

    /// Whether the ComputeDomain of this UID is not there, but the Lease of a channel of it.
    pub fn is_lease_left(&self, key: &str) -> bool {
        self.numbers.is_holder(key) && self.domains.get(key).is_none()
    }

    /// The UIDs of which this is so.
    pub fn leases_left(&self) -> Vec<Key> {
        let holders = self.numbers.holders();
        holders
            .filter(|key| self.is_lease_left(key))
            .cloned()
            .collect()
    }

    /// How many channels there are; none as long as the watch has not listed the Leases.
    pub fn channel_counts(&self, now: Timestamp) -> ChannelCounts {
        self.numbers.counts(now)
    }
}
