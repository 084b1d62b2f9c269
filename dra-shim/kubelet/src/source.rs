//! Where claims come from.

use std::error::Error;
use std::future::Future;
use std::sync::Arc;

use http::header::ACCEPT;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::Resource as _;
use kube::core::Request;
use kube::core::params::GetParams;
use tokio::sync::Semaphore;

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

/// Reads in flight. A node full of pods that starts at once would otherwise open a
/// connection for each claim, with its handshake and its buffers on both ends.
const SIDE_BY_SIDE: usize = 32;

/// Reads each claim live from the API server: `GET` by name, no cache and no
/// list, so the driver needs the verb `get` on `resourceclaims` only. At most 32
/// requests are in flight at a time, of all clones together.
#[derive(Clone)]
pub struct KubeClaims {
    client: kube::Client,
    turns: Arc<Semaphore>,
}

impl KubeClaims {
    /// The library bounds each request by the call's deadline, so the client's
    /// own retries do no harm. It should have a connect time-out.
    pub fn new(client: kube::Client) -> Self {
        Self {
            client,
            turns: Arc::new(Semaphore::new(SIDE_BY_SIDE)),
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
        // An error would mean that someone closed it, which nobody does.
        let _turn = self.turns.acquire().await.ok();
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
    async fn many_reads_at_once_take_turns_and_all_are_answered() {
        let in_flight = Arc::new(Semaphore::new(SIDE_BY_SIDE));
        let service = tower::service_fn(move |_: Request<Body>| {
            let in_flight = Arc::clone(&in_flight);
            async move {
                let _one = in_flight.try_acquire().expect("a read too many");
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
        // Seven turns: side by side they are, too.
        assert!(began.elapsed() < Duration::from_millis(100));
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
