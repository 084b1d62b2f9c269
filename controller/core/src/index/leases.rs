//! The index's methods for the Leases of channels.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;

use super::{Index, Key};
use crate::channel_lease::ChannelLease;
use crate::channels::ChannelCounts;

impl Index {
    /// Sets the lowest channel that `ComputeDomains` can get.
    pub fn set_first_channel(&mut self, first: u32) {
        self.numbers.set_first(first);
    }

    /// The watch begins to list all Leases.
    pub fn begin_leases(&mut self) {
        self.numbers.begin();
    }

    /// The watch has listed all Leases. Removes the others, which are deleted or have lost their label.
    pub fn finish_leases(&mut self) {
        self.numbers.finish();
    }

    /// The watch has delivered a Lease.
    pub fn apply_lease(&mut self, lease: ChannelLease) {
        self.numbers.apply(lease);
    }

    /// Stores a Lease from the response to our request. A Lease without the label is not ours: the watch would never
    /// deliver its deletion.
    pub fn learn_lease(&mut self, lease: ChannelLease, now: Timestamp) {
        if lease.is_labelled() {
            self.numbers.learn(lease);
        } else {
            self.numbers.remove(lease.number(), lease.uid());
            self.numbers.set_foreign(lease.number(), now);
        }
    }

    /// The Lease of this channel with this UID is deleted or has lost its label.
    pub fn remove_lease(&mut self, number: u32, uid: &str) {
        self.numbers.remove(number, uid);
    }

    /// A Lease is about to be created: the channel is not offered to others.
    pub fn start_lease(&mut self, key: &Key, number: u32) {
        self.numbers.start(key, number);
    }

    /// The creation has ended: its response is stored, or none will arrive.
    pub fn end_lease(&mut self, key: &str) {
        self.numbers.end(key);
    }

    /// The UIDs that other objects' changes affect, since the last call: holders of changed Leases, and
    /// `ComputeDomains` for which a channel may be free now.
    pub fn take_woken(&mut self, now: Timestamp) -> BTreeSet<Key> {
        self.numbers.take_woken(now)
    }

    /// Whether the ComputeDomain with this UID is unknown but holds the Lease of a channel.
    pub fn is_lease_left(&self, key: &str) -> bool {
        self.numbers.is_holder(key) && self.domains.get(key).is_none()
    }

    /// The UIDs without a known ComputeDomain that hold a Lease.
    pub fn leases_left(&self) -> Vec<Key> {
        let holders = self.numbers.holders();
        holders
            .filter(|key| self.is_lease_left(key))
            .cloned()
            .collect()
    }

    /// The numbers of channels by state; all zero until the watch has listed the Leases.
    pub fn channel_counts(&self, now: Timestamp) -> ChannelCounts {
        self.numbers.counts(now)
    }
}
