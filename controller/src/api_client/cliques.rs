//! In which cliques the nodes have prepared claims of one domain, from the reports in
//! `status.devices` of the claims.

use std::collections::BTreeSet;

use compute_domain_api::names::{DOMAIN_LABEL, DRIVER_NAME};
use compute_domain_core::Domain;
use imex_runtime::{Part, for_each_page};
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::Resource as _;
use kube::api::ListParams;
use serde::Deserialize;
use serde_json::Value;

use super::{ApiClient, RequestError, failed_to};

/// Whoever may write the status of claims may report anything. A clique of a node is shorter: a UUID, a
/// dot and a number.
const LONGEST_CLIQUE: usize = 64;

/// Of a claim nothing is decoded but its devices: there are thousands, and what others have written in
/// them must not fail the list.
#[derive(Deserialize)]
struct Claim {
    status: Option<ClaimStatus>,
}

#[derive(Deserialize)]
struct ClaimStatus {
    #[serde(default)]
    devices: Vec<Device>,
}

#[derive(Deserialize)]
struct Device {
    driver: String,
    #[serde(default)]
    conditions: Vec<Condition>,
    /// Any JSON, of any driver.
    #[serde(default)]
    data: Value,
}

#[derive(Deserialize)]
struct Condition {
    r#type: String,
    status: String,
}

// === impl ApiClient ===

impl ApiClient {
    /// In which cliques this domain holds prepared claims, by what is reported in the claims with its
    /// label in its namespace. One list.
    pub(crate) async fn reported_cliques(
        &self,
        domain: &Domain,
    ) -> Result<BTreeSet<Box<str>>, RequestError> {
        let url_path = ResourceClaim::url_path(&(), Some(domain.namespace()));
        let uid = domain.uid().as_str();
        let labelled = ListParams::default().labels(&format!("{DOMAIN_LABEL}={uid}"));
        let mut found = BTreeSet::new();
        let visit = |page: Vec<Claim>| {
            found.extend(page.into_iter().flat_map(|claim| claim.cliques(uid)));
            true
        };
        for_each_page(&self.client, &url_path, Part::Whole, labelled, visit)
            .await
            .map_err(failed_to("list the ResourceClaims of the ComputeDomain"))?;
        Ok(found)
    }
}

// === impl Claim ===

impl Claim {
    /// The label alone proves nothing: anybody can make a claim with it.
    fn cliques(self, uid: &str) -> impl Iterator<Item = Box<str>> {
        let devices = self.status.into_iter().flat_map(|status| status.devices);
        devices.filter_map(move |device| device.clique(uid).map(Box::from))
    }
}

// === impl Device ===

impl Device {
    fn clique(&self, uid: &str) -> Option<&str> {
        let is_prepared = |it: &Condition| it.r#type == "Ready" && it.status == "True";
        let is_of = self.driver == DRIVER_NAME
            && self.text("computeDomain") == Some(uid)
            && self.conditions.iter().any(is_prepared);
        let clique = self.text("clique").filter(|_| is_of);
        clique.filter(|it| !it.is_empty() && it.len() <= LONGEST_CLIQUE)
    }

    fn text(&self, field: &str) -> Option<&str> {
        self.data.get(field)?.as_str()
    }
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

    fn cliques(claims: &Value) -> Vec<String> {
        let claims: Vec<Claim> = serde_json::from_value(claims.clone()).unwrap();
        let cliques = claims.into_iter().flat_map(|claim| claim.cliques("uid"));
        cliques.map(String::from).collect()
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
    fn what_is_no_report_of_the_driver_about_this_domain_counts_for_nothing() {
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
}
