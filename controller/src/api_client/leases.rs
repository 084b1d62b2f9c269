//! Requests for the Leases of channels.

use compute_domain_core::{ChannelLease, WRITER};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PostParams};
use serde_json::Value;

use super::{ApiClient, RawLease, RequestError, delete_only, failed_to, observed_lease, writer};

impl ApiClient {
    /// Creates a Lease. Not an apply, which would take over a Lease of another client.
    // req: CHANNEL-7
    pub(crate) async fn create_lease(&self, lease: &Lease) -> Result<Lease, RequestError> {
        let action = "create the Lease of an IMEX channel";
        self.check_fence(action)?;
        let params = PostParams {
            field_manager: Some(WRITER.to_owned()),
            ..PostParams::default()
        };
        let leases = Api::namespaced(self.client.clone(), &self.namespace);
        leases
            .create(&params, lease)
            .await
            .map_err(failed_to(action))
    }

    /// Reads the Lease of this name; `None` if it does not exist.
    pub(crate) async fn get_lease(&self, name: &str) -> Result<Option<ChannelLease>, RequestError> {
        let lease = self.leases().get_opt(name).await;
        let lease = lease.map_err(failed_to("read the Lease of an IMEX channel"))?;
        Ok(lease.as_ref().and_then(observed_lease))
    }

    /// Changes a Lease with a merge patch that contains its version. `None` if the result is not a channel's Lease.
    pub(crate) async fn change_lease(
        &self,
        lease: &ChannelLease,
        patch: Value,
    ) -> Result<Option<ChannelLease>, RequestError> {
        let action = "change the Lease of an IMEX channel";
        self.check_fence(action)?;
        let patch = Patch::Merge(patch);
        let changed = self.leases().patch(&lease.name(), &writer(), &patch).await;
        let changed = changed.map_err(failed_to(action))?;
        Ok(observed_lease(&changed))
    }

    /// Deletes this version of a Lease, and no later one.
    pub(crate) async fn delete_lease(&self, lease: &ChannelLease) -> Result<(), RequestError> {
        let action = "delete the Lease of an IMEX channel";
        self.check_fence(action)?;
        let params = delete_only(lease.uid(), Some(lease.resource_version()));
        let deleted = self.leases().delete(&lease.name(), &params).await;
        deleted.map(drop).map_err(failed_to(action))
    }

    pub(super) fn leases(&self) -> Api<RawLease> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}
