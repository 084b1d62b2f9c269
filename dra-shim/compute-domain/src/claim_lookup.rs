//! Looks up recorded claims on the API server, for the reconciler and for the
//! rebuild after damage.

use std::collections::{BTreeMap, BTreeSet};

use compute_domain_api::names::DOMAIN_LABEL;
use daemon_runtime::{Part, for_each_page};
use dra_checkpoint::{ClaimRef, ClaimStatus};
use dra_kubelet::{ClaimSource as _, GetClaimError, KubeClaims};
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::api::ListParams;
use kube::{Client, Resource as _};
use node_claims::{AllocatedClaim, Presence};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::claim_presence::{has_node_device, is_allocated_to, presence_in};
use crate::get_object::get_object;
use crate::list_pages::for_each_object;
use crate::path_segment::is_path_segment;

/// Reads claims from the API server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ClaimLookup {
    client: Client,
    claims: KubeClaims,
    node: String,
}

/// The fields of a listed claim that are read. A malformed status does not fail the list.
#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
    #[serde(default)]
    status: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Metadata {
    uid: String,
    name: String,
    namespace: String,
}

// === impl ClaimLookup ===

impl ClaimLookup {
    pub(crate) fn new(client: Client, node: &str) -> Self {
        Self {
            claims: KubeClaims::new(client.clone()),
            client,
            node: node.to_owned(),
        }
    }

    /// Whether the claim exists and is allocated to this node. One GET.
    pub(crate) async fn presence(&self, claim: &ClaimRef) -> Presence {
        match self.claims.get(&claim.namespace, &claim.name).await {
            Ok(json) => presence_in(&json, &claim.uid, &self.node),
            Err(GetClaimError::NotFound) => Presence::Absent,
            Err(_) => Presence::Unknown,
        }
    }

    /// Names of the claims with these UIDs, as far as they exist. Lists all claims'
    /// metadata, page by page, until all are found.
    pub(crate) async fn find_names(
        &self,
        uids: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, ClaimRef>, kube::Error> {
        let mut found = BTreeMap::new();
        let visit = |item: Item| {
            if uids.contains(&item.metadata.uid) {
                found.insert(item.metadata.uid.clone(), item.metadata.into_name());
            }
            found.len() < uids.len()
        };
        let path = ResourceClaim::url_path(&(), None);
        for_each_object(&self.client, &path, Part::Metadata, visit).await?;
        Ok(found)
    }

    /// Claims with these UIDs that are allocated to this node. Lists all claims, page by
    /// page, until all are found. No UIDs, no request.
    pub(crate) async fn find_allocated(
        &self,
        uids: &BTreeSet<String>,
    ) -> Result<Vec<AllocatedClaim>, kube::Error> {
        if uids.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = BTreeMap::new();
        let visit = |item: Item| {
            if uids.contains(&item.metadata.uid) {
                let uid = item.metadata.uid.clone();
                found.insert(uid, self.allocated(item));
            }
            found.len() < uids.len()
        };
        let path = ResourceClaim::url_path(&(), None);
        for_each_object(&self.client, &path, Part::Whole, visit).await?;
        Ok(found.into_values().flatten().collect())
    }

    /// Whether the claim is allocated this node's device, `channel-0`. One GET.
    pub(crate) async fn has_node_device(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<bool, kube::Error> {
        if !is_path_segment(namespace) || !is_path_segment(name) {
            return Ok(false);
        }
        let path = ResourceClaim::url_path(&(), Some(namespace));
        match get_object::<Item>(&self.client, path, name).await {
            Ok(item) => Ok(self.is_of_node_device(&item)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether any claim with a domain's label is allocated this node's device. Lists those
    /// claims, page by page, until one is found.
    pub(crate) async fn any_labelled_has_node_device(&self) -> Result<bool, kube::Error> {
        let mut found = false;
        let visit = |items: Vec<Item>| {
            found = items.iter().any(|item| self.is_of_node_device(item));
            !found
        };
        let path = ResourceClaim::url_path(&(), None);
        let labelled = ListParams::default().labels(DOMAIN_LABEL);
        for_each_page(&self.client, &path, Part::Whole, labelled, visit).await?;
        Ok(found)
    }

    fn is_of_node_device(&self, item: &Item) -> bool {
        let status = item.status();
        status.is_some_and(|status| has_node_device(&status, &self.node))
    }

    fn allocated(&self, item: Item) -> Option<AllocatedClaim> {
        let status = item.status()?;
        is_allocated_to(&status, &self.node).then(|| AllocatedClaim {
            claim: item.metadata.into_name(),
            status,
        })
    }
}

// === impl Item ===

impl Item {
    fn status(&self) -> Option<ClaimStatus> {
        ClaimStatus::from_raw(self.status.as_ref()?).ok()
    }
}

// === impl Metadata ===

impl Metadata {
    fn into_name(self) -> ClaimRef {
        ClaimRef {
            uid: self.uid,
            name: self.name,
            namespace: self.namespace,
        }
    }
}

#[cfg(test)]
#[path = "claim_lookup_tests.rs"]
mod tests;
