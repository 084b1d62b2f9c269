//! Looks up recorded claims on the API server, for the reconciler and for the
//! rebuild after damage.

use std::collections::{BTreeMap, BTreeSet};

use daemon_runtime::Part;
use dra_checkpoint::{ClaimRef, ClaimStatus};
use dra_kubelet::{ClaimSource as _, GetClaimError, KubeClaims};
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::{Client, Resource as _};
use node_claims::{AllocatedClaim, Presence};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::claim_presence::{is_allocated_to, presence_in};
use crate::list_pages::for_each_object;

/// Reads claims from the API server. Cheap to clone.
#[derive(Clone)]
pub struct ClaimLookup {
    client: Client,
    claims: KubeClaims,
    driver: &'static str,
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
    /// Looks up claims with devices of `driver` on `node`.
    pub fn new(client: Client, driver: &'static str, node: &str) -> Self {
        Self {
            claims: KubeClaims::new(client.clone()),
            client,
            driver,
            node: node.to_owned(),
        }
    }

    /// Whether the claim exists and is allocated to this node. One GET.
    pub async fn presence(&self, claim: &ClaimRef) -> Presence {
        match self.claims.get(&claim.namespace, &claim.name).await {
            Ok(json) => presence_in(&json, &claim.uid, self.driver, &self.node),
            Err(GetClaimError::NotFound) => Presence::Absent,
            Err(_) => Presence::Unknown,
        }
    }

    /// Names of the claims with these UIDs, as far as they exist. Lists all claims'
    /// metadata, page by page, until all are found.
    ///
    /// # Errors
    /// A page cannot be read.
    pub async fn find_names(
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
    ///
    /// # Errors
    /// A page cannot be read.
    pub async fn find_allocated(
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

    fn allocated(&self, item: Item) -> Option<AllocatedClaim> {
        let status = ClaimStatus::from_raw(item.status.as_ref()?).ok()?;
        is_allocated_to(&status, self.driver, &self.node).then(|| AllocatedClaim {
            claim: item.metadata.into_name(),
            status,
        })
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
