//! The Leases of channels: their requests and their invariants.

use std::collections::{BTreeMap, BTreeSet};

use compute_domain_api::crd::ComputeDomain;
use compute_domain_api::names::channel_lease_name;
use compute_domain_core::ChannelLease;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::objects::{channel, domain_uid, has_our_finalizer, lease_place, place, uid};
use crate::server::{Failure, Reply, Server};

/// How long a channel has to be unused before it is assigned again.
const COOL_DOWN: SignedDuration = SignedDuration::from_secs(600);

/// The history of the channels.
#[derive(Default)]
pub(crate) struct Channels {
    /// The last use of each channel, by domain: through its status or its claims.
    last_used: BTreeMap<u32, BTreeMap<String, Timestamp>>,
    /// The channels whose Lease or status a user has edited.
    pub(crate) tampered: BTreeSet<u32>,
    /// The channels whose Lease a user deleted after the controller had seen it. The controller creates it again,
    /// unless it is killed before.
    pub(crate) deleted: BTreeSet<u32>,
    /// The channel of each domain, by UID. It never changes.
    assigned: BTreeMap<String, u32>,
}

impl Server {
    pub(crate) fn post_lease(&mut self, lease: &Lease) -> Result<Reply, Failure> {
        let at = lease_place(&place(&lease.metadata).1);
        if self.leases.get(&at).is_some() {
            return Err(Failure::AlreadyExists);
        }
        let mut lease = lease.clone();
        lease.metadata.namespace = Some(at.0);
        let version = self.identify(&mut lease)?;
        self.check_assignment(&lease);
        Ok(Reply::from(self.leases.put(lease, version)))
    }

    /// A merge patch of labels and spec, which names UID and version.
    pub(crate) fn patch_lease(
        &mut self,
        lease: &ChannelLease,
        patch: &Value,
        version: u64,
    ) -> Result<Reply, Failure> {
        let mut now = self.checked_lease(lease)?;
        if let Some(labels) = patch["metadata"]["labels"].as_object() {
            let all = now.metadata.labels.get_or_insert_default();
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            all.extend(labels.iter().map(|(key, value)| (key.clone(), text(value))));
        }
        let mut spec = serde_json::to_value(&now.spec).unwrap();
        for (field, value) in patch["spec"].as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        now.spec = serde_json::from_value(spec).unwrap();
        Ok(Reply::from(self.leases.put(now, version)))
    }

    pub(crate) fn free_lease(&mut self, lease: &ChannelLease) -> Result<Reply, Failure> {
        self.checked_lease(lease)?;
        self.leases.remove(&lease_place(&lease.name()));
        Ok(Reply::Nothing)
    }

    fn checked_lease(&self, lease: &ChannelLease) -> Result<Lease, Failure> {
        let now = self.leases.get(&lease_place(&lease.name()));
        let now = now.ok_or(Failure::NotFound)?;
        let version = now.metadata.resource_version.as_deref();
        let same = uid(&now.metadata) == lease.uid() && version == Some(lease.resource_version());
        same.then(|| now.clone()).ok_or(Failure::Outdated)
    }

    /// Forgets the deleted Leases: only the killed controller knew them.
    pub(crate) fn forget_deleted_leases(&mut self) {
        for number in std::mem::take(&mut self.channels.deleted) {
            let lease = lease_place(&channel_lease_name(number));
            if self.leases.get(&lease).is_none() {
                self.channels.tampered.insert(number);
            }
        }
    }

    // === invariants ===

    /// Records the current uses of the channels.
    pub(crate) fn note_channels(&mut self) {
        let Self {
            domains,
            claims,
            leases,
            channels,
            now,
            ..
        } = self;
        let mut violation = None;
        let mut owners = BTreeMap::new();
        for domain in domains.values() {
            let Some(number) = channel(domain).filter(|number| *number > 0) else {
                continue;
            };
            let owner = uid(&domain.metadata).to_owned();
            let users = channels.last_used.entry(number).or_default();
            users.insert(owner.clone(), *now);
            if *channels.assigned.entry(owner.clone()).or_insert(number) != number {
                violation = Some(format!("the channel of {owner} has changed"));
            }
            if owners.insert(number, owner).is_some() && !channels.tampered.contains(&number) {
                violation = Some(format!("two domains have channel {number}"));
            }
        }
        for lease in leases.values().filter_map(ChannelLease::new) {
            let mut claims = claims.values().map(|claim| domain_uid(&claim.metadata));
            // Claims were prepared with the channel in the status.
            if let Some(holder) = lease.holder()
                && channels.assigned.get(&**holder) == Some(&lease.number())
                && claims.any(|owner| owner == Some(holder))
            {
                let users = channels.last_used.entry(lease.number()).or_default();
                users.insert(holder.to_string(), *now);
            }
        }
        if let Some(violation) = violation {
            self.violation.get_or_insert(violation);
        }
    }

    /// Checks the assignment of a channel to the holder of this Lease.
    fn check_assignment(&mut self, lease: &Lease) {
        let lease = ChannelLease::new(lease).unwrap();
        let number = lease.number();
        if !self.schema.channel {
            self.violate("a channel is given that no status can say", &number);
        }
        self.note_channels();
        let users = self.channels.last_used.get(&number).into_iter().flatten();
        let others = users.filter(|(user, _)| lease.holder().is_none_or(|it| **it != ***user));
        let last = others.map(|(_, at)| *at).max();
        let too_early = last.is_some_and(|last| self.now.duration_since(last) < COOL_DOWN);
        if too_early && !self.channels.tampered.contains(&number) {
            self.violate("a channel is given before its time", &number);
        }
    }
}

/// The reason that the domain's condition should have because of its channel; `None` if the channel is right.
pub(crate) fn expected_of_channel(
    server: &Server,
    domain: &ComputeDomain,
    channel_count: Option<u32>,
) -> Option<&'static str> {
    let count = channel_count?;
    let lease = |number| server.leases.get(&lease_place(&channel_lease_name(number)));
    if !server.schema.channel {
        return Some("ChannelFieldMissing");
    }
    let Some(number) = channel(domain) else {
        let taken: BTreeSet<_> = server.domains.values().filter_map(channel).collect();
        let is_free = |number| lease(number).is_none() && !taken.contains(&number);
        let any_free = (1..count).any(is_free);
        return Some(if any_free {
            "NoChannelFree, but there is one"
        } else {
            "NoChannelFree"
        });
    };
    let lease = lease(number).and_then(ChannelLease::new);
    let confirmed = lease.is_some_and(|lease| {
        let holder = lease.holder().map(|holder| &**holder);
        holder == Some(uid(&domain.metadata)) && number < count
    });
    let lives = has_our_finalizer(&domain.metadata);
    (!confirmed && lives).then_some("ChannelNotConfirmed")
}

/// No Lease of a deleted domain is left, unless a user has edited it so that its owner is unknown.
pub(crate) fn check_leases(server: &Server) -> Result<(), String> {
    for lease in server.leases.values() {
        let Some(holder) = ChannelLease::new(lease).and_then(|it| it.holder().cloned()) else {
            continue;
        };
        let is_labelled = ChannelLease::new(lease).is_some_and(|it| it.is_labelled());
        let claims = || server.claims.values();
        let has_claims = claims().any(|it| domain_uid(&it.metadata) == Some(&holder));
        let owner = server.domains.by_uid(&holder);
        let name = place(&lease.metadata).1;
        let is_used = owner.is_some_and(|owner| {
            channel(owner).is_none_or(|number| channel_lease_name(number) == name)
        });
        if is_labelled && !is_used && !has_claims {
            return Err(format!("{name} is left: {:?}", lease.spec));
        }
        let is_released = lease
            .spec
            .as_ref()
            .is_some_and(|it| it.renew_time.is_some());
        let in_status = owner.is_some_and(|owner| channel(owner).is_some());
        if is_labelled && is_used && in_status && is_released {
            return Err(format!("{name} is used and released: {:?}", lease.spec));
        }
    }
    Ok(())
}
