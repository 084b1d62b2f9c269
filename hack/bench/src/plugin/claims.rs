//! Allocated claims, which the scheduler makes on a real cluster.

use anyhow::Context;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

use super::Driver;
use crate::create::create;
use crate::dra_proto as proto;

/// A claim for a device of the node, whose pool has its name.
pub(crate) struct AllocatedClaim<'a> {
    pub(crate) driver: Driver,
    pub(crate) node: &'a str,
    pub(crate) namespace: &'a str,
    /// With its name.
    pub(crate) metadata: Value,
    pub(crate) spec: Value,
    pub(crate) request: &'static str,
    pub(crate) device: String,
    /// The id of its share, if other claims have shares of the device, too.
    pub(crate) share: Option<String>,
    /// The configs of the allocation.
    pub(crate) config: Value,
}

// === impl AllocatedClaim ===

impl AllocatedClaim<'_> {
    /// Creates it; returns it as kubelet names it.
    pub(crate) async fn create(self, client: &Client) -> anyhow::Result<proto::Claim> {
        let claims: Api<ResourceClaim> = Api::namespaced(client.clone(), self.namespace);
        let claim = json!({"metadata": self.metadata, "spec": self.spec});
        let created = create(&claims, claim).await?;
        let name = created.name_any();
        let allocation = json!({
            "devices": {
                "results": [{
                    "request": self.request, "driver": self.driver.0, "pool": self.node,
                    "device": self.device, "shareID": self.share,
                }],
                "config": self.config,
            },
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": [self.node]},
            ]}]},
        });
        let status = Patch::Merge(json!({"status": {"allocation": allocation}}));
        claims
            .patch_status(&name, &PatchParams::default(), &status)
            .await?;
        Ok(proto::Claim {
            namespace: self.namespace.to_owned(),
            uid: created.uid().context("a claim without a UID")?,
            name,
        })
    }
}
