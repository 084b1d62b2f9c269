//! Checks which channels the prepared claims open, and who owns these.

use std::collections::{BTreeMap, BTreeSet};

use crate::facts::claims::ClaimFacts;
use crate::facts::claims::checkpoint_file::{HeldChannel, RecordFacts};
use crate::facts::specs::{SpecFacts, SpecFileFacts};
use crate::finding::Finding;
use crate::majors::is_channel_path;
use crate::text::{and_more, counted, number_list};

/// Lists the cluster's domains with the fields that the checkpoint has of them.
const DOMAINS: &str = "kubectl get computedomains -A -o custom-columns=\
                       UID:.metadata.uid,NAMESPACE:.metadata.namespace,NAME:.metadata.name,CHANNEL:.status.channel";

/// A claim and a channel that it opens.
#[derive(Clone, Copy)]
struct ChannelHolder<'a> {
    uid: &'a str,
    record: &'a RecordFacts,
    held: &'a HeldChannel,
}

/// Returns nothing for records of an earlier boot: their claims are not prepared.
pub(super) fn check(facts: &ClaimFacts, specs: &SpecFacts) -> Vec<Finding> {
    if facts.earlier_boot().is_some() {
        return vec![];
    }
    let mut findings = of_two_owners(facts);
    findings.extend(other_than_recorded(facts, specs));
    findings
}

/// `2 domains on channels 1-2`; `None` where no claim holds a channel.
pub(super) fn summary(facts: &ClaimFacts) -> Option<String> {
    let records = facts.records()?.values();
    let domains: BTreeSet<&str> = records.clone().flat_map(RecordFacts::domains).collect();
    let numbers: BTreeSet<u32> = records.flat_map(RecordFacts::numbers).collect();
    let domains_here = counted(domains.len(), "domain");
    (!numbers.is_empty()).then(|| format!("{domains_here} on {}", named(&numbers)))
}

/// Channels for which claims of two owners are prepared. Claims may have channel 0 together if
/// nothing isolates, which the host does not know. But a claim without a share has the node's
/// device exclusively.
fn of_two_owners(facts: &ClaimFacts) -> Vec<Finding> {
    let mut openers: BTreeMap<u32, BTreeMap<&str, ChannelHolder<'_>>> = BTreeMap::new();
    for (uid, record) in facts.records().into_iter().flatten() {
        let counts = |held: &&HeldChannel| {
            held.channel != 0 || (!record.has_share && facts.may_be_live(uid))
        };
        for held in record.channels.iter().filter(counts) {
            let owners = openers.entry(held.channel).or_default();
            let opener = ChannelHolder { uid, record, held };
            owners.entry(&held.owner).or_insert(opener);
        }
    }
    let file = facts.root.checkpoint();
    let contested = openers.into_iter().filter_map(|(channel, owners)| {
        let others = owners.len().checked_sub(2)?;
        let mut owners = owners.into_values();
        let (first, second) = (owners.next()?, owners.next()?);
        Some(Finding::error(
            "channel-of-two-owners",
            format!("channel {channel}"),
            format!(
                "according to {file}, this channel is prepared for {first} and for {second}{}: {}",
                and_more(others),
                if channel == 0 {
                    "a claim without a share id must be the only claim that holds the node's device"
                } else {
                    "their pods can read each other's memory"
                }
            ),
            first.fix(&second),
        ))
    });
    contested.collect()
}

/// Specs that open another channel than the claim's record has.
fn other_than_recorded(facts: &ClaimFacts, specs: &SpecFacts) -> Vec<Finding> {
    let files = specs.files.iter();
    let files: BTreeMap<&str, &SpecFileFacts> =
        files.map(|file| (file.path.as_str(), file)).collect();
    let checkpoint = facts.root.checkpoint();
    let records = facts.records().into_iter().flatten();
    let other = records.filter_map(|(uid, record)| {
        let path = facts.specs.paths.get(uid)?;
        let opened = opened(files.get(path.as_str())?)?;
        let recorded = ChannelHolder {
            uid,
            record,
            held: record.channels.first()?,
        };
        if record.agrees_with(&opened) {
            return None;
        }
        Some(Finding::error(
            "spec-of-another-channel",
            path,
            format!(
                "this spec opens {}, but according to {checkpoint}, {recorded} has {}",
                named(&opened),
                named(&record.numbers()),
            ),
            "restart the kubelet plugin on this node, which rewrites the spec; then delete the \
             pods that use the claim, because their containers may have the wrong channel",
        ))
    });
    other.collect()
}

/// The channels that a spec opens; `None` if one of them is unknown.
fn opened(file: &SpecFileFacts) -> Option<BTreeSet<u32>> {
    file.spec.as_ref().ok()?;
    let nodes = file.nodes.iter();
    let nodes = nodes.filter(|node| is_channel_path(&node.path));
    nodes
        .map(|node| u32::try_from(node.channel?).ok())
        .collect()
}

/// `channel 1`, `channels 1-3, 7`, `no channel`.
fn named(numbers: &BTreeSet<u32>) -> String {
    match numbers.len() {
        0 => "no channel".to_owned(),
        1 => format!("channel {}", number_list(numbers)),
        _ => format!("channels {}", number_list(numbers)),
    }
}

// === impl Opener ===

impl ChannelHolder<'_> {
    /// Whether the claim owns the channel, not its domain.
    fn is_owner(&self) -> bool {
        self.held.owner == self.uid
    }

    /// The fix for a channel that `other` opens, too.
    fn fix(&self, other: &Self) -> String {
        let own = [self, other].into_iter().find(|it| it.is_owner());
        match own {
            None if self.held.channel == 0 => {
                "delete one of the two claims and its pods: the scheduler allocated the same device \
                 to both (kubernetes/kubernetes#141471); to allow many claims per device, set \
                 imex.sharing=many"
                    .to_owned()
            }
            Some(ChannelHolder { uid, record, .. }) => format!(
                "delete the ResourceClaim {} and its pods, and recreate the claim: the new claim is allocated another device",
                record.name.as_deref().unwrap_or(uid)
            ),
            None => format!(
                "keep the ComputeDomain that holds the Lease of channel {} (kubectl get leases \
                 -A | grep imex-channel-). Delete the other ComputeDomain and its pods, and \
                 recreate the ComputeDomain: the new one gets another status.channel. To list the \
                 ComputeDomains: {DOMAINS}",
                self.held.channel
            ),
        }
    }
}

impl std::fmt::Display for ChannelHolder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { uid, record, held } = self;
        write!(f, "claim {uid} (")?;
        if let Some(name) = &record.name {
            write!(f, "{name}, ")?;
        }
        write!(f, "ComputeDomain {}", held.domain)?;
        if self.is_owner() {
            write!(f, ", device {}", held.device)?;
        }
        write!(f, ")")
    }
}

#[cfg(test)]
mod tests;
