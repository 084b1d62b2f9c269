//! A layer that retries requests after the API server's `Retry-After`.

use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{Request, Response, StatusCode};
use kube::client::Body;
use tokio::time::sleep;
use tower::{BoxError, Service, ServiceExt as _};

/// How often a request is retried.
const RETRIES: u32 = 2;

/// The caller gets responses that ask for a longer pause. The API server asks for one second. With
/// [`RETRIES`], the pauses take at most 6 s of a request's deadline.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Retries a request that a busy API server has refused with status 429 and `Retry-After`. The server has
/// not processed it, so this is safe for every request.
///
/// After the last attempt, the caller gets the 429. Server failures (5xx) are never retried: the server may
/// have processed the request, and readiness must show the failure.
#[derive(Clone, Debug)]
pub(crate) struct RetryAfter<S> {
    inner: S,
}

impl<S> RetryAfter<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S, B> Service<Request<Body>> for RetryAfter<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // Call the service that was polled ready; its clone may not be ready.
        let clone = self.inner.clone();
        let inner = mem::replace(&mut self.inner, clone);
        Box::pin(send(inner, request))
    }
}

async fn send<S, B>(mut inner: S, request: Request<Body>) -> Result<Response<B>, BoxError>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
{
    let (parts, mut body) = request.into_parts();
    for _ in 0..RETRIES {
        // `None` if the body is a stream, which can be read only once. kube never sends streams.
        let Some(copy) = body.try_clone() else {
            break;
        };
        let request = Request::from_parts(parts.clone(), body);
        let response = inner.call(request).await?;
        let Some(pause) = requested_pause(&response) else {
            return Ok(response);
        };
        drop(response);
        sleep(jittered(pause)).await;
        inner.ready().await?;
        body = copy;
    }
    inner.call(Request::from_parts(parts, body)).await
}

fn requested_pause<B>(response: &Response<B>) -> Option<Duration> {
    if response.status() != StatusCode::TOO_MANY_REQUESTS {
        return None;
    }
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    let pause = Duration::from_secs(seconds.parse().ok()?);
    (pause <= LONGEST_PAUSE).then_some(pause)
}

/// Adds up to half the pause, so that clients refused together do not retry together.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(1.0 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    use tokio::time::Instant;
    use tower::service_fn;

    use super::*;

    /// Calls a server that answers with these pairs of status and `Retry-After`. Returns the caller's
    /// status, the bodies that the server got, and the duration.
    async fn call(answers: &[(u16, Option<&'static str>)]) -> (u16, Vec<String>, Duration) {
        let answers = Arc::new(Mutex::new(VecDeque::from(answers.to_owned())));
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let (server, seen) = (answers.clone(), bodies.clone());
        let service = RetryAfter::new(service_fn(move |request: Request<Body>| {
            let (server, seen) = (server.clone(), seen.clone());
            async move {
                let body = request.into_body().collect_bytes().await?.to_vec();
                seen.lock().unwrap().push(String::from_utf8(body)?);
                let (status, pause) = server.lock().unwrap().pop_front().unwrap();
                let mut response = Response::builder().status(status);
                if let Some(pause) = pause {
                    response = response.header(RETRY_AFTER, pause);
                }
                Ok::<_, BoxError>(response.body(())?)
            }
        }));
        let started = Instant::now();
        let request = Request::post("/api")
            .body(Body::from(b"x".to_vec()))
            .unwrap();
        let response = service.oneshot(request).await.unwrap();
        assert!(answers.lock().unwrap().is_empty(), "unused answers");
        let bodies = bodies.lock().unwrap().clone();
        (response.status().as_u16(), bodies, started.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_to_a_busy_server_is_retried_after_the_requested_pause() {
        let (status, bodies, took) = call(&[(429, Some("1")), (201, None)]).await;
        assert_eq!(
            (status, bodies),
            (201, vec!["x".to_owned(), "x".to_owned()])
        );
        let (least, most) = (Duration::from_secs(1), Duration::from_millis(1_501));
        assert!((least..=most).contains(&took), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_caller_gets_the_429_of_a_server_that_stays_busy() {
        let busy = (429, Some("1"));
        let (status, bodies, took) = call(&[busy, busy, busy]).await;
        assert_eq!((status, bodies.len()), (429, 3));
        assert!(took < Duration::from_secs(4), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_caller_gets_any_other_answer_at_once() {
        for answer in [
            (200, None),
            (409, Some("1")),
            (429, None),
            (429, Some("soon")),
            (429, Some("3")),
            (500, Some("1")),
            (503, Some("1")),
            (504, None),
        ] {
            let (status, _, took) = call(&[answer]).await;
            assert_eq!((status, took), (answer.0, Duration::ZERO), "{answer:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn clients_refused_together_retry_at_different_times() {
        let mut times = Vec::new();
        for _ in 0..5 {
            times.push(call(&[(429, Some("2")), (200, None)]).await.2);
        }
        times.dedup();
        assert!(times.len() > 1, "{times:?}");
    }
}
