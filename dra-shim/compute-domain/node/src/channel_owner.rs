//! Whether prepared claims explain the channels that a container asks for.
//!
//! ```text
//! RequestedChannels ── unexplained(.., NodeClaims::channel_owner) ──► [Unexplained] ──► sentence
//!                                       │ OtherPods: the record was written for an earlier
//!                                       ▼ pod of the claim; the caller asks the API server
//! ```
//!
//! A claim explains a channel if its record is Completed and has it, and the claim is
//! reserved for the container's pod. Claims serve pods of their own namespace only.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt::Write as _;
use std::time::Duration;

use dra_checkpoint::{ClaimRecord, ClaimRef, CommitError, RecoveryNeeded, StoreError};
use dra_claim::Consumer;
use imex_cdi::{ChannelId, Channels, RequestedChannel, RequestedChannels};

use crate::device_group::DeviceGroup;
use crate::node_claims::NodeClaims;

/// Requests that a sentence names. More would not fit an event.
const NAMED: usize = 3;

/// The owner of a channel, according to the records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelOwner {
    /// A claim of the pod opens it.
    ThisPod,
    /// These claims of the pod's namespace open it. Their records were written for other pods,
    /// or for a group; kubelet does not call again for further pods of a prepared claim.
    OtherPods(Vec<ClaimRef>),
    /// No claim that the pod could have opens it on this node.
    Unclaimed,
}

/// A request that no claim explains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unexplained<'a> {
    /// The request.
    pub asked: &'a RequestedChannel,
    /// Claims of the pod's namespace that open the channel, and are not the pod's.
    pub others: Vec<ClaimRef>,
}

/// The requests that no claim explains. `channel_owner` is called once for each channel, and says
/// whose it is after all look-ups: `OtherPods` counts as not the pod's.
///
/// A container that may use every device has what follows from that without asking: such
/// requests are not among the answers. See [`RequestedChannels::every_device`].
pub fn unexplained(
    asked: &RequestedChannels,
    mut channel_owner: impl FnMut(ChannelId) -> ChannelOwner,
) -> Vec<Unexplained<'_>> {
    let mut answers = BTreeMap::new();
    let mut others = |channels: &Channels| match channels {
        Channels::One(id) => match answers.entry(*id).or_insert_with(|| channel_owner(*id)) {
            ChannelOwner::ThisPod => None,
            ChannelOwner::OtherPods(claims) => Some(claims.clone()),
            ChannelOwner::Unclaimed => Some(Vec::new()),
        },
        // No claim gives these.
        Channels::Every | Channels::Unreadable(_) => Some(Vec::new()),
    };
    explicit(asked)
        .filter_map(|asked| {
            let others = others(&asked.channels)?;
            Some(Unexplained { asked, others })
        })
        .collect()
}

/// The channels that [`unexplained`] will ask about.
pub fn channels_to_explain(asked: &RequestedChannels) -> BTreeSet<ChannelId> {
    let one = |asked: &RequestedChannel| match asked.channels {
        Channels::One(id) => Some(id),
        Channels::Every | Channels::Unreadable(_) => None,
    };
    explicit(asked).filter_map(one).collect()
}

fn explicit(asked: &RequestedChannels) -> impl Iterator<Item = &RequestedChannel> {
    let every_device = asked.every_device;
    let requests = asked.requests.iter();
    requests.filter(move |asked| !(every_device && asked.by.follows_from_every_device()))
}

/// What was asked for, and where: the beginning of a sentence about the container.
pub fn asks_for(found: &[Unexplained<'_>]) -> String {
    let named = found.iter().take(NAMED);
    let named: Vec<String> = named.map(|one| one.asked.to_string()).collect();
    let more = match found.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("the container asks for {}{more}", named.join(", "))
}

/// What was asked for, where, which claim that needs, and what to do: one line for the
/// container's user. Empty without requests. A container that may use every device is told that
/// its requests are judged all the same.
pub fn sentence(found: &[Unexplained<'_>], every_device: bool) -> String {
    let Some(first) = found.first() else {
        return String::new();
    };
    let mut text = asks_for(found);
    text.push_str(match first.asked.channels {
        Channels::One(_) => ", and its pod has no prepared ResourceClaim with that channel",
        Channels::Every => ", which no ResourceClaim gives",
        Channels::Unreadable(_) => ", which is no channel",
    });
    if let Some(other) = first.others.first() {
        let _ = write!(text, " (claim {} has it, for other pods)", other.name);
    }
    text.push_str(
        "; remove the request, and give the pod a claim of its ComputeDomain's resourceClaimTemplate",
    );
    if every_device {
        text.push_str(" (that the container is privileged does not excuse the request)");
    }
    text
}

/// Returns the owner of `channel` for a pod of the namespace, according to these records by claim UID.
/// `is_pods` says whether a claim is known to be the pod's.
pub fn owner_among<'a>(
    records: impl IntoIterator<Item = (&'a str, &'a ClaimRecord<DeviceGroup>)>,
    channel: ChannelId,
    namespace: &str,
    is_pods: impl Fn(&str, &ClaimRecord<DeviceGroup>) -> bool,
) -> ChannelOwner {
    let mut perhaps = Vec::new();
    for (uid, record) in records {
        if !has_channel(record, channel) {
            continue;
        }
        if is_pods(uid, record) {
            return ChannelOwner::ThisPod;
        }
        if record.namespace == namespace {
            perhaps.push(ClaimRef {
                uid: uid.to_owned(),
                name: record.name.clone(),
                namespace: record.namespace.clone(),
            });
        }
    }
    if perhaps.is_empty() {
        ChannelOwner::Unclaimed
    } else {
        ChannelOwner::OtherPods(perhaps)
    }
}

/// Whether the record is Completed and has the channel, whichever driver wrote it.
pub fn has_channel(record: &ClaimRecord<DeviceGroup>, channel: ChannelId) -> bool {
    let mut held = record.devices().iter().flat_map(DeviceGroup::channels);
    held.any(|device| device.info.id == channel.get())
}

/// Whether the claim was reserved for the pod when the record was written.
pub fn is_reserved_for(record: &ClaimRecord<DeviceGroup>, pod_uid: &str) -> bool {
    let reserved = record.status.reserved_for().iter();
    reserved
        .filter_map(Consumer::pod_uid)
        .any(|uid| uid == pod_uid)
}

// === impl ChannelOwner ===

impl ChannelOwner {
    /// Whether it is known that a claim of the pod opens the channel.
    pub fn is_explained(&self) -> bool {
        *self == Self::ThisPod
    }
}

// === impl NodeClaims ===

impl NodeClaims {
    /// Returns the owner of `channel` for a pod, from memory. See [`refresh`](Self::refresh).
    ///
    /// # Errors
    /// No record of the pod's has the channel, and records are missing or of an earlier boot
    /// until the checkpoint is recovered.
    pub fn channel_owner(
        &self,
        channel: ChannelId,
        namespace: &str,
        pod_uid: &str,
    ) -> Result<ChannelOwner, RecoveryNeeded> {
        let view = self.store.view();
        let records = view.records_unchecked();
        let channel_owner = owner_among(records, channel, namespace, |_, record| {
            is_reserved_for(record, pod_uid)
        });
        if !channel_owner.is_explained() {
            view.check_recovered()?;
        }
        Ok(channel_owner)
    }

    /// Whether another recorded claim has the name of this one: then a pod that names it means
    /// either.
    pub fn is_name_of_one(&self, claim: &ClaimRef) -> bool {
        let view = self.store.view();
        let mut records = view.records_unchecked();
        !records.any(|(uid, record)| {
            uid != claim.uid && record.name == claim.name && record.namespace == claim.namespace
        })
    }

    /// Reads what another process, such as the next instance of this program during an
    /// update, has written to the checkpoint. Blocks for `limit` at most.
    ///
    /// # Errors
    /// The checkpoint cannot be read in that time.
    pub fn refresh(&self, limit: Duration) -> Result<(), StoreError> {
        let read = self.store.commit_within(limit, |_| Ok::<_, Infallible>(()));
        read.map_err(|error| match error {
            CommitError::Refused(never) => match never {},
            CommitError::Store(error) => error,
        })
    }
}

#[cfg(test)]
#[path = "channel_owner_tests.rs"]
mod tests;
