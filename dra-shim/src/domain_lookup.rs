//! Whether a claim's ComputeDomain exists.

use compute_domain_api::DomainUid;
use compute_domain_api::crd::ComputeDomain;
use dra_kubelet::ClaimError;
use imex_runtime::error_chain;
use kube::api::{ListParams, PartialObjectMeta};
use kube::{Api, Client, ResourceExt as _};

/// Asks the API server when a claim is prepared. There is no watch: one list of
/// one namespace per new claim costs less than a watch of all domains on every
/// node, and is never out of date. Cheap to clone.
#[derive(Clone)]
pub(crate) struct DomainLookup {
    client: Client,
}

impl DomainLookup {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Whether a domain with this UID is in the namespace. The API server cannot
    /// select by UID; a namespace has few domains.
    pub(crate) async fn exists(
        &self,
        namespace: &str,
        domain: &DomainUid,
    ) -> Result<bool, ClaimError> {
        let domains: Api<PartialObjectMeta<ComputeDomain>> =
            Api::namespaced(self.client.clone(), namespace);
        match domains.list(&ListParams::default()).await {
            Ok(list) => Ok(list
                .iter()
                .any(|found| found.uid().as_deref() == Some(domain.as_str()))),
            Err(error) => Err(ClaimError::retry(format!(
                "the ComputeDomain cannot be looked up: {}",
                error_chain(&error)
            ))
            .with_code("domain-lookup")),
        }
    }
}
