//! Requests to remove the objects of the Go driver's driver-managed mode, and to find the claims that still use them.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use compute_domain_api::ComputeDomainDaemonConfig;
use compute_domain_api::clique::ComputeDomainClique;
use compute_domain_api::names::DOMAIN_LABEL;
use compute_domain_core::{GoKind, GoObject, is_clique_of, label_removal};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use kube::api::ListParams;
use kube::core::Status;
use kube::{Api, Resource};

use super::claims::{Claim, text};
use super::{
    ApiClient, RawMetadata, RequestError, delete_only, failed_to, json_patch, was_there, writer,
};

// === impl ApiClient ===

impl ApiClient {
    /// The allocated claims of these `ComputeDomains`, as `NAMESPACE/NAME`, without those of IMEX daemons. Lists the
    /// cluster's claims from storage, because claims of the Go driver's templates have no label.
    // req: MODE-30
    pub(crate) async fn allocated_claims(
        &self,
        domains: &BTreeSet<Box<str>>,
    ) -> Result<HashMap<Box<str>, Vec<String>>, RequestError> {
        let mut found: HashMap<Box<str>, Vec<String>> = HashMap::new();
        let visit = |claim: Claim| {
            for domain in domains_of(&claim).filter(|uid| domains.contains(*uid)) {
                let claims = found.entry(domain.into()).or_default();
                let name = claim.name();
                if claims.last() != Some(&name) {
                    claims.push(name);
                }
            }
        };
        self.for_each_claim("list the ResourceClaims of all ComputeDomains", visit)
            .await?;
        Ok(found)
    }

    /// Deletes this object, and removes the driver's finalizer from it. A missing object is not an error.
    pub(crate) async fn remove_go_object(&self, object: &GoObject) -> Result<(), RequestError> {
        match object.kind() {
            GoKind::DaemonSet => self.remove_as::<DaemonSet>(object).await,
            GoKind::Template => self.remove_as::<ResourceClaimTemplate>(object).await,
        }
    }

    // req: MODE-33
    async fn remove_as<K>(&self, object: &GoObject) -> Result<(), RequestError>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + fmt::Debug,
    {
        // Not decoded, because the response may be the object or a status.
        let api: Api<RawMetadata<K>> = Api::namespaced(self.client.clone(), object.namespace());
        if !object.is_being_deleted() {
            let action = "delete an object that the Go driver's driver-managed mode left behind";
            self.check_fence(action)?;
            let params = delete_only(object.uid(), None);
            if !was_there(action, api.delete(object.name(), &params).await)? {
                return Ok(());
            }
        }
        if let Some(patch) = object.finalizer_removal() {
            let action = "remove the finalizer from an object that the Go driver's driver-managed mode left behind";
            self.check_fence(action)?;
            let patch = json_patch(action, patch)?;
            was_there(action, api.patch(object.name(), &writer(), &patch).await)?;
        }
        Ok(())
    }

    /// Removes the label of this ComputeDomain from every node that has it.
    pub(crate) async fn unlabel_nodes(&self, domain: &str) -> Result<(), RequestError> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let labelled = of_domain(domain);
        let listed = nodes.list_metadata(&labelled).await;
        let listed = listed.map_err(failed_to("list the nodes with the ComputeDomain's label"))?;
        let action = "remove the ComputeDomain's label from the node";
        for name in listed
            .items
            .into_iter()
            .filter_map(|node| node.metadata.name)
        {
            self.check_fence(action)?;
            let patch = json_patch(action, label_removal(domain))?;
            let patched = nodes.patch_metadata(&name, &writer(), &patch).await;
            match was_there(action, patched) {
                // Another client has changed the label meanwhile, so it no longer belongs to this ComputeDomain.
                Err(err) if err.status().is_some_and(Status::is_invalid) => {}
                done => drop(done?),
            }
        }
        Ok(())
    }

    /// Deletes the clique objects of this ComputeDomain in a namespace.
    pub(crate) async fn delete_go_cliques(
        &self,
        namespace: &str,
        domain: &str,
    ) -> Result<(), RequestError> {
        let cliques: Api<ComputeDomainClique> = Api::namespaced(self.client.clone(), namespace);
        let listed = match cliques.list_metadata(&of_domain(domain)).await {
            // Without the CRD there are none.
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(()),
            listed => listed.map_err(failed_to("list the ComputeDomain's cliques"))?,
        };
        let action = "delete the ComputeDomain's clique";
        for clique in listed.items {
            let (Some(name), Some(uid)) = (clique.metadata.name, clique.metadata.uid) else {
                continue;
            };
            if is_clique_of(&name, domain) {
                self.check_fence(action)?;
                let deleted = cliques.delete(&name, &delete_only(&uid, None)).await;
                was_there(action, deleted)?;
            }
        }
        Ok(())
    }
}

fn of_domain(uid: &str) -> ListParams {
    ListParams::default().labels(&format!("{DOMAIN_LABEL}={uid}"))
}

/// The `ComputeDomain`s for which a device is allocated to the claim.
fn domains_of(claim: &Claim) -> impl Iterator<Item = &str> {
    let channels = claim
        .parameters()
        .filter(|it| text(it, "/kind") != Some(ComputeDomainDaemonConfig::KIND));
    channels.filter_map(|it| text(it, "/domainID"))
}

#[cfg(test)]
mod tests {
    use compute_domain_api::ComputeDomainChannelConfig;
    use serde_json::{Value, json};

    use super::*;

    fn mk_claim(kind: &str) -> Value {
        json!({
            "metadata": { "namespace": "ns", "name": "x" },
            "status": { "allocation": { "devices": { "config": [{ "opaque": {
                "driver": "compute-domain.nvidia.com",
                "parameters": { "kind": kind, "domainID": "uid" },
            } }] } } },
        })
    }

    fn domains(claim: Value) -> Vec<String> {
        let claim: Claim = serde_json::from_value(claim).unwrap();
        domains_of(&claim).map(String::from).collect()
    }

    // req: MODE-30
    #[test]
    fn allocated_channel_claims_belong_to_their_domain_and_daemon_claims_do_not() {
        assert_eq!(domains(mk_claim(ComputeDomainChannelConfig::KIND)), ["uid"]);
        assert_eq!(domains(mk_claim(ComputeDomainDaemonConfig::KIND)), [""; 0]);
    }

    #[test]
    fn invalid_content_of_a_claim_does_not_fail_the_list() {
        for (path, value) in [
            ("/status", json!(3)),
            ("/status/allocation", json!(null)),
            ("/status/allocation/devices/config", json!({})),
            (
                "/status/allocation/devices/config/0/opaque/driver",
                json!("gpu.nvidia.com"),
            ),
            (
                "/status/allocation/devices/config/0/opaque/parameters",
                json!([]),
            ),
            (
                "/status/allocation/devices/config/0/opaque/parameters/domainID",
                json!(5),
            ),
        ] {
            let mut claim = mk_claim(ComputeDomainChannelConfig::KIND);
            *claim.pointer_mut(path).unwrap() = value;
            assert_eq!(domains(claim), [""; 0], "{path}");
        }
        assert_eq!(domains(json!({})), [""; 0]);
    }
}
