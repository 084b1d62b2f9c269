//! A fake API server for tests, which expects the requests of a script in their order. A request
//! that is not the next one of the script fails the test, and so does one that was not made.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

/// An expected request and its response.
pub(crate) struct Exchange {
    /// `METHOD PATH?QUERY`.
    request: &'static str,
    /// The expected body; `None`: not checked.
    body: Option<Value>,
    status: u16,
    response: Value,
}

/// The API server of one test.
#[derive(Clone)]
pub(crate) struct FakeApi {
    remaining: Arc<Mutex<VecDeque<Exchange>>>,
}

/// Expects a request, and answers with this object.
pub(crate) fn expect(request: &'static str, response: Value) -> Exchange {
    Exchange {
        request,
        body: None,
        status: 200,
        response,
    }
}

/// Expects a request, and answers with an error.
pub(crate) fn expect_and_fail(request: &'static str, status: u16, reason: &str) -> Exchange {
    let response = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure",
        "code": status, "reason": reason, "message": reason,
    });
    Exchange {
        request,
        body: None,
        status,
        response,
    }
}

impl Exchange {
    /// Expects exactly this body.
    pub(crate) fn with_body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }
}

impl FakeApi {
    pub(crate) fn new(script: impl IntoIterator<Item = Exchange>) -> Self {
        Self {
            remaining: Arc::new(Mutex::new(script.into_iter().collect())),
        }
    }

    pub(crate) fn client(&self) -> Client {
        let api = self.clone();
        Client::new(
            service_fn(move |request| api.clone().respond(request)),
            "default",
        )
    }

    /// Fails if a request of the script was not made.
    pub(crate) fn assert_done(&self) {
        let remaining: Vec<_> = self
            .remaining
            .lock()
            .unwrap()
            .iter()
            .map(|exchange| exchange.request)
            .collect();
        assert_eq!(remaining, Vec::<&str>::new(), "requests that were not made");
    }

    async fn respond(self, request: Request<Body>) -> Result<Response<Body>, Infallible> {
        let line = format!("{} {}", request.method(), request.uri());
        let body = request.into_body().collect_bytes().await.unwrap();
        let Some(exchange) = self.remaining.lock().unwrap().pop_front() else {
            panic!("unexpected {line} {}", String::from_utf8_lossy(&body));
        };
        assert_eq!(line, exchange.request);
        if let Some(expected) = exchange.body {
            assert_eq!(
                serde_json::from_slice::<Value>(&body).unwrap(),
                expected,
                "{line}"
            );
        }
        let body = Body::from(exchange.response.to_string().into_bytes());
        Ok(Response::builder()
            .status(exchange.status)
            .body(body)
            .unwrap())
    }
}
