//! A layer that gives every request to the API server a deadline.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use axum::body::HttpBody;
use dra_common::error_chain;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Either, Full};
use kube::client::Body;
use tokio::time::{Instant, timeout};
use tower::{BoxError, Layer, Service};
use tracing::trace;

use crate::readiness::ReadinessCondition;

/// The time for a request's whole response, including retries. Does not apply to watches.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(10);

/// The time for a watch to start: the server may queue it before the first byte.
const WATCH_START_DEADLINE: Duration = Duration::from_secs(60);

/// Gives every request a deadline for its whole response, and sets the condition from each result.
///
/// It must be the outermost layer, so that the deadline includes retries. The body of a started watch
/// has no deadline.
#[derive(Clone, Debug)]
pub(crate) struct DeadlineLayer {
    api_server: ReadinessCondition,
}

/// A service inside [`DeadlineLayer`].
#[derive(Clone, Debug)]
pub(crate) struct Deadline<S> {
    inner: S,
    api_server: ReadinessCondition,
}

/// The error after the deadline.
#[derive(Debug, thiserror::Error)]
#[error("no response from the API server within {} s", after.as_secs())]
struct DeadlineExceeded {
    after: Duration,
}

impl DeadlineLayer {
    pub(crate) fn new(api_server: ReadinessCondition) -> Self {
        Self { api_server }
    }
}

impl<S> Layer<S> for DeadlineLayer {
    type Service = Deadline<S>;

    fn layer(&self, inner: S) -> Deadline<S> {
        Deadline {
            inner,
            api_server: self.api_server.clone(),
        }
    }
}

impl<S, B> Service<Request<Body>> for Deadline<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Either<Full<Bytes>, B>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let watch = is_watch(request.uri());
        let deadline = if watch {
            WATCH_START_DEADLINE
        } else {
            REQUEST_DEADLINE
        };
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let response = self.inner.call(request);
        let api_server = self.api_server.clone();
        Box::pin(async move {
            let started = Instant::now();
            let response = timeout(deadline, read(response, watch))
                .await
                .unwrap_or_else(|_| Err(DeadlineExceeded { after: deadline }.into()));
            report(&api_server, &response);
            let status = response
                .as_ref()
                .ok()
                .map(|response| response.status().as_u16());
            trace!(%method, %uri, status, took = ?started.elapsed(), "request");
            response
        })
    }
}

/// Reads the response with its whole body, except for a started watch, whose body never ends.
async fn read<B, E>(
    response: impl Future<Output = Result<Response<B>, E>>,
    watch: bool,
) -> Result<Response<Either<Full<Bytes>, B>>, BoxError>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
    E: Into<BoxError>,
{
    let (parts, body) = response.await.map_err(Into::into)?.into_parts();
    if watch && parts.status.is_success() {
        return Ok(Response::from_parts(parts, Either::Right(body)));
    }
    let bytes = body.collect().await.map_err(Into::into)?.to_bytes();
    Ok(Response::from_parts(parts, Either::Left(Full::new(bytes))))
}

fn report<B>(api_server: &ReadinessCondition, response: &Result<Response<B>, BoxError>) {
    match response {
        Ok(response) if is_unavailable(response.status()) => {
            api_server.set_unmet(&format!(
                "the API server responded with {}",
                response.status()
            ));
        }
        Ok(_) => api_server.set_met(),
        Err(err) => api_server.set_unmet(&error_chain(err.as_ref())),
    }
}

/// Whether the server fails or rejects the credentials. Other client errors (403, 404, 409) show that
/// it works; the caller handles them.
fn is_unavailable(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::UNAUTHORIZED
}

pub(crate) fn is_watch(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| {
        query
            .split('&')
            .any(|pair| matches!(pair, "watch=true" | "watch=1"))
    })
}

#[cfg(test)]
mod tests;
