//! An API server for tests that answers one exchange after the other. A request that is not the
//! next one of the script, and one that is missing at the end, fail the test.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

/// A request and its answer.
pub(crate) struct Exchange {
    /// `METHOD PATH?QUERY`.
    request: &'static str,
    /// Checked if it is given.
    body: Option<Value>,
    status: u16,
    answer: Value,
}

/// The script of one test.
#[derive(Clone)]
pub(crate) struct ScriptedApi {
    left: Arc<Mutex<VecDeque<Exchange>>>,
}

/// A request that is answered with this object.
pub(crate) fn expect(request: &'static str, answer: Value) -> Exchange {
    Exchange {
        request,
        body: None,
        status: 200,
        answer,
    }
}

/// A request that is answered with an error.
pub(crate) fn refuse(request: &'static str, status: u16, reason: &str) -> Exchange {
    let answer = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure",
        "code": status, "reason": reason, "message": reason,
    });
    Exchange {
        request,
        body: None,
        status,
        answer,
    }
}

impl Exchange {
    /// The request has exactly this body.
    pub(crate) fn with(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }
}

impl ScriptedApi {
    pub(crate) fn new(script: impl IntoIterator<Item = Exchange>) -> Self {
        Self {
            left: Arc::new(Mutex::new(script.into_iter().collect())),
        }
    }

    pub(crate) fn client(&self) -> Client {
        let api = self.clone();
        Client::new(
            service_fn(move |request| api.clone().answer(request)),
            "default",
        )
    }

    /// Every exchange took place.
    pub(crate) fn assert_done(&self) {
        let left: Vec<_> = self
            .left
            .lock()
            .unwrap()
            .iter()
            .map(|exchange| exchange.request)
            .collect();
        assert_eq!(left, Vec::<&str>::new(), "requests that were not made");
    }

    async fn answer(self, request: Request<Body>) -> Result<Response<Body>, Infallible> {
        let line = format!("{} {}", request.method(), request.uri());
        let body = request.into_body().collect_bytes().await.unwrap();
        let Some(exchange) = self.left.lock().unwrap().pop_front() else {
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
        let answer = Body::from(exchange.answer.to_string().into_bytes());
        Ok(Response::builder()
            .status(exchange.status)
            .body(answer)
            .unwrap())
    }
}
