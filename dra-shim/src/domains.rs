//! Whether a claim's ComputeDomain exists.

use compute_domain_api::DomainId;
use compute_domain_api::crd::ComputeDomain;
use dra_kubelet::ClaimError;
use kube::api::{ListParams, PartialObjectMeta};
use kube::{Api, Client, ResourceExt as _};

/// Asks the API server when a claim is prepared. There is no watch: one list of
/// one namespace per new claim costs less than every node of a cluster
/// following every domain in it, and is never behind.
#[derive(Clone)]
pub(crate) struct Domains {
    client: Client,
}

impl Domains {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Whether a domain with this UID is in the namespace. Domains have no
    /// selector for UIDs, and a namespace has few of them.
    pub(crate) async fn exists(
        &self,
        namespace: &str,
        domain: &DomainId,
    ) -> Result<bool, ClaimError> {
        let domains: Api<PartialObjectMeta<ComputeDomain>> =
            Api::namespaced(self.client.clone(), namespace);
        match domains.list(&ListParams::default()).await {
            Ok(list) => Ok(list
                .iter()
                .any(|found| found.uid().as_deref() == Some(domain.as_str()))),
            Err(error) => Err(ClaimError::retry(format!(
                "the ComputeDomain cannot be looked up: {}",
                imex_runtime::error_chain(&error)
            ))
            .with_code("domain-lookup")),
        }
    }
}
