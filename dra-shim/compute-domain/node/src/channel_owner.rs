//! Checks whether prepared claims explain the channels that a container requests.
//!
//! ```text
//! RequestedChannels ── unexplained(.., channel_owner) ──► [Unexplained] ──► sentence
//!                                       │ OtherPods: the record was written for an earlier
//!                                       ▼ pod of the claim; the caller asks the API server
//! ```
//!
//! A claim explains a channel if its Completed record has the channel and the claim is reserved for
//! the container's pod. A claim only serves pods of its own namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use dra_checkpoint::{ClaimRecord, ClaimRef, RecoveryNeeded, View};
use dra_claim::Consumer;
use imex_cdi::{ChannelId, Channels, RequestedChannel, RequestedChannels};

use crate::device_group::DeviceGroup;

/// Maximum number of requests in a sentence. More would not fit into an event.
const NAMED: usize = 3;

/// The owner of a channel, according to the records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelOwner {
    /// A claim of the pod opens it.
    ThisPod,
    /// These claims of the pod's namespace open it. Their records were written for other pods or a
    /// group: kubelet does not call Prepare again for further pods of a prepared claim.
    OtherPods(Vec<ClaimRef>),
    /// No claim that the pod could use opens it on this node.
    Unclaimed,
}

/// A request that no claim explains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unexplained<'a> {
    /// The request.
    pub requested: &'a RequestedChannel,
    /// Other pods' claims in the pod's namespace that open the channel.
    pub others: Vec<ClaimRef>,
}

/// Returns the requests that no claim explains. `channel_owner` is called once for each channel and
/// returns the owner after all look-ups: with `OtherPods`, the request is unexplained.
///
/// Leaves out requests that merely follow from access to every device. See
/// [`RequestedChannels::every_device`].
pub fn unexplained(
    requested: &RequestedChannels,
    mut channel_owner: impl FnMut(ChannelId) -> ChannelOwner,
) -> Vec<Unexplained<'_>> {
    let mut answers = BTreeMap::new();
    let mut others = |channels: &Channels| match channels {
        Channels::One(id) => match answers.entry(*id).or_insert_with(|| channel_owner(*id)) {
            ChannelOwner::ThisPod => None,
            ChannelOwner::OtherPods(claims) => Some(claims.clone()),
            ChannelOwner::Unclaimed => Some(Vec::new()),
        },
        // No claim grants these.
        Channels::Every | Channels::Unreadable(_) => Some(Vec::new()),
    };
    explicit(requested)
        .filter_map(|requested| {
            let others = others(&requested.channels)?;
            Some(Unexplained { requested, others })
        })
        .collect()
}

/// The channels that [`unexplained`] looks up.
pub fn channels_to_explain(requested: &RequestedChannels) -> BTreeSet<ChannelId> {
    let one = |requested: &RequestedChannel| match requested.channels {
        Channels::One(id) => Some(id),
        Channels::Every | Channels::Unreadable(_) => None,
    };
    explicit(requested).filter_map(one).collect()
}

fn explicit(requested: &RequestedChannels) -> impl Iterator<Item = &RequestedChannel> {
    let every_device = requested.every_device;
    let requests = requested.requests.iter();
    requests.filter(move |requested| !(every_device && requested.by.is_implied_by_every_device()))
}

/// Beginning of a sentence about the container: the requests and where they were found.
pub fn describe_requests(found: &[Unexplained<'_>]) -> String {
    let named = found.iter().take(NAMED);
    let named: Vec<String> = named.map(|one| one.requested.to_string()).collect();
    let more = match found.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("the container asks for {}{more}", named.join(", "))
}

/// One line for the user: the requests, where they were found, the missing claim, and what to do.
/// Empty without requests. For a container with access to every device, it adds that a claim is
/// needed nevertheless.
pub fn sentence(found: &[Unexplained<'_>], every_device: bool) -> String {
    let Some(first) = found.first() else {
        return String::new();
    };
    let mut text = describe_requests(found);
    text.push_str(match first.requested.channels {
        Channels::One(_) => ", but its pod has no prepared ResourceClaim with that channel",
        Channels::Every => ", which no ResourceClaim grants",
        Channels::Unreadable(_) => ", which is not a channel",
    });
    if let Some(other) = first.others.first() {
        let _ = write!(
            text,
            " (claim {} has the channel, but belongs to other pods)",
            other.name
        );
    }
    text.push_str(
        "; remove the request, and give the pod a claim of its ComputeDomain's resourceClaimTemplate",
    );
    if every_device {
        text.push_str(" (privileged containers also need a claim)");
    }
    text
}

/// Returns the owner of `channel` for a pod of the namespace, according to these records by claim UID.
/// `is_pods` returns whether a claim is known to belong to the pod.
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
            perhaps.push(record.claim_ref(uid));
        }
    }
    if perhaps.is_empty() {
        ChannelOwner::Unclaimed
    } else {
        ChannelOwner::OtherPods(perhaps)
    }
}

/// Whether the record is Completed and has the channel. Also for the Go driver's records.
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

/// Returns the owner of `channel` for a pod.
///
/// # Errors
/// No record of the pod has the channel, and the checkpoint is not recovered: records may be
/// missing or of an earlier boot.
pub fn channel_owner(
    view: &View<DeviceGroup>,
    channel: ChannelId,
    namespace: &str,
    pod_uid: &str,
) -> Result<ChannelOwner, RecoveryNeeded> {
    let records = view.records_unchecked();
    let channel_owner = owner_among(records, channel, namespace, |_, record| {
        is_reserved_for(record, pod_uid)
    });
    if !channel_owner.is_explained() {
        view.check_recovered()?;
    }
    Ok(channel_owner)
}

/// Whether no other recorded claim has this claim's name. Otherwise, a pod that refers to the
/// name may mean either claim.
pub fn has_unique_name(view: &View<DeviceGroup>, claim: &ClaimRef) -> bool {
    let mut records = view.records_unchecked();
    !records.any(|(uid, record)| {
        uid != claim.uid && record.name == claim.name && record.namespace == claim.namespace
    })
}

#[cfg(test)]
#[path = "channel_owner_tests.rs"]
mod tests;
