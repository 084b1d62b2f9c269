//! Users' actions on channels: they create and delete claims, and edit Leases and statuses.

use compute_domain_api::names::{CHANNEL_LABEL, channel_lease_name};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};

use super::UserActions;
use crate::objects::{channel, is_being_deleted, lease_place, mk_claim, place, uid};

const CLAIM_NAMES: [&str; 3] = ["claim-a", "claim-b", "claim-c"];

impl UserActions<'_> {
    /// Creates a claim of an existing domain, or with the label of a deleted one.
    pub(super) fn create_claim(&mut self) -> Option<()> {
        let domain = self.any_domain()?;
        let at = (place(&domain.metadata).0, self.any(&CLAIM_NAMES));
        if self.server.claims.get(&at).is_some() {
            return None;
        }
        let mut claim = mk_claim(&at, uid(&domain.metadata));
        let version = self.server.identify(&mut claim).ok()?;
        self.server.claims.put(claim, version);
        Some(())
    }

    pub(super) fn delete_claim(&mut self) -> Option<()> {
        let at = self.random.choice(self.server.claims.places())?;
        self.server.claims.remove(&at);
        Some(())
    }

    /// A status can be written only once.
    pub(super) fn forge_channel(&mut self) -> Option<()> {
        let mut domain = self.any_domain()?;
        let schema = self.server.schema.channel;
        if !schema || channel(&domain).is_some() || is_being_deleted(&domain.metadata) {
            return None;
        }
        let number = self.random.u32(1..6);
        self.server.channels.tampered.insert(number);
        domain.status.get_or_insert_default().channel = Some(number);
        self.server.put_domain(domain);
        Some(())
    }

    pub(super) fn delete_lease(&mut self) -> Option<()> {
        let leases = &self.server.leases;
        let was_known = leases.is_watched() && !leases.has_news();
        let (number, lease) = self.any_lease()?;
        self.server.leases.remove(&place(&lease.metadata));
        let channels = &mut self.server.channels;
        if was_known {
            channels.deleted.insert(number);
        } else {
            channels.tampered.insert(number);
        }
        Some(())
    }

    pub(super) fn edit_lease(&mut self) -> Option<()> {
        if self.random.u8(..4) == 0 {
            return self.create_foreign_lease();
        }
        let (number, mut lease) = self.any_lease()?;
        self.server.channels.tampered.insert(number);
        let now = self.server.now;
        let spec = lease.spec.get_or_insert_default();
        match self.random.u8(..5) {
            0 => drop(lease.metadata.labels.take()),
            1 => spec.renew_time = Some(MicroTime(now)),
            2 => spec.renew_time = None,
            3 => lease.metadata.annotations = None,
            _ => {
                let domain = self.any_domain()?;
                spec.holder_identity = Some(uid(&domain.metadata).to_owned());
            }
        }
        let version = self.server.next_version();
        self.server.leases.put(lease, version);
        Some(())
    }

    /// Creates a foreign Lease with a name like ours.
    fn create_foreign_lease(&mut self) -> Option<()> {
        let (namespace, name) = lease_place(&channel_lease_name(self.random.u32(1..4)));
        let mut lease = Lease {
            metadata: ObjectMeta {
                namespace: Some(namespace),
                name: Some(name),
                ..ObjectMeta::default()
            },
            ..Lease::default()
        };
        if self.server.leases.get(&place(&lease.metadata)).is_some() {
            return None;
        }
        let version = self.server.identify(&mut lease).ok()?;
        self.server.leases.put(lease, version);
        Some(())
    }

    fn any_lease(&mut self) -> Option<(u32, Lease)> {
        let all: Vec<_> = self.server.leases.values().collect();
        let lease = self.random.choice(all).cloned()?;
        let number = (1..6).find(|number| channel_lease_name(*number) == place(&lease.metadata).1);
        lease.metadata.labels.as_ref()?.get(CHANNEL_LABEL)?;
        Some((number?, lease))
    }
}
