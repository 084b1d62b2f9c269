//! Where claims come from.

use std::future::Future;

use http::header::ACCEPT;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::Resource as _;
use kube::core::Request;
use kube::core::params::GetParams;

/// Reads `ResourceClaims`. [`KubeClaims`] asks the API server; tests of the
/// library and of drivers answer from memory.
pub trait ClaimSource: Send + Sync + 'static {
    /// The object `resource.k8s.io/v1 ResourceClaim` NAMESPACE/NAME as JSON text,
    /// unchanged. Which UID is wanted is not the source's business: the library
    /// compares it.
    ///
    /// The future may be dropped at any await point.
    fn get(
        &self,
        namespace: &str,
        name: &str,
    ) -> impl Future<Output = Result<String, GetClaimError>> + Send;
}

/// Why a source could not hand out a claim.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GetClaimError {
    /// The API server answered, and no such claim exists.
    #[error("the ResourceClaim does not exist any more")]
    NotFound,
    /// The API server refused, failed, or was not reached.
    #[error("the ResourceClaim could not be read from the API server")]
    Api(#[source] Box<kube::Error>),
}

impl GetClaimError {
    /// A stable word for logs and metrics.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotFound => "claim-not-found",
            Self::Api(_) => "claim-read",
        }
    }
}

/// Reads each claim live from the API server: `GET` by name, no cache and no
/// list, so the driver needs the verb `get` on `resourceclaims` only.
#[derive(Clone)]
pub struct KubeClaims {
    client: kube::Client,
}

impl KubeClaims {
    /// The library bounds each request by the call's deadline, so the client's
    /// own retries do no harm. It should have a connect time-out.
    pub const fn new(client: kube::Client) -> Self {
        Self { client }
    }
}

impl ClaimSource for KubeClaims {
    async fn get(&self, namespace: &str, name: &str) -> Result<String, GetClaimError> {
        let path = ResourceClaim::url_path(&(), Some(namespace));
        let mut request = Request::new(path)
            .get(name, &GetParams::default())
            .map_err(|error| GetClaimError::Api(Box::new(kube::Error::BuildRequest(error))))?;
        let json = http::HeaderValue::from_static("application/json");
        request.headers_mut().insert(ACCEPT, json);
        self.client
            .request_text(request)
            .await
            .map_err(|error| match error {
                kube::Error::Api(status) if status.is_not_found() => GetClaimError::NotFound,
                error => GetClaimError::Api(Box::new(error)),
            })
    }
}
