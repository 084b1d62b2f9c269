//! A client of the server, with the deadlines and retries of daemon-runtime's.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use daemon_runtime::REQUEST_DEADLINE;
use futures_util::StreamExt as _;
use futures_util::stream::once;
use http::header::RETRY_AFTER;
use http::request::Parts;
use http::{Request as HttpRequest, Response};
use http_body::Frame;
use kube::Client;
use tokio::time::{Instant, sleep, timeout};
use tower::{BoxError, service_fn};

use super::answer::Answer;
use super::call::Call;
use super::faults::Fault;
use super::request::Request;
use super::watch::{Lines, open};
use super::{FakeApi, Recorded, State};

/// The time within which a watch must start.
const WATCH_START_DEADLINE: Duration = Duration::from_secs(60);

/// How often a request is retried after `Retry-After`.
const RETRIES: u32 = 2;

/// The body of a response.
pub(super) struct Body(Lines);

impl FakeApi {
    /// A client of this server.
    pub(crate) fn client(&self) -> Client {
        let api = self.clone();
        let service = service_fn(move |request| send(api.clone(), request));
        Client::new(service, "default")
    }

    async fn respond(&self, parts: &Parts, body: &[u8]) -> Result<Response<Body>, BoxError> {
        let request = Request::read(parts, body);
        let known = request.and_then(|request| Some((Call::of(&request)?, request)));
        let Some((call, request)) = known else {
            let line = format!("{} {}", parts.method, parts.uri);
            self.state().unknown.push(line);
            return Ok(whole(&Answer::failure(404, "NotFound", "page not found")));
        };
        self.latency().await;
        let response = self.arrive(call, request).await;
        self.changed();
        self.latency().await;
        response
    }

    async fn arrive(&self, call: Call, request: Request) -> Result<Response<Body>, BoxError> {
        let fault = self.state().record(call, &request);
        match fault {
            Some(Fault::NoAnswer) => {
                self.changed();
                return std::future::pending().await;
            }
            Some(Fault::RequestLost) => return Err(reset()),
            Some(Fault::AnswerLost) => {
                self.state().serve(&request);
                return Err(reset());
            }
            _ => {}
        }
        if let Some(failure) = fault.and_then(Fault::answer) {
            return Ok(whole(&failure));
        }
        if request.is_watch() {
            let lines = open(self, call, request, fault);
            return Ok(Response::new(Body(lines)));
        }
        Ok(whole(&self.state().serve(&request)))
    }

    async fn latency(&self) {
        let latency = self.state().latency;
        if let Some(latency) = latency {
            sleep(latency.mul_f64(fastrand::f64())).await;
        }
    }
}

impl State {
    /// Records a request. Returns its fault.
    fn record(&mut self, call: Call, request: &Request) -> Option<Fault> {
        self.requests.push(Recorded {
            call,
            namespace: request.namespace.clone(),
            name: request.name.clone(),
            at: Instant::now(),
            request: request.clone(),
        });
        if self.down {
            return Some(Fault::RequestLost);
        }
        let fault = self.faults.next(call, &request.namespace)?;
        if !fault.is_of_stream() {
            self.faults.fire();
        }
        Some(fault)
    }
}

async fn send(
    api: FakeApi,
    request: HttpRequest<kube::client::Body>,
) -> Result<Response<Body>, BoxError> {
    let (parts, body) = request.into_parts();
    let body = body.collect_bytes().await?;
    let watch = parts
        .uri
        .query()
        .is_some_and(|query| query.contains("watch=true"));
    let deadline = if watch {
        WATCH_START_DEADLINE
    } else {
        REQUEST_DEADLINE
    };
    let answered = async {
        for _ in 0..RETRIES {
            let response = api.respond(&parts, &body).await?;
            let Some(pause) = response.headers().get(RETRY_AFTER) else {
                return Ok(response);
            };
            let seconds = pause.to_str()?.parse()?;
            sleep(Duration::from_secs(seconds)).await;
        }
        api.respond(&parts, &body).await
    };
    let late = |_| format!("no response from the API server within {deadline:?}");
    timeout(deadline, answered).await.map_err(late)?
}

fn whole(answer: &Answer) -> Response<Body> {
    let bytes = Bytes::from(answer.body.to_string());
    let body = Body(once(async { Ok(bytes) }).boxed());
    let mut response = Response::builder().status(answer.code);
    if answer.retry_after {
        response = response.header(RETRY_AFTER, "1");
    }
    response.body(body).unwrap()
}

fn reset() -> BoxError {
    io::Error::from(io::ErrorKind::ConnectionReset).into()
}

// === impl Body ===

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let next = self.0.as_mut().poll_next(cx);
        next.map(|line| line.map(|line| line.map(Frame::data)))
    }
}
