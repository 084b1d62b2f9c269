//! Where claims come from.

use std::error::Error;
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
///
/// [`GetClaimError::NotFound`] fails the claim at once; after every other error
/// the claim is read again until [`Call::deadline`](crate::Call::deadline). The
/// pod's event has the sentence and the reason behind it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GetClaimError {
    /// The API server answered, and no such claim exists. Permanent.
    #[error("the ResourceClaim does not exist any more")]
    NotFound,
    /// The API server refused, failed, or was not reached. Tried again; the event
    /// has the server's own words, or the innermost error.
    #[error("the ResourceClaim could not be read from the API server")]
    Api(#[source] Box<kube::Error>),
    /// A source that is not [`KubeClaims`] failed in its own way. Tried again; the
    /// event has every error of the chain, from the outside in.
    #[error("the ResourceClaim could not be read")]
    Source(#[source] Box<dyn Error + Send + Sync>),
}

impl GetClaimError {
    /// A stable word for logs and metrics.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotFound => "claim-not-found",
            Self::Api(_) => "claim-read",
            Self::Source(_) => "claim-source",
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    fn mk_source(code: u16, answer: &'static str) -> KubeClaims {
        let service = tower::service_fn(move |request: Request<Body>| async move {
            let path = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c";
            assert_eq!(
                (request.method().as_str(), request.uri().path()),
                ("GET", path)
            );
            let body = Body::from(answer.as_bytes().to_vec());
            Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
        });
        KubeClaims::new(kube::Client::new(service, "default"))
    }

    #[tokio::test]
    async fn a_claim_comes_byte_for_byte_as_the_server_sent_it() {
        let text = "{\"z\":  1,\n \"a\": \"\\u003c\"}";
        assert_eq!(mk_source(200, text).get("ns", "c").await.unwrap(), text);
    }

    #[tokio::test]
    async fn a_claim_that_is_gone_is_told_from_a_server_that_refuses() {
        let gone = r#"{"kind": "Status", "reason": "NotFound", "message": "gone", "code": 404}"#;
        let error = mk_source(404, gone).get("ns", "c").await.unwrap_err();
        assert!(matches!(error, GetClaimError::NotFound), "{error:?}");
        let refused = r#"{"kind": "Status", "reason": "Forbidden", "message": "no", "code": 403}"#;
        let error = mk_source(403, refused).get("ns", "c").await.unwrap_err();
        assert!(matches!(error, GetClaimError::Api(_)), "{error:?}");
    }
}
