//! Puts events of the channels' Leases into the index.

use compute_domain_core::Key;
use kube::runtime::watcher::Event;

use super::{Run, Watched};
use crate::api_client::{RawLease, observed_lease};

impl Run<'_> {
    pub(super) fn take_lease(&mut self, event: Event<RawLease>) {
        let index = &self.worker.context.index;
        match event {
            Event::Init => index.lock().begin_leases(),
            Event::InitApply(lease) | Event::Apply(lease) => {
                if let Some(lease) = observed_lease(&lease) {
                    index.lock().apply_lease(lease);
                }
            }
            Event::InitDone => {
                index.lock().finish_leases();
                self.listed(Watched::Leases);
            }
            Event::Delete(lease) => {
                if let Some(lease) = observed_lease(&lease) {
                    index.lock().remove_lease(lease.number(), lease.uid());
                }
            }
        }
    }

    /// A claim was added or deleted. A deleted domain keeps its channel while it has claims.
    pub(super) fn claims_changed(&mut self, key: &Key) {
        if self.worker.context.index.lock().is_lease_left(key) {
            self.add([key]);
        }
    }
}
