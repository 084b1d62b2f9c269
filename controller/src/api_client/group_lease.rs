//! Requests for the Lease that reserves the channels of groups, so that `ComputeDomains` do not get them.

use compute_domain_api::names::{CHANNEL_LABEL, DRIVER_NAME};
use compute_domain_core::{GROUP_LEASE, GroupLease};
use daemon_runtime::{Part, for_each_page};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::resource::v1::ResourceSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource as _;
use kube::api::{GetParams, ListParams, Patch};
use kube::core::Request;
use serde::Deserialize;
use serde_json::Value;

use super::{ApiClient, RawMetadata, RequestError, delete_only, failed_to, writer};

/// The Lease without its times: Kubernetes accepts some that cannot be decoded.
#[derive(Deserialize)]
struct Read {
    metadata: Metadata,
    spec: Option<Spec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    uid: String,
    resource_version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    renew_time: Option<String>,
}

impl ApiClient {
    /// Reads the Lease, if it exists.
    pub(crate) async fn get_group_lease(&self) -> Result<Option<GroupLease>, RequestError> {
        let failed = failed_to("read the Lease for the channels of group claims");
        let request = Request::new(self.leases_path()).get(GROUP_LEASE, &GetParams::default());
        let request = request
            .map_err(kube::Error::BuildRequest)
            .map_err(&failed)?;
        match self.client.request::<Read>(request).await {
            Ok(read) => Ok(Some(read.lease())),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(err) => Err(failed(err)),
        }
    }

    /// Changes the Lease with a merge patch that contains its version.
    pub(crate) async fn change_group_lease(&self, patch: Value) -> Result<(), RequestError> {
        let action = "change the Lease for the channels of group claims";
        self.check_fence(action)?;
        let patch = Patch::Merge(patch);
        let changed = self.leases().patch(GROUP_LEASE, &writer(), &patch).await;
        changed.map(drop).map_err(failed_to(action))
    }

    /// Deletes this version of the Lease, and no later one.
    pub(crate) async fn delete_group_lease(&self, lease: &GroupLease) -> Result<(), RequestError> {
        let action = "delete the Lease for the channels of group claims";
        self.check_fence(action)?;
        let params = delete_only(lease.uid(), Some(lease.resource_version()));
        let deleted = self.leases().delete(GROUP_LEASE, &params).await;
        deleted.map(drop).map_err(failed_to(action))
    }

    /// Whether a slice of a pool of channels of groups exists: a slice of our driver without a node.
    pub(crate) async fn has_group_pools(&self) -> Result<bool, RequestError> {
        let of_no_node = format!("spec.driver={DRIVER_NAME},spec.nodeName=");
        let params = ListParams::default().fields(&of_no_node);
        let mut found = false;
        let visit = |page: Vec<RawMetadata<ResourceSlice>>| {
            found |= !page.is_empty();
            !found
        };
        let url_path = ResourceSlice::url_path(&(), None);
        for_each_page(&self.client, &url_path, Part::Metadata, params, visit)
            .await
            .map_err(failed_to(
                "list the ResourceSlices with channels for group claims",
            ))?;
        Ok(found)
    }

    /// The names of the Leases of channels, including those that are cooling down.
    pub(crate) async fn channel_lease_names(&self) -> Result<Vec<String>, RequestError> {
        let labelled = ListParams::default().labels(CHANNEL_LABEL);
        let mut names = Vec::new();
        let visit = |page: Vec<RawMetadata<Lease>>| {
            let of_page = page.into_iter();
            names.extend(of_page.filter_map(|mut lease| lease.meta_mut().name.take()));
            true
        };
        for_each_page(
            &self.client,
            &self.leases_path(),
            Part::Metadata,
            labelled,
            visit,
        )
        .await
        .map_err(failed_to("list the Leases of IMEX channels"))?;
        Ok(names)
    }

    fn leases_path(&self) -> String {
        Lease::url_path(&(), Some(&self.namespace))
    }
}

// === impl Read ===

impl Read {
    fn lease(self) -> GroupLease {
        let metadata = ObjectMeta {
            uid: Some(self.metadata.uid),
            resource_version: Some(self.metadata.resource_version),
            ..ObjectMeta::default()
        };
        let renew_time = self.spec.and_then(|spec| spec.renew_time);
        GroupLease::new(&metadata, renew_time.as_deref())
    }
}
