use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;
use tower::service_fn;

use super::*;

/// A fake API server that records requests and answers with `status`.
#[derive(Clone, Default)]
struct Server {
    sent: Arc<Mutex<Vec<(String, Value)>>>,
    status: Arc<AtomicU16>,
}

impl Server {
    fn events(&self) -> Events {
        let server = self.clone();
        let service = service_fn(move |request: Request<Body>| server.clone().answer(request));
        Events::new(Client::new(service, "default"), "tester", "pod-1")
    }

    async fn answer(self, request: Request<Body>) -> Result<Response<Body>, Infallible> {
        let line = format!("{} {}", request.method(), request.uri().path());
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        self.sent.lock().unwrap().push((line, body.clone()));
        let response = Response::builder().status(self.status.load(Ordering::SeqCst));
        Ok(response
            .body(Body::from(body.to_string().into_bytes()))
            .unwrap())
    }

    fn notes(&self) -> Vec<String> {
        let sent = self.sent.lock().unwrap();
        sent.iter()
            .map(|(_, event)| event["note"].as_str().unwrap().to_owned())
            .collect()
    }
}

fn server(status: u16) -> Server {
    let server = Server::default();
    server.status.store(status, Ordering::SeqCst);
    server
}

fn claim(uid: &str) -> ObjectReference {
    ObjectReference {
        kind: Some("ResourceClaim".into()),
        namespace: Some("team".into()),
        name: Some("a".into()),
        uid: Some(uid.into()),
        ..ObjectReference::default()
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_event_is_written_once_in_ten_minutes() {
    let server = server(201);
    let events = server.events();
    for note in ["a", "a", "b", "a"] {
        events
            .warning(&claim("1"), "Refused", "Prepare", note)
            .await;
    }
    assert_eq!(server.notes(), ["a", "b"]);

    events.warning(&claim("2"), "Refused", "Prepare", "a").await;
    assert_eq!(server.notes(), ["a", "b", "a"]);

    tokio::time::advance(REPEAT_AFTER).await;
    events.warning(&claim("1"), "Refused", "Prepare", "a").await;
    assert_eq!(server.notes(), ["a", "b", "a", "a"]);
}

#[tokio::test]
async fn an_event_has_its_object_its_reporter_and_its_type() {
    let server = server(201);
    server
        .events()
        .normal(&claim("1"), "Ready", "Reconcile", "all is well")
        .await;
    let sent = server.sent.lock().unwrap();
    let (line, event) = &sent[0];
    assert_eq!(line, "POST /apis/events.k8s.io/v1/namespaces/team/events");
    assert_eq!(event["type"], "Normal");
    assert_eq!(event["reason"], "Ready");
    assert_eq!(event["action"], "Reconcile");
    assert_eq!(event["regarding"]["uid"], "1");
    assert_eq!(event["reportingController"], "tester");
    assert_eq!(event["reportingInstance"], "pod-1");
}

#[tokio::test]
async fn an_event_that_could_not_be_written_is_written_next_time() {
    let server = server(403);
    let events = server.events();
    events.normal(&claim("1"), "Ready", "Reconcile", "a").await;
    server.status.store(201, Ordering::SeqCst);
    events.normal(&claim("1"), "Ready", "Reconcile", "a").await;
    events.normal(&claim("1"), "Ready", "Reconcile", "a").await;
    assert_eq!(server.notes().len(), 2);
}

#[test]
fn a_long_note_is_cut_between_characters() {
    let long = "ä".repeat(600);
    assert_eq!(shorten(&long).len(), 1024);
    assert_eq!(shorten(&format!("x{long}")).len(), 1023);
    assert_eq!(shorten("short"), "short");
}
