//! The controller's watches of claims and of the Leases of channels.

use compute_domain_core::{ChannelLease, ClaimName, Key};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::resource::v1::ResourceClaim;
use k8s_openapi::jiff::SignedDuration;

use crate::controller::{Controller, Fault, Watched};
use crate::objects::{domain_uid, place};
use crate::store::WatchEvent;

impl Controller {
    pub(crate) fn take_claim(&mut self, told: WatchEvent<ResourceClaim>) {
        match told {
            WatchEvent::Begin => self.index.begin_claims(),
            WatchEvent::Apply(claim) => {
                let (key, name) = identified_claim(&claim);
                if self.fault != Fault::IgnoresClaims {
                    self.index.apply_claim(key.clone(), name);
                }
                self.queue
                    .extend(self.index.is_lease_left(&key).then_some(key));
            }
            WatchEvent::Finish => {
                self.index.finish_claims();
                self.queue.extend(self.index.leases_left());
                self.listed(Watched::Claims);
            }
            WatchEvent::Delete(claim) => {
                let (key, name) = identified_claim(&claim);
                self.index.remove_claim(&key, &name);
                self.queue
                    .extend(self.index.is_lease_left(&key).then_some(key));
            }
        }
    }

    pub(crate) fn take_lease(&mut self, told: WatchEvent<Lease>) {
        match told {
            WatchEvent::Begin => self.index.begin_leases(),
            WatchEvent::Apply(lease) => {
                let lease = self.observed_lease(&lease).unwrap();
                self.index.apply_lease(lease);
            }
            WatchEvent::Finish => {
                self.index.finish_leases();
                self.listed(Watched::Leases);
            }
            WatchEvent::Delete(lease) => {
                let lease = ChannelLease::new(&lease).unwrap();
                self.index.remove_lease(lease.number(), lease.uid());
            }
        }
    }

    pub(super) fn observed_lease(&self, lease: &Lease) -> Option<ChannelLease> {
        let mut lease = lease.clone();
        let spec = lease.spec.as_mut();
        let released = spec.and_then(|spec| spec.renew_time.as_mut());
        if let (Some(released), Fault::HurriesCoolDowns) = (released, self.fault) {
            released.0 -= SignedDuration::from_secs(1_000);
        }
        ChannelLease::new(&lease)
    }
}

fn identified_claim(claim: &ResourceClaim) -> (Key, ClaimName) {
    let (namespace, name) = place(&claim.metadata);
    let key = domain_uid(&claim.metadata).unwrap().into();
    (key, (namespace.into(), name.into()))
}
