//! Looks up whether pods of this node have a deleted claim. A claim whose finalizers are
//! stripped can be deleted while its pods run, and their containers keep the device.
//!
//! The record's `reservedFor` does not list all these pods: kubelet does not call again for
//! further pods of a prepared claim.

use std::collections::BTreeSet;

use daemon_runtime::{Part, for_each_page};
use dra_checkpoint::ClaimRef;
use dra_common::error_chain;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Client, Resource as _};
use node_claims::Presence;
use serde::Deserialize;
use tracing::warn;

use crate::get_object::get_object;
use crate::path_segment::is_path_segment;

/// Reads pods from the API server. Cheap to clone.
#[derive(Clone)]
pub struct PodLookup {
    client: Client,
    node: String,
}

/// The fields of a pod that are read. Others may have any content.
#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uid: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    resource_claims: Option<Vec<PodClaim>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: String,
    resource_claim_statuses: Option<Vec<PodClaim>>,
    init_container_statuses: Option<Vec<Container>>,
    container_statuses: Option<Vec<Container>>,
}

/// A claim of a pod: its own in the spec, one from a template in the status.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodClaim {
    #[serde(default)]
    resource_claim_name: Option<String>,
}

#[derive(Deserialize)]
struct Container {
    #[serde(default, rename = "containerID")]
    id: String,
}

// === impl PodLookup ===

impl PodLookup {
    /// Looks up pods of `node`.
    pub fn new(client: Client, node: &str) -> Self {
        Self {
            client,
            node: node.to_owned(),
        }
    }

    /// Namespaces and names of the claims of this node's pods that have not ended. One list of
    /// the node's pods.
    ///
    /// # Errors
    /// The list cannot be read.
    pub async fn claims_here(&self) -> Result<BTreeSet<(String, String)>, kube::Error> {
        let path = Pod::url_path(&(), None);
        let here = ListParams::default().fields(&format!("spec.nodeName={}", self.node));
        let mut found = BTreeSet::new();
        let visit = |pods: Vec<Object>| {
            for pod in pods.iter().filter(|pod| !pod.has_ended()) {
                let claims = pod.claims().map(str::to_owned);
                found.extend(claims.map(|claim| (pod.metadata.namespace.clone(), claim)));
            }
            true
        };
        for_each_page(&self.client, &path, Part::Whole, here, visit).await?;
        Ok(found)
    }

    /// Names of the pod's claims, all of its namespace. One GET. `None` if there is no such pod on
    /// the API server, as for a static pod.
    ///
    /// # Errors
    /// The pod cannot be read.
    pub async fn claims_of(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<Option<BTreeSet<String>>, kube::Error> {
        if !is_path_segment(namespace) || !is_path_segment(name) {
            return Ok(None);
        }
        let path = Pod::url_path(&(), Some(namespace));
        match get_object::<Object>(&self.client, path, name).await {
            Ok(pod) if pod.metadata.uid == uid => {
                Ok(Some(pod.claims().map(str::to_owned).collect()))
            }
            Ok(_) => Ok(None),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether a pod of this node names the claim, has containers and has not ended. One list
    /// of the namespace's pods on the node.
    pub async fn presence(&self, claim: &ClaimRef) -> Presence {
        // The name comes from a file that other programs may have written.
        if !is_path_segment(&claim.namespace) {
            return Presence::Absent;
        }
        let path = Pod::url_path(&(), Some(&claim.namespace));
        let here = ListParams::default().fields(&format!("spec.nodeName={}", self.node));
        let mut found = false;
        let visit = |pods: Vec<Object>| {
            found = pods.iter().any(|pod| pod.has(&claim.name));
            !found
        };
        match for_each_page(&self.client, &path, Part::Whole, here, visit).await {
            Ok(()) if found => Presence::Present,
            Ok(()) => Presence::Absent,
            Err(error) => {
                let error = error_chain(&error);
                warn!(%claim, error, "cannot check whether a pod still uses a deleted claim; the claim keeps its device");
                Presence::Unknown
            }
        }
    }
}

// === impl Object ===

impl Object {
    /// Whether the pod uses the claim. A pod without containers does not: most likely it waits
    /// for another claim of that name, which has the same device.
    fn has(&self, claim: &str) -> bool {
        let status = &self.status;
        let containers = [&status.init_container_statuses, &status.container_statuses];
        let mut containers = containers.into_iter().flatten().flatten();
        !self.has_ended()
            && self.claims().any(|it| it == claim)
            && containers.any(|container| !container.id.is_empty())
    }

    fn has_ended(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    fn claims(&self) -> impl Iterator<Item = &str> {
        let Self { spec, status, .. } = self;
        let claims = [&spec.resource_claims, &status.resource_claim_statuses];
        let claims = claims.into_iter().flatten().flatten();
        claims.filter_map(|claim| claim.resource_claim_name.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn has(pod: &Value) -> bool {
        let pod: Object = serde_json::from_value(pod.clone()).unwrap();
        pod.has("train")
    }

    #[test]
    fn a_claim_is_named_in_the_spec_or_comes_from_a_template() {
        let containers = json!([{"name": "main", "containerID": "containerd://1", "state": 5}]);
        let own = json!({
                "spec": {"resourceClaims": [{"name": "a"}, {"name": "b", "resourceClaimName": "train"}]},
            "status": {"phase": "Running", "containerStatuses": containers},
        });
        assert!(has(&own));
        let of_template = json!({
            "spec": {"resourceClaims": [{"name": "a", "resourceClaimTemplateName": "train"}]},
            "status": {"phase": "Pending", "initContainerStatuses": containers,
                "resourceClaimStatuses": [{"name": "a", "resourceClaimName": "train"}]},
        });
        assert!(has(&of_template));
    }

    #[test]
    fn a_pod_that_has_ended_or_has_no_containers_or_another_claim_does_not_use_it() {
        let pod = json!({
            "spec": {"resourceClaims": [{"name": "b", "resourceClaimName": "train"}]},
            "status": {"phase": "Running", "containerStatuses": [{"containerID": "c"}]},
        });
        for (path, value) in [
            ("/status/phase", json!("Succeeded")),
            ("/status/phase", json!("Failed")),
            ("/status/containerStatuses", Value::Null),
            ("/status/containerStatuses/0/containerID", json!("")),
            ("/spec/resourceClaims/0/resourceClaimName", json!("trains")),
            ("/spec/resourceClaims", Value::Null),
        ] {
            let mut pod = pod.clone();
            assert!(has(&pod));
            *pod.pointer_mut(path).unwrap() = value.clone();
            assert!(!has(&pod), "{path} {value}");
        }
        assert!(!has(&json!({})));
    }
}
