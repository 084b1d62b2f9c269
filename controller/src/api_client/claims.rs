//! Reads from the claims of one domain to which nodes they are allocated, and in which cliques nodes have prepared
//! them, according to the reports in `status.devices`.

use std::collections::{BTreeSet, HashMap};

use compute_domain_api::names::{DOMAIN_LABEL, DRIVER_NAME, clique_of_pool};
use compute_domain_core::Domain;
use daemon_runtime::{Part, for_each_page};
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::Resource as _;
use kube::api::ListParams;
use serde::Deserialize;
use serde_json::Value;

use super::{ApiClient, RequestError, failed_to};

/// Maximum length of a reported clique, because any writer of a claim's status can report anything. A node's clique
/// is shorter: a UUID, a dot and a number.
const LONGEST_CLIQUE: usize = 64;

/// Nodes and cliques of the claims of one domain.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ClaimsSummary {
    /// Cliques in which it holds prepared claims.
    pub(crate) cliques: BTreeSet<Box<str>>,
    /// Nodes to which claims are allocated.
    pub(crate) nodes: BTreeSet<Box<str>>,
}

/// For each node, the claims to which a device of the driver is allocated, as `NAMESPACE/NAME`.
pub(crate) type ClaimsOfNodes = HashMap<Box<str>, Vec<String>>;

/// A listed claim as arbitrary JSON: among thousands, invalid content of one must not fail the list.
#[derive(Deserialize)]
pub(super) struct Claim {
    #[serde(default)]
    metadata: Value,
    #[serde(default)]
    status: Value,
}

// === impl ApiClient ===

impl ApiClient {
    /// Lists the claims with this domain's label in its namespace.
    pub(crate) async fn list_claims_of_domain(
        &self,
        domain: &Domain,
    ) -> Result<ClaimsSummary, RequestError> {
        let url_path = ResourceClaim::url_path(&(), Some(domain.namespace()));
        let uid = domain.uid().as_str();
        let labelled = ListParams::default().labels(&format!("{DOMAIN_LABEL}={uid}"));
        let mut found = ClaimsSummary::default();
        let visit = |page: Vec<Claim>| {
            for claim in page {
                found.nodes.extend(claim.nodes(uid).map(Box::from));
                found.cliques.extend(claim.cliques(uid).map(Box::from));
            }
            true
        };
        for_each_page(&self.client, &url_path, Part::Whole, labelled, visit)
            .await
            .map_err(failed_to("list the ResourceClaims of the ComputeDomain"))?;
        Ok(found)
    }

    /// Lists the cluster's claims, from storage. Returns the claims of all nodes, regardless of their creator.
    pub(crate) async fn claims_of_nodes(&self) -> Result<ClaimsOfNodes, RequestError> {
        let mut found = ClaimsOfNodes::new();
        let visit = |claim: Claim| {
            for node in claim.pools() {
                let claims = found.entry(node.into()).or_default();
                claims.push(claim.name());
            }
        };
        self.for_each_claim("list the ResourceClaims of all nodes", visit)
            .await?;
        Ok(found)
    }

    /// Lists the cluster's claims, from storage.
    pub(super) async fn for_each_claim(
        &self,
        action: &'static str,
        mut visit: impl FnMut(Claim),
    ) -> Result<(), RequestError> {
        let url_path = ResourceClaim::url_path(&(), None);
        let visit = |page: Vec<Claim>| {
            page.into_iter().for_each(&mut visit);
            true
        };
        let all = ListParams::default();
        for_each_page(&self.client, &url_path, Part::Whole, all, visit)
            .await
            .map_err(failed_to(action))
    }
}

// === impl Claim ===

impl Claim {
    /// `NAMESPACE/NAME`.
    pub(super) fn name(&self) -> String {
        let part = |path| text(&self.metadata, path).unwrap_or("?");
        format!("{}/{}", part("/namespace"), part("/name"))
    }

    /// The driver's pools from which a device is allocated.
    pub(super) fn pools(&self) -> impl Iterator<Item = &str> {
        let results = list(&self.status, "/allocation/devices/results");
        let ours = results.filter(|result| text(result, "/driver") == Some(DRIVER_NAME));
        ours.filter_map(|result| text(result, "/pool"))
    }

    /// The parameters for the driver, which the scheduler copied from the claim's spec.
    pub(super) fn parameters(&self) -> impl Iterator<Item = &Value> {
        let configs = list(&self.status, "/allocation/devices/config");
        let ours = configs.filter(|config| text(config, "/opaque/driver") == Some(DRIVER_NAME));
        ours.filter_map(|config| config.pointer("/opaque/parameters"))
    }

    /// The nodes whose device is allocated to a claim of this domain: a node's pool has its name. The claim's
    /// configuration names the domain.
    // req: MODE-21
    fn nodes(&self, uid: &str) -> impl Iterator<Item = &str> {
        let is_of = self
            .parameters()
            .any(|it| text(it, "/domainID") == Some(uid));
        // The pool of a clique belongs to claims of groups.
        let pools = self.pools().filter(move |_| is_of);
        pools.filter(|pool| clique_of_pool(pool).is_none())
    }

    /// The cliques in reports. The label alone proves nothing: anyone can create a claim with it.
    fn cliques(&self, uid: &str) -> impl Iterator<Item = &str> {
        let devices = list(&self.status, "/devices");
        devices.filter_map(move |device| reported_clique(device, uid))
    }
}

fn reported_clique<'a>(device: &'a Value, uid: &str) -> Option<&'a str> {
    let is_ready =
        |it: &Value| text(it, "/type") == Some("Ready") && text(it, "/status") == Some("True");
    let is_of = text(device, "/driver") == Some(DRIVER_NAME)
        && text(device, "/data/computeDomain") == Some(uid)
        && list(device, "/conditions").any(is_ready);
    let clique = text(device, "/data/clique").filter(|_| is_of);
    clique.filter(|it| !it.is_empty() && it.len() <= LONGEST_CLIQUE)
}

fn list<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    let list = value.pointer(path).and_then(Value::as_array);
    list.into_iter().flatten()
}

pub(super) fn text<'a>(value: &'a Value, path: &str) -> Option<&'a str> {
    value.pointer(path)?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mk_device() -> Value {
        json!({
            "driver": "compute-domain.nvidia.com", "pool": "node1", "device": "channel-0",
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "9999-12-31T23:59:59Z" }],
            "data": { "computeDomain": "uid", "clique": "x.1", "channel": 0 },
        })
    }

    fn each(claims: &Value, of: impl Fn(&Claim) -> Vec<String>) -> Vec<String> {
        let claims: Vec<Claim> = serde_json::from_value(claims.clone()).unwrap();
        claims.iter().flat_map(of).collect()
    }

    fn cliques(claims: &Value) -> Vec<String> {
        each(claims, |claim| {
            claim.cliques("uid").map(String::from).collect()
        })
    }

    fn of_device(path: &str, value: Value) -> Vec<String> {
        let mut device = mk_device();
        *device.pointer_mut(path).unwrap() = value;
        cliques(&json!([{ "status": { "devices": [device] } }]))
    }

    #[test]
    fn a_clique_is_read_from_each_prepared_device_of_the_driver() {
        let mut other = mk_device();
        other["data"]["clique"] = json!("x.2");
        let claims = json!([
            { "metadata": 5, "spec": 7 },
            { "status": {} },
            { "status": { "allocation": 3, "devices": [mk_device(), other] } },
            { "status": { "devices": [{ "driver": "gpu.nvidia.com", "pool": "a", "device": "b" }] } },
        ]);
        assert_eq!(cliques(&claims), ["x.1", "x.2"]);
    }

    #[test]
    fn other_reports_are_ignored() {
        for (path, value) in [
            ("/driver", json!("gpu.nvidia.com")),
            ("/data", json!(null)),
            ("/data", json!("text")),
            ("/data/computeDomain", json!("another")),
            ("/data/clique", json!(null)),
            ("/data/clique", json!(1)),
            ("/data/clique", json!("")),
            ("/data/clique", json!("x".repeat(65))),
            ("/conditions/0/status", json!("False")),
            ("/conditions/0/type", json!("Healthy")),
        ] {
            let found = of_device(path, value.clone());
            assert!(found.is_empty(), "{path} {value}: {found:?}");
        }
        assert_eq!(of_device("/data/clique", json!("x".repeat(64))).len(), 1);
    }

    fn mk_allocation() -> Value {
        json!({ "devices": {
            "results": [
                { "request": "gpu", "driver": "gpu.nvidia.com", "pool": "other", "device": "gpu-0" },
                { "request": "channel", "driver": "compute-domain.nvidia.com", "pool": "node1", "device": "channel-0" },
            ],
            "config": [{ "source": "FromClaim", "requests": ["channel"], "opaque": {
                "driver": "compute-domain.nvidia.com", "parameters": { "domainID": "uid" },
            } }],
        } })
    }

    fn nodes(allocation: &Value) -> Vec<String> {
        let claims = json!([{ "status": { "allocation": allocation } }]);
        each(&claims, |claim| {
            claim.nodes("uid").map(String::from).collect()
        })
    }

    // req: MODE-21
    #[test]
    fn an_allocated_claim_of_the_domain_has_the_node_of_its_device() {
        assert_eq!(nodes(&mk_allocation()), ["node1"]);
    }

    // req: MODE-21
    #[test]
    fn other_allocations_have_no_node() {
        for (path, value) in [
            ("/devices", json!(null)),
            ("/devices", json!("text")),
            ("/devices/config", json!(null)),
            ("/devices/config/0/opaque/driver", json!("gpu.nvidia.com")),
            (
                "/devices/config/0/opaque/parameters/domainID",
                json!("another"),
            ),
            ("/devices/config/0/opaque/parameters", json!(7)),
            ("/devices/results", json!({})),
            ("/devices/results/1/driver", json!("gpu.nvidia.com")),
            ("/devices/results/1/pool", json!(1)),
        ] {
            let mut allocation = mk_allocation();
            *allocation.pointer_mut(path).unwrap() = value.clone();
            assert_eq!(nodes(&allocation), [""; 0], "{path} {value}");
        }
    }
}
