//! Reports of prepared devices, as the API server gets them.

use std::convert::Infallible;
use std::sync::Mutex;

use http::{Method, Request, Response};
use kube::client::Body;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use super::*;

const DRIVER: &str = "driver.example.com";

/// Requests at the API server: method, path with query, body.
type Seen = Arc<Mutex<Vec<(Method, String, Value)>>>;

/// A writer whose API server answers with these codes; the last one repeats.
fn mk_writer(codes: &[u16]) -> (ClaimStatusWriter, Seen, Registry) {
    let seen = Seen::default();
    let codes = Arc::new(Mutex::new(codes.to_vec()));
    let taken = Arc::clone(&seen);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (seen, codes) = (Arc::clone(&taken), Arc::clone(&codes));
        async move {
            let (parts, body) = request.into_parts();
            let body = serde_json::from_slice(&body.collect_bytes().await.unwrap()).unwrap();
            let target = parts.uri.path_and_query().unwrap().to_string();
            seen.lock().unwrap().push((parts.method, target, body));
            let mut codes = codes.lock().unwrap();
            let code = if codes.len() > 1 {
                codes.remove(0)
            } else {
                codes[0]
            };
            let status =
                json!({"kind": "Status", "code": code, "reason": "Because", "message": "so"});
            let body = Body::from(status.to_string().into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
        }
    });
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry, "n1", DRIVER, &[]);
    let client = Client::new(service, "default");
    let writer = ClaimStatusWriter::new(client, "reporter", metrics);
    (writer, seen, registry)
}

fn mk_report() -> DeviceReport {
    DeviceReport {
        claim: ClaimRef {
            namespace: "ns".to_owned(),
            name: "c".to_owned(),
            uid: "u".to_owned(),
        },
        result: mk_result(),
        message: "prepared",
        data: json!({"channel": 0}),
        has_others: false,
    }
}

fn mk_result() -> DeviceResult {
    serde_json::from_value(json!({
        "request": "channel", "driver": DRIVER, "pool": "n1", "device": "channel-0",
    }))
    .unwrap()
}

/// Waits until a write has ended, through all its pauses. Returns whether it had this outcome.
async fn count(registry: &Registry, outcome: &str) -> bool {
    sleep(Duration::from_secs(600)).await;
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    text.contains(&format!(
        "imex_dra_claim_status_writes_total{{outcome=\"{outcome}\"}} 1"
    ))
}

// req: NODE-40
#[tokio::test(start_paused = true)]
async fn a_prepared_device_is_reported_in_one_request() {
    let (writer, seen, registry) = mk_writer(&[200]);
    writer.write(mk_report());
    assert!(seen.lock().unwrap().is_empty(), "written in the background");
    assert!(count(&registry, "ok").await);
    let seen = seen.lock().unwrap();
    let [(method, target, body)] = seen.as_slice() else {
        panic!("{seen:?}")
    };
    assert_eq!(*method, Method::PATCH);
    assert_eq!(
        target,
        "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c/status?&fieldManager=reporter"
    );
    let change = |op: &str, path: &str| {
        let changes = body.as_array().unwrap();
        let found = changes
            .iter()
            .find(|it| it["op"] == op && it["path"] == path);
        found.expect(path)["value"].clone()
    };
    assert_eq!(change("test", "/metadata/uid"), "u");
    assert_eq!(change("test", "/status/devices"), Value::Null);
    let device = change("add", "/status/devices")[0].clone();
    assert_eq!(
        (&device["driver"], &device["pool"], &device["device"]),
        (&json!(DRIVER), &json!("n1"), &json!("channel-0"))
    );
    let condition = &device["conditions"][0];
    assert_eq!(
        (&condition["status"], &condition["message"]),
        (&json!("True"), &json!("prepared"))
    );
    assert_eq!(device["data"], json!({"channel": 0}));
}

#[tokio::test(start_paused = true)]
async fn a_busy_api_server_causes_two_retries() {
    let (writer, seen, registry) = mk_writer(&[503, 429, 200]);
    writer.write(mk_report());
    assert!(count(&registry, "ok").await);
    assert_eq!(seen.lock().unwrap().len(), 3);

    let (writer, seen, registry) = mk_writer(&[503]);
    writer.write(mk_report());
    assert!(count(&registry, "unanswered").await);
    assert_eq!(seen.lock().unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn pending_reports_are_written_at_once_at_the_end_of_the_process() {
    let (writer, seen, registry) = mk_writer(&[200]);
    for _ in 0..3 {
        writer.write(mk_report());
    }
    let began = Instant::now();
    writer.finish().await;
    assert_eq!(
        (began.elapsed(), seen.lock().unwrap().len()),
        (Duration::ZERO, 3)
    );
    drop(registry);

    // A report without an answer so far is retried once.
    let (writer, seen, _) = mk_writer(&[503]);
    writer.write(mk_report());
    sleep(SPREAD).await;
    assert_eq!(seen.lock().unwrap().len(), 1);
    let began = Instant::now();
    writer.finish().await;
    assert_eq!(
        (began.elapsed(), seen.lock().unwrap().len()),
        (Duration::ZERO, 2)
    );
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_process_does_not_wait_for_an_unresponsive_api_server() {
    let service = tower::service_fn(|_: Request<Body>| {
        std::future::pending::<Result<Response<Body>, Infallible>>()
    });
    let metrics = Metrics::register(&mut Registry::default(), "n1", DRIVER, &[]);
    let client = Client::new(service, "default");
    let writer = ClaimStatusWriter::new(client, "reporter", metrics);
    let ended = async || {
        let began = Instant::now();
        writer.finish().await;
        began.elapsed()
    };
    assert_eq!(ended().await, Duration::ZERO);
    writer.write(mk_report());
    assert_eq!(ended().await, FINISH_WITHIN);
}

// req: NODE-40
#[tokio::test(start_paused = true)]
async fn a_rejection_and_a_deleted_claim_are_final() {
    for (code, outcome) in [
        (404, "gone"),
        (409, "gone"),
        (403, "refused"),
        (422, "refused"),
    ] {
        let (writer, seen, registry) = mk_writer(&[code]);
        writer.write(mk_report());
        assert!(count(&registry, outcome).await, "{code}");
        assert_eq!(seen.lock().unwrap().len(), 1, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn reports_beyond_the_limit_are_dropped() {
    let (writer, seen, registry) = mk_writer(&[200]);
    for _ in 0..=LIMIT {
        writer.write(mk_report());
    }
    assert!(count(&registry, "dropped").await);
    assert_eq!(seen.lock().unwrap().len(), LIMIT);
}

// req: NODE-40
#[test]
fn a_report_is_added_to_those_of_other_devices() {
    let report = DeviceReport {
        has_others: true,
        ..mk_report()
    };
    let request = report.request("reporter").unwrap();
    let patch: Value = serde_json::from_slice(request.body()).unwrap();
    assert_eq!(
        (&patch[0]["path"], &patch[1]["path"], patch.get(2)),
        (&json!("/metadata/uid"), &json!("/status/devices/-"), None)
    );
}

#[test]
fn a_report_of_this_device_is_distinguished_from_others() {
    let status = |devices: Value| {
        let status = json!({"devices": devices}).to_string();
        reported(&ClaimStatus::from_json(&status).unwrap(), &mk_result())
    };
    let entry = mk_report().entry();
    assert_eq!(status(json!([entry])), Reported::ThisDevice);
    assert_eq!(status(json!([])), Reported::Nothing);
    for (key, value) in [
        ("driver", "other.example.com"),
        ("pool", "n2"),
        ("device", "channel-1"),
        ("shareID", "s"),
    ] {
        let mut other = entry.clone();
        other[key] = value.into();
        assert_eq!(status(json!([other])), Reported::Others, "{key}");
        assert_eq!(status(json!([other, entry])), Reported::ThisDevice, "{key}");
    }
    let none = reported(&ClaimStatus::default(), &mk_result());
    assert_eq!(none, Reported::Nothing);
}
