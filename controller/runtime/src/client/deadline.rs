use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use axum::body::HttpBody;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Either, Full};
use kube::client::Body;
use tokio::time::timeout;
use tower::{Layer, Service};

use super::REQUEST_DEADLINE;
use crate::{Condition, error_chain};

/// How long a watch may take to begin: the server may queue it before its first byte.
const WATCH_BEGIN: Duration = Duration::from_secs(60);

type BoxError = Box<dyn Error + Send + Sync>;

/// Bounds every request, its answer's body included, and reports each outcome.
///
/// It wraps the whole stack, so that kube's own retries count too. The body of a watch is
/// unbounded.
#[derive(Clone, Debug)]
pub(super) struct DeadlineLayer {
    reached: Condition,
}

/// What [`DeadlineLayer`] makes of a service.
#[derive(Clone, Debug)]
pub(super) struct Deadline<S> {
    inner: S,
    reached: Condition,
}

/// The API server did not answer in time.
#[derive(Debug, thiserror::Error)]
#[error("no answer from the API server within {} s", after.as_secs())]
struct NoAnswer {
    after: Duration,
}

impl DeadlineLayer {
    pub(super) fn new(reached: Condition) -> Self {
        Self { reached }
    }
}

impl<S> Layer<S> for DeadlineLayer {
    type Service = Deadline<S>;

    fn layer(&self, inner: S) -> Deadline<S> {
        Deadline {
            inner,
            reached: self.reached.clone(),
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
        let limit = if watch { WATCH_BEGIN } else { REQUEST_DEADLINE };
        let answer = self.inner.call(request);
        let reached = self.reached.clone();
        Box::pin(async move {
            let answer = timeout(limit, read(answer, watch))
                .await
                .unwrap_or_else(|_| Err(NoAnswer { after: limit }.into()));
            report(&reached, &answer);
            answer
        })
    }
}

/// The answer, with its whole body unless that never ends.
async fn read<B, E>(
    answer: impl Future<Output = Result<Response<B>, E>>,
    watch: bool,
) -> Result<Response<Either<Full<Bytes>, B>>, BoxError>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
    E: Into<BoxError>,
{
    let (parts, body) = answer.await.map_err(Into::into)?.into_parts();
    if watch {
        return Ok(Response::from_parts(parts, Either::Right(body)));
    }
    let bytes = body.collect().await.map_err(Into::into)?.to_bytes();
    Ok(Response::from_parts(parts, Either::Left(Full::new(bytes))))
}

fn report<B>(reached: &Condition, answer: &Result<Response<B>, BoxError>) {
    match answer {
        Ok(response) if refuses(response.status()) => {
            reached.not_ready(&format!("the API server answers {}", response.status()));
        }
        Ok(_) => reached.ready(),
        Err(err) => reached.not_ready(&error_chain(err.as_ref())),
    }
}

/// The server cannot serve anyone, or does not know who we are. What it merely denies (403) or
/// does not have (404) is the caller's to handle.
fn refuses(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::UNAUTHORIZED
}

fn is_watch(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| {
        query
            .split('&')
            .any(|pair| matches!(pair, "watch=true" | "watch=1"))
    })
}

#[cfg(test)]
mod tests;
