//! Where claims are read from.

use std::error::Error;
use std::future::Future;
use std::sync::Arc;

use http::header::ACCEPT;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::Resource as _;
use kube::core::Request;
use kube::core::params::GetParams;
use tokio::sync::Semaphore;

/// Reads `ResourceClaim`s. [`KubeClaims`] reads them from the API server; tests
/// implement the trait over claims in memory.
pub trait ClaimSource: Send + Sync + 'static {
    /// Returns the `resource.k8s.io/v1 ResourceClaim` NAMESPACE/NAME as JSON text,
    /// unchanged.
    ///
    /// **Called** on a tokio worker thread, before the first attempt of a Prepare; again
    /// after an error, and when another call joined the Prepare, since that one may
    /// know a newer version. Never for Unprepare. Calls for one claim do not overlap;
    /// calls for different claims do, one for each claim that is being prepared.
    ///
    /// **Must** be cancel-safe: the future is dropped when the claim is unprepared, and
    /// after ten seconds or at [`Context::deadline`](crate::Context::deadline),
    /// whichever is first. It must not block, and must not serve a cached object that
    /// could lack the allocation.
    ///
    /// **May assume** that the library checks UID and allocation: whatever object has
    /// the name now is the right answer. A panic becomes the claim's error.
    ///
    /// # Errors
    ///
    /// See [`GetClaimError`] for which of them are retried.
    fn get(
        &self,
        namespace: &str,
        name: &str,
    ) -> impl Future<Output = Result<String, GetClaimError>> + Send;
}

/// Why a claim could not be read.
///
/// [`GetClaimError::NotFound`] fails the claim at once; every other error is retried
/// until [`Context::deadline`](crate::Context::deadline). The pod's event shows the
/// message and its cause.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GetClaimError {
    /// The API server answered, and no such claim exists. Permanent.
    #[error("the ResourceClaim does not exist any more")]
    NotFound,
    /// The API server refused the request, failed, or was not reached. Retried; the
    /// event shows the server's own message, or the innermost error.
    #[error("the ResourceClaim could not be read from the API server")]
    Api(#[source] Box<kube::Error>),
    /// Any failure of another source than [`KubeClaims`]. Retried; the event shows
    /// all errors of the chain, outermost first.
    #[error("the ResourceClaim could not be read")]
    Source(#[source] Box<dyn Error + Send + Sync>),
}

impl GetClaimError {
    /// A stable kebab-case code for logs and metrics.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotFound => "claim-not-found",
            Self::Api(_) => "claim-read",
            Self::Source(_) => "claim-source",
        }
    }
}

/// Limit of concurrent reads. A node full of pods that starts at once would otherwise
/// open a connection for each claim, with handshake and buffers on both ends.
const MAX_IN_FLIGHT: usize = 32;

/// Reads each claim live from the API server: `GET` by name, without cache or list, so
/// the driver needs only the verb `get` on `resourceclaims`. All clones together have
/// at most 32 requests in flight.
#[derive(Clone)]
pub struct KubeClaims {
    client: kube::Client,
    permits: Arc<Semaphore>,
}

impl KubeClaims {
    /// The client should have a connect timeout. Its own retries do no harm, as the
    /// library bounds each read by the deadline of kubelet's call.
    pub fn new(client: kube::Client) -> Self {
        Self {
            client,
            permits: Arc::new(Semaphore::new(MAX_IN_FLIGHT)),
        }
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
        // Fails only for a closed semaphore, and nobody closes this one.
        let _permit = self.permits.acquire().await.ok();
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
    async fn a_claim_comes_byte_for_byte_as_the_server_sent_it() {
        let text = "{\"z\":  1,\n \"a\": \"\\u003c\"}";
        assert_eq!(mk_source(200, text).get("ns", "c").await.unwrap(), text);
    }

    #[tokio::test(start_paused = true)]
    async fn many_reads_at_once_are_limited_and_all_are_answered() {
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
        // Seven rounds of up to 32: they do run concurrently.
        assert!(began.elapsed() < Duration::from_millis(100));
    }

    #[tokio::test]
    async fn a_missing_claim_is_distinguished_from_a_refusal_of_the_server() {
        let gone = r#"{"kind": "Status", "reason": "NotFound", "message": "gone", "code": 404}"#;
        let error = mk_source(404, gone).get("ns", "c").await.unwrap_err();
        assert!(matches!(error, GetClaimError::NotFound), "{error:?}");
        let refused = r#"{"kind": "Status", "reason": "Forbidden", "message": "no", "code": 403}"#;
        let error = mk_source(403, refused).get("ns", "c").await.unwrap_err();
        assert!(matches!(error, GetClaimError::Api(_)), "{error:?}");
    }
}
