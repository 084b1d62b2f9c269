use std::convert::Infallible;
use std::sync::Mutex;
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use prometheus_client::encoding::text::encode;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tower::service_fn;

use super::recent::REPEAT_AFTER;
use super::*;

/// A fake API server that records events and answers as configured.
#[derive(Clone)]
struct Server {
    written: watch::Sender<Vec<Value>>,
    /// Status and body of the next answers.
    answer: Arc<Mutex<(u16, Value)>>,
    /// Each answer takes one permit.
    permits: Arc<Semaphore>,
}

impl Server {
    fn new() -> Self {
        let server = Self {
            written: watch::Sender::new(Vec::new()),
            answer: Arc::default(),
            permits: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
        };
        server.answers(201, &json!({}));
        server
    }

    /// A server that answers only after it gets permits.
    fn unresponsive() -> Self {
        let server = Self::new();
        server.permits.forget_permits(Semaphore::MAX_PERMITS);
        server
    }

    fn events(&self) -> Events {
        let server = self.clone();
        let service = service_fn(move |request: Request<Body>| server.clone().answer(request));
        Events::new(Client::new(service, "default"), "tester", "pod-1")
    }

    fn answers(&self, status: u16, details: &Value) {
        let body = match status {
            201 => json!({ "metadata": {}, "eventTime": null }),
            _ => json!({
                "kind": "Status", "metadata": {}, "status": "Failure", "code": status,
                "message": "no", "details": details,
                "reason": match status { 404 => "NotFound", 409 => "AlreadyExists", _ => "Other" },
            }),
        };
        *self.answer.lock().unwrap() = (status, body);
    }

    async fn answer(self, request: Request<Body>) -> Result<Response<Body>, Infallible> {
        let path = request.uri().path().to_owned();
        let body = request.into_body().collect_bytes().await.unwrap();
        let mut event: Value = serde_json::from_slice(&body).unwrap();
        event["path"] = path.into();
        self.written.send_modify(|written| written.push(event));
        self.permits.acquire().await.unwrap().forget();
        let (status, body) = self.answer.lock().unwrap().clone();
        let body = Body::from(body.to_string().into_bytes());
        Ok(Response::builder().status(status).body(body).unwrap())
    }

    /// Waits for this many requests and returns the notes of all.
    async fn notes(&self, count: usize) -> Vec<String> {
        let mut written = self.written.subscribe();
        let enough = written.wait_for(|events| events.len() >= count);
        let events = timeout(Duration::from_secs(3600), enough).await;
        let events = events.expect("fewer requests than expected").unwrap();
        let note = |event: &Value| event["note"].as_str().unwrap().to_owned();
        events.iter().map(note).collect()
    }
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

fn report_warning(events: &Events, note: &str) {
    events.warning(&claim("1"), "Refused", "Prepare", note);
}

fn dropped(events: &Events) -> (u64, u64) {
    let dropped = events.shared.dropped();
    let count = |type_| dropped.get_or_create(&shared::labels(type_)).get();
    (count(EventType::Normal), count(EventType::Warning))
}

#[tokio::test(start_paused = true)]
async fn the_same_event_is_written_once_in_ten_minutes() {
    let server = Server::new();
    let events = server.events();
    for note in ["a", "a", "b", "b"] {
        report_warning(&events, note);
    }
    events.warning(&claim("2"), "Refused", "Prepare", "a");
    assert_eq!(server.notes(3).await, ["a", "b", "a"]);

    tokio::time::advance(REPEAT_AFTER).await;
    report_warning(&events, "b");
    assert_eq!(server.notes(4).await, ["a", "b", "a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn an_earlier_event_is_written_again_if_it_is_no_longer_the_newest() {
    let server = Server::new();
    let events = server.events();
    for reason in ["Ready", "NotReady", "Ready", "Ready"] {
        events.normal(&claim("1"), reason, "Probe", reason);
        // An event of another action has no effect.
        events.normal(&claim("1"), "Shared", "Prepare", "shared");
    }
    let notes = server.notes(4).await;
    assert_eq!(notes, ["Ready", "shared", "NotReady", "Ready"]);
}

#[tokio::test(start_paused = true)]
async fn a_warning_is_written_after_a_normal_event_with_the_same_text() {
    let server = Server::new();
    let events = server.events();
    events.normal(&claim("1"), "Refused", "Prepare", "a");
    server.notes(1).await;
    report_warning(&events, "a");
    report_warning(&events, "last");
    assert_eq!(server.notes(3).await, ["a", "a", "last"]);
    let types: Vec<_> = server
        .written
        .borrow()
        .iter()
        .map(|event| event["type"].clone())
        .collect();
    assert_eq!(types, ["Normal", "Warning", "Warning"]);
}

#[tokio::test]
async fn an_event_has_its_object_its_reporter_and_its_type() {
    let server = Server::new();
    let events = server.events();
    events.normal(&claim("1"), "Ready", "Reconcile", "all is well");
    server.notes(1).await;
    let event = server.written.borrow()[0].clone();
    assert_eq!(
        event["path"],
        "/apis/events.k8s.io/v1/namespaces/team/events"
    );
    assert_eq!(event["type"], "Normal");
    assert_eq!(event["reason"], "Ready");
    assert_eq!(event["action"], "Reconcile");
    assert_eq!(event["regarding"]["uid"], "1");
    assert_eq!(event["reportingController"], "tester");
    assert_eq!(event["reportingInstance"], "pod-1");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_was_refused_is_written_when_it_is_reported_again() {
    for refusal in [403, 422, 500] {
        let server = Server::new();
        let events = server.events();
        server.answers(refusal, &json!({}));
        report_warning(&events, "a");
        report_warning(&events, "b");
        // The second request is sent when the first one has been given up.
        server.notes(2).await;
        server.answers(201, &json!({}));
        report_warning(&events, "a");
        report_warning(&events, "a");
        report_warning(&events, "last");
        assert_eq!(server.notes(4).await, ["a", "b", "a", "last"]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_survives_an_outage_of_the_api_server_and_is_not_written_twice() {
    let server = Server::new();
    let events = server.events();
    for unavailable in [503, 504, 429, 401] {
        server.answers(unavailable, &json!({}));
        let before = server.written.borrow().len();
        report_warning(&events, &unavailable.to_string());
        server.notes(before + 2).await;
        // An earlier attempt was written, and only its response was lost.
        server.answers(409, &json!({}));
        report_warning(&events, &format!("after {unavailable}"));
        let notes = server.notes(before + 4).await;
        assert_eq!(notes[before], notes[before + 2], "{notes:?}");
    }
    assert_eq!(dropped(&events), (0, 0));
    let names: Vec<_> = server.written.borrow()[..3]
        .iter()
        .map(|event| event["metadata"]["name"].clone())
        .collect();
    assert!(names.iter().all(|name| *name == names[0]), "{names:?}");
}

#[tokio::test(start_paused = true)]
async fn an_event_is_given_up_after_two_minutes_of_outage_and_counted() {
    let server = Server::new();
    let events = server.events();
    server.answers(503, &json!({}));
    let started = Instant::now();
    report_warning(&events, "a");
    // When its turn comes, this one is too old as well, and gets one attempt.
    report_warning(&events, "b");
    let is_last = |note: &str| {
        let written = server.written.borrow();
        written.last().is_some_and(|event| event["note"] == note)
    };
    while !is_last("b") {
        let requests = server.written.borrow().len();
        server.notes(requests + 1).await;
    }
    let waited = started.elapsed();
    let (least, most) = (Duration::from_secs(120), Duration::from_secs(145));
    assert!((least..most).contains(&waited), "{waited:?}");
    let requests = server.written.borrow().len();
    assert!((8..25).contains(&requests), "{requests} requests");

    server.answers(201, &json!({}));
    report_warning(&events, "c");
    server.notes(requests + 1).await;
    assert!(is_last("c"));
    assert_eq!(dropped(&events), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn an_event_in_a_terminating_namespace_is_neither_repeated_nor_counted() {
    let terminating = json!({ "causes": [{ "reason": "NamespaceTerminating" }] });
    for (status, details) in [(403, terminating), (404, json!({ "kind": "namespaces" }))] {
        let server = Server::new();
        let events = server.events();
        server.answers(status, &details);
        report_warning(&events, "a");
        server.notes(1).await;
        report_warning(&events, "a");
        report_warning(&events, "last");
        assert_eq!(server.notes(2).await, ["a", "last"]);
        assert_eq!(dropped(&events), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_normal_events_neither_loses_nor_delays_a_warning() {
    let server = Server::unresponsive();
    let events = server.events();
    let normal = |number: usize| {
        events.normal(&claim("1"), "Ready", "Reconcile", &number.to_string());
    };
    normal(0);
    server.notes(1).await;
    (1..=QUEUE_LEN + 700).for_each(normal);
    assert_eq!(dropped(&events), (700, 0));
    report_warning(&events, "warning");
    server.permits.add_permits(Semaphore::MAX_PERMITS / 2);
    let notes = server.notes(QUEUE_LEN + 2).await;
    assert_eq!(notes[..3], ["0", "warning", "1"]);
    assert_eq!(dropped(&events), (700, 0));

    // A dropped event is written when it is reported again.
    normal(QUEUE_LEN + 1);
    normal(QUEUE_LEN + 1);
    normal(QUEUE_LEN + 2);
    let notes = server.notes(QUEUE_LEN + 4).await;
    let last = [QUEUE_LEN + 1, QUEUE_LEN + 2].map(|number| number.to_string());
    assert_eq!(notes[QUEUE_LEN + 2..], last);
}

#[tokio::test(start_paused = true)]
async fn the_metric_has_both_types_from_the_start() {
    let events = Server::new().events();
    let mut registry = Registry::default();
    events.register_metrics(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    for series in [
        "imex_dra_events_dropped_total{type=\"Normal\"} 0\n",
        "imex_dra_events_dropped_total{type=\"Warning\"} 0\n",
    ] {
        assert!(text.contains(series), "{text}");
    }
}

#[tokio::test]
async fn the_task_ends_with_the_last_handle() {
    let events = Server::new().events();
    let shared = Arc::downgrade(&events.shared);
    drop(events.clone());
    drop(events);
    let ended = async {
        while shared.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(10), ended).await.unwrap();
}
