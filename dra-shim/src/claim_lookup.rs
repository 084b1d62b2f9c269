//! Which claims exist in the cluster: for the rebuild after damage and for the
//! reconciler.

use std::collections::{BTreeMap, BTreeSet};

use compute_domain_api::names::DRIVER_NAME;
use compute_domain_node::{AllocatedClaim, Presence};
use dra_checkpoint::{ClaimName, ClaimStatus};
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::api::{ListParams, PartialObjectMeta};
use kube::core::Request;
use kube::{Api, Client, Resource as _, ResourceExt};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Asks the API server about claims. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ClaimLookup {
    client: Client,
    node: String,
}

/// The part of a list of claims that is read; each status stays as it was sent.
#[derive(Deserialize)]
struct List {
    items: Vec<Item>,
}

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

impl ClaimLookup {
    pub(crate) fn new(client: Client, node: &str) -> Self {
        Self {
            client,
            node: node.to_owned(),
        }
    }

    /// Every claim of the cluster with a device of this driver in this node's pool.
    pub(crate) async fn allocated_here(&self) -> Result<Vec<AllocatedClaim>, kube::Error> {
        let path = ResourceClaim::url_path(&(), None);
        let request = Request::new(path)
            .list(&ListParams::default())
            .map_err(kube::Error::BuildRequest)?;
        let list: List = self.client.request(request).await?;
        Ok(list
            .items
            .into_iter()
            .filter_map(|item| self.allocated(item))
            .collect())
    }

    /// The claim in `item`, if it is allocated on this node.
    fn allocated(&self, item: Item) -> Option<AllocatedClaim> {
        let status = ClaimStatus::from_raw(&item.status?).ok()?;
        let ours = status
            .results()
            .iter()
            .any(|result| result.driver() == DRIVER_NAME && result.pool() == self.node);
        let Metadata {
            uid,
            name,
            namespace,
        } = item.metadata;
        ours.then_some(AllocatedClaim {
            claim: ClaimName {
                uid,
                name,
                namespace,
            },
            status,
        })
    }

    /// Whether each of these claims exists, by its UID. A claim whose name is not
    /// known (records of 25.3.x have none) is searched for in all namespaces.
    pub(crate) async fn presence(&self, claims: &[ClaimName]) -> BTreeMap<String, Presence> {
        let all = if claims.iter().any(|claim| claim.name.is_empty()) {
            self.all_uids().await
        } else {
            None
        };
        let mut presence = BTreeMap::new();
        for claim in claims {
            let found = match &all {
                _ if !claim.name.is_empty() => self.by_name(claim).await,
                None => Presence::Unknown,
                Some(uids) if uids.contains(&claim.uid) => Presence::Present,
                Some(_) => Presence::Absent,
            };
            presence.insert(claim.uid.clone(), found);
        }
        presence
    }

    async fn by_name(&self, claim: &ClaimName) -> Presence {
        let claims: Api<PartialObjectMeta<ResourceClaim>> =
            Api::namespaced(self.client.clone(), &claim.namespace);
        match claims.get_opt(&claim.name).await {
            Ok(Some(found)) if found.uid().as_deref() == Some(claim.uid.as_str()) => {
                Presence::Present
            }
            Ok(_) => Presence::Absent,
            Err(_) => Presence::Unknown,
        }
    }

    async fn all_uids(&self) -> Option<BTreeSet<String>> {
        let claims: Api<PartialObjectMeta<ResourceClaim>> = Api::all(self.client.clone());
        let list = claims.list(&ListParams::default()).await.ok()?;
        Some(list.iter().filter_map(ResourceExt::uid).collect())
    }
}
