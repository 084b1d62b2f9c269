//! Where claims are read from.

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
/// [`GetClaimError::NotFound`] and [`GetClaimError::BadName`] fail the claim at once;
/// every other error is retried until [`Context::deadline`](crate::Context::deadline).
/// The pod's event shows the message and its cause.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum GetClaimError {
    /// The API server said of this very claim that it does not exist. Permanent.
    #[error("the ResourceClaim does not exist any more")]
    #[advice(code = "claim-not-found")]
    NotFound,
    /// No object can have this namespace or name, so nothing was requested. Permanent.
    #[error("no ResourceClaim can have the name {namespace:?}/{name:?}")]
    #[advice(code = "claim-bad-name")]
    BadName {
        /// The namespace that kubelet sent.
        namespace: String,
        /// The name that kubelet sent.
        name: String,
    },
    /// The API server refused the request, failed, or was not reached. Retried; the
    /// event shows the server's own message, or the innermost error.
    #[error("the ResourceClaim could not be read from the API server")]
    #[advice(code = "claim-read")]
    Api(#[source] Box<kube::Error>),
    /// Any failure of another source than [`KubeClaims`]. Retried; the event shows
    /// all errors of the chain, outermost first.
    #[error("the ResourceClaim could not be read")]
    #[advice(code = "claim-source")]
    Source(#[source] Box<dyn Error + Send + Sync>),
}

/// Limit of concurrent reads. A node full of pods that starts at once would otherwise
/// open a connection for each claim, with handshake and buffers on both ends: a read
/// takes milliseconds, and a handshake several times the CPU of one.
const MAX_IN_FLIGHT: usize = 8;

/// Reads each claim live from the API server: `GET` by name, without cache or list, so
/// the driver needs only the verb `get` on `resourceclaims`. All clones together have
/// at most 8 requests in flight.
///
/// A claim is [`GetClaimError::NotFound`] only if the answer is a `Status` that names it.
/// Any other 404 is retried: the API server may not serve `resource.k8s.io/v1` while it
/// starts or is updated, and a proxy in between has 404s of its own.
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
        // They come from kubelet's socket and become a part of the URL.
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
        // Fails only for a closed semaphore, and nobody closes this one.
        let _permit = self.permits.acquire().await.ok();
        self.client
            .request_text(request)
            .await
            .map_err(|error| match error {
                kube::Error::Api(status) if says_gone(&status, name) => GetClaimError::NotFound,
                error => GetClaimError::Api(Box::new(error)),
            })
    }
}

/// Whether the API server says that the claim `name` does not exist.
fn says_gone(status: &Status, name: &str) -> bool {
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
        // 25 rounds of 8: they do run concurrently.
        assert!(began.elapsed() < Duration::from_millis(300));
    }

    #[tokio::test]
    async fn only_an_answer_that_names_the_claim_says_that_it_is_gone() {
        // As a real API server says it.
        let gone = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",
            "message":"resourceclaims.resource.k8s.io \"c\" not found","reason":"NotFound",
            "details":{"name":"c","group":"resource.k8s.io","kind":"resourceclaims"},"code":404}"#;
        let error = mk_source(404, gone).get("ns", "c").await.unwrap_err();
        assert!(matches!(error, GetClaimError::NotFound), "{error:?}");

        let other_claim = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",
            "message":"resourceclaims.resource.k8s.io \"d\" not found","reason":"NotFound",
            "details":{"name":"d","group":"resource.k8s.io","kind":"resourceclaims"},"code":404}"#;
        // A kind that the API server does not serve in a version that it does.
        let other_kind = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",
            "message":"the server could not find the requested resource","reason":"NotFound",
            "details":{},"code":404}"#;
        let refused = r#"{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,
            "message":"no","details":{"name":"c","kind":"resourceclaims"}}"#;
        for (code, answer) in [
            // A version that the API server does not serve.
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
    async fn a_name_that_would_lead_to_another_object_is_never_sent() {
        let source = mk_source(200, "{}"); // panics at any path but the claim's
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
