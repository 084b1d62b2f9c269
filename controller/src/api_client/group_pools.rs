//! Requests for the `ResourceSlices` of the cliques' pools.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use compute_domain_api::crd::ComputeDomain;
use compute_domain_core::cliques_of_pools;
use daemon_runtime::{Part, for_each_page};
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::api::{ListParams, PostParams};
use kube::{Api, Resource as _};
use serde::Deserialize;

use super::claims::Claim;
use super::{ApiClient, CONTROLLER_NAME, RequestError, delete_only, failed_to, was_there};

/// The fields of a domain that identify it and its channel.
#[derive(Deserialize)]
struct NumberedDomain {
    metadata: DomainName,
    status: Option<DomainStatus>,
}

#[derive(Deserialize)]
struct DomainName {
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
struct DomainStatus {
    channel: Option<u32>,
}

// === impl ApiClient ===

impl ApiClient {
    /// Lists all domains. Returns those with one of these channels, as `namespace/name`.
    pub(crate) async fn domains_with_channels(
        &self,
        channels: &RangeInclusive<u32>,
    ) -> Result<Vec<String>, RequestError> {
        let mut found = Vec::new();
        let visit = |page: Vec<NumberedDomain>| {
            let taken = page.iter().filter(|domain| domain.has_one_of(channels));
            found.extend(taken.map(NumberedDomain::to_string));
            true
        };
        let (url_path, all) = (ComputeDomain::url_path(&(), None), ListParams::default());
        for_each_page(&self.client, &url_path, Part::Whole, all, visit)
            .await
            .map_err(failed_to("list the channels of ComputeDomains"))?;
        Ok(found)
    }

    /// Lists all claims. Returns the cliques from whose pools devices are allocated.
    pub(crate) async fn cliques_in_use(&self) -> Result<HashSet<Box<str>>, RequestError> {
        let mut found = HashSet::new();
        let visit = |claim: Claim| {
            found.extend(cliques_of_pools(claim.pools()));
        };
        self.for_each_claim("list the allocations of ResourceClaims", visit)
            .await?;
        Ok(found)
    }

    /// Creates the slice. Fails if one of its name exists.
    pub(crate) async fn create_slice(
        &self,
        slice: &ResourceSlice,
    ) -> Result<ResourceSlice, RequestError> {
        let action = "create the ResourceSlice";
        self.check_fence(action)?;
        let created = self.slices().create(&written(), slice).await;
        created.map_err(failed_to(action))
    }

    /// Replaces the slice of this name, if its version is unchanged.
    pub(crate) async fn replace_slice(
        &self,
        slice: &ResourceSlice,
    ) -> Result<ResourceSlice, RequestError> {
        let action = "replace the ResourceSlice";
        self.check_fence(action)?;
        let name = slice.metadata.name.as_deref().unwrap_or_default();
        let replaced = self.slices().replace(name, &written(), slice).await;
        replaced.map_err(failed_to(action))
    }

    /// Deletes this slice, but not another one of the same name. A missing slice is not an error.
    pub(crate) async fn delete_slice(&self, name: &str, uid: &str) -> Result<(), RequestError> {
        let action = "delete the ResourceSlice";
        self.check_fence(action)?;
        let deleted = self.slices().delete(name, &delete_only(uid, None)).await;
        was_there(action, deleted).map(drop)
    }

    fn slices(&self) -> Api<ResourceSlice> {
        Api::all(self.client.clone())
    }
}

// === impl NumberedDomain ===

impl NumberedDomain {
    fn has_one_of(&self, channels: &RangeInclusive<u32>) -> bool {
        let channel = self.status.as_ref().and_then(|status| status.channel);
        channel.is_some_and(|channel| channels.contains(&channel))
    }
}

impl std::fmt::Display for NumberedDomain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.metadata.namespace, self.metadata.name)
    }
}

fn written() -> PostParams {
    PostParams {
        field_manager: Some(CONTROLLER_NAME.to_owned()),
        ..PostParams::default()
    }
}
