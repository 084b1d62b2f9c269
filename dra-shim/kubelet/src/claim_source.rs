//! The source of claims: the API server, or a test.

use std::error::Error;
use std::future::Future;
use std::sync::Arc;

use dra_common::Advice;
use http::header::ACCEPT;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::Resource as _;
use kube::core::params::GetParams;
use kube::core::{Request, Status};
use tokio::sync::Semaphore;

use crate::names::{MAX_OBJECT_NAME, is_label, is_subdomain};

/// Reads `ResourceClaim`s. [`KubeClaims`] reads them from the API server; tests can serve
/// them from memory.
pub trait ClaimSource: Send + Sync + 'static {
    /// Returns the `resource.k8s.io/v1 ResourceClaim` NAMESPACE/NAME as JSON text,
    /// unchanged.
    ///
    /// **Called** on a tokio worker thread before the first attempt of a Prepare. Called
    /// again after an error, and after another call joined the Prepare, because that call
    /// may be for a newer version of the claim. Never called for Unprepare. Calls for one
    /// claim do not overlap; calls for different claims do.
    ///
    /// **Must** be cancel-safe: the future is dropped when the claim is unprepared, after
    /// ten seconds, and at [`Context::deadline`](crate::Context::deadline). It must not
    /// block, and must not return a cached object that may lack the allocation.
    ///
    /// **May assume** that the library checks UID and allocation: return the current object
    /// with this name. A panic becomes the claim's error.
    ///
    /// # Errors
    ///
    /// [`GetClaimError`] states which errors are retried.
    fn get(
        &self,
        namespace: &str,
        name: &str,
    ) -> impl Future<Output = Result<String, GetClaimError>> + Send;
}

/// Error of reading a claim.
///
/// [`GetClaimError::NotFound`] and [`GetClaimError::BadName`] fail the claim at once.
/// Other errors are retried until [`Context::deadline`](crate::Context::deadline).
/// The pod's event shows the message and its cause.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum GetClaimError {
    /// The API server reported that this claim does not exist. Permanent.
    #[error("the ResourceClaim does not exist")]
    #[advice(code = "claim-not-found")]
    NotFound,
    /// The namespace or name is invalid, so no request was sent. Permanent.
    #[error("invalid ResourceClaim name {namespace:?}/{name:?}")]
    #[advice(code = "claim-bad-name")]
    BadName {
        /// The namespace that kubelet sent.
        namespace: String,
        /// The name that kubelet sent.
        name: String,
    },
    /// The API server refused the request, failed, or was not reachable. Retried; the
    /// event shows the server's own message, or the innermost error.
    #[error("cannot read the ResourceClaim from the API server")]
    #[advice(code = "claim-read")]
    Api(#[source] Box<kube::Error>),
    /// Failure of a source other than [`KubeClaims`]. Retried; the event shows all errors
    /// of the chain, outermost first.
    #[error("cannot read the ResourceClaim")]
    #[advice(code = "claim-source")]
    Source(#[source] Box<dyn Error + Send + Sync>),
}

/// Limit of concurrent reads. Without it, a node whose pods all start at once would open a
/// connection for each claim. A read takes milliseconds; a handshake takes several times the
/// CPU of a read, and each connection has buffers on both ends.
const MAX_IN_FLIGHT: usize = 8;

/// Reads each claim from the API server: `GET` by name, without cache or list, so the
/// driver needs only the verb `get` on `resourceclaims`. All clones together have at most
/// 8 requests in flight.
///
/// The error is [`GetClaimError::NotFound`] only if the response is a `Status` that names
/// the claim. Other 404s are retried: the API server may not serve `resource.k8s.io/v1`
/// while it starts or is updated, and a proxy may return its own 404s.
#[derive(Clone)]
pub struct KubeClaims {
    client: kube::Client,
    permits: Arc<Semaphore>,
}

impl KubeClaims {
    /// Creates a source. The client should have a connect timeout. Its own retries are
    /// harmless: the library bounds each read by the deadline of kubelet's call.
    pub fn new(client: kube::Client) -> Self {
        Self {
            client,
            permits: Arc::new(Semaphore::new(MAX_IN_FLIGHT)),
        }
    }
}

impl ClaimSource for KubeClaims {
    async fn get(&self, namespace: &str, name: &str) -> Result<String, GetClaimError> {
        // Both come from kubelet's socket and become part of the URL.
        if !is_label(namespace) || !is_subdomain(name, MAX_OBJECT_NAME) {
            return Err(GetClaimError::BadName {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            });
        }
        let path = ResourceClaim::url_path(&(), Some(namespace));
        let mut request = Request::new(path)
            .get(name, &GetParams::default())
            .map_err(|error| GetClaimError::Api(Box::new(kube::Error::BuildRequest(error))))?;
        let json = http::HeaderValue::from_static("application/json");
        request.headers_mut().insert(ACCEPT, json);
        // Fails only for a closed semaphore, and this one is never closed.
        let _permit = self.permits.acquire().await.ok();
        self.client
            .request_text(request)
            .await
            .map_err(|error| match error {
                kube::Error::Api(status) if is_claim_not_found(&status, name) => {
                    GetClaimError::NotFound
                }
                error => GetClaimError::Api(Box::new(error)),
            })
    }
}

/// Whether the API server reports that the claim `name` does not exist.
fn is_claim_not_found(status: &Status, name: &str) -> bool {
    let is_about_it = status
        .details
        .as_ref()
        .is_some_and(|about| about.name == name && about.kind == ResourceClaim::plural(&()));
    status.reason == "NotFound" && is_about_it
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use futures_util::future::join_all;
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
    async fn a_claim_is_returned_byte_for_byte() {
        let text = "{\"z\":  1,\n \"a\": \"\\u003c\"}";
        assert_eq!(mk_source(200, text).get("ns", "c").await.unwrap(), text);
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_reads_are_limited_and_all_succeed() {
        let in_flight = Arc::new(Semaphore::new(MAX_IN_FLIGHT));
        let service = tower::service_fn(move |_: Request<Body>| {
            let in_flight = Arc::clone(&in_flight);
            async move {
                let _one = in_flight.try_acquire().expect("too many reads at once");
                tokio::time::sleep(Duration::from_millis(5)).await;
                Ok::<_, Infallible>(Response::new(Body::from(b"{}".to_vec())))
            }
        });
        let source = KubeClaims::new(kube::Client::new(service, "default"));
        let reads = (0..200).map(|_| source.get("ns", "c"));
        let began = tokio::time::Instant::now();
        for answer in join_all(reads).await {
            assert_eq!(answer.unwrap(), "{}");
        }
        // 25 rounds of 8 concurrent reads.
        assert!(began.elapsed() < Duration::from_millis(300));
    }

    #[tokio::test]
    async fn only_a_404_that_names_the_claim_means_not_found() {
        // The response of a real API server.
        let gone = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",
            "message":"resourceclaims.resource.k8s.io \"c\" not found","reason":"NotFound",
            "details":{"name":"c","group":"resource.k8s.io","kind":"resourceclaims"},"code":404}"#;
        let error = mk_source(404, gone).get("ns", "c").await.unwrap_err();
        assert!(matches!(error, GetClaimError::NotFound), "{error:?}");

        let other_claim = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",
            "message":"resourceclaims.resource.k8s.io \"d\" not found","reason":"NotFound",
            "details":{"name":"d","group":"resource.k8s.io","kind":"resourceclaims"},"code":404}"#;
        // The API server serves the version but not the kind.
        let other_kind = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",
            "message":"the server could not find the requested resource","reason":"NotFound",
            "details":{},"code":404}"#;
        let refused = r#"{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,
            "message":"no","details":{"name":"c","kind":"resourceclaims"}}"#;
        for (code, answer) in [
            // The API server does not serve the version.
            (404, "404 page not found\n"),
            (
                404,
                "<html><head><title>404 Not Found</title></head></html>",
            ),
            (404, ""),
            (404, other_claim),
            (404, other_kind),
            (403, refused),
        ] {
            let error = mk_source(code, answer).get("ns", "c").await.unwrap_err();
            assert!(
                matches!(error, GetClaimError::Api(_)),
                "{answer}: {error:?}"
            );
        }
    }

    // req: KUBELET-34
    #[tokio::test]
    async fn a_name_that_would_change_the_url_is_never_sent() {
        let source = mk_source(200, "{}"); // panics at any other path than the claim's
        for (namespace, name) in [
            ("..", "c"),
            ("ns/secrets", "c"),
            ("", "c"),
            ("ns", "../../secrets/s"),
            ("ns", ".."),
            ("ns", "c/status"),
            ("ns", "c?watch=true"),
            ("ns", "c#"),
            ("ns", "c%2f.."),
            ("ns", "c d"),
            ("ns", ""),
        ] {
            let error = source.get(namespace, name).await.unwrap_err();
            assert_eq!(error.code(), "claim-bad-name", "{namespace}/{name}");
        }
        assert!(source.get("ns", "c").await.is_ok());
    }
}
