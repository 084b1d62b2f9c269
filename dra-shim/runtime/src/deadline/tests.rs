use std::convert::Infallible;
use std::future::pending;
use std::io;

use http_body_util::channel::Channel;
use tower::{ServiceExt as _, service_fn};

use super::*;
use crate::readiness::Readiness;

type BodyResponse = Response<Either<Full<Bytes>, Channel<Bytes>>>;

/// Sends one request through the layer. Returns the response and the unmet conditions.
async fn call<F, E>(
    uri: &str,
    answer: F,
) -> (Result<BodyResponse, BoxError>, Vec<(&'static str, String)>)
where
    F: Future<Output = Result<Response<Channel<Bytes>>, E>> + Send + 'static,
    E: Into<BoxError>,
{
    let readiness = Readiness::default();
    let layer = DeadlineLayer::new(readiness.add_condition("api-server", "not reached yet"));
    let mut answer = Some(answer);
    let service = layer.layer(service_fn(move |_| answer.take().unwrap()));
    let request = Request::get(uri).body(Body::empty()).unwrap();
    (service.oneshot(request).await, readiness.unmet())
}

/// A response whose body does not end before the sender is dropped.
fn endless() -> (
    http_body_util::channel::Sender<Bytes>,
    Response<Channel<Bytes>>,
) {
    let (sender, body) = Channel::new(1);
    (sender, Response::new(body))
}

fn unmet(reason: &str) -> Vec<(&'static str, String)> {
    vec![("api-server", reason.to_owned())]
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_responds_is_abandoned_and_reported() {
    let (answer, reported) = call("/api", pending::<Result<_, Infallible>>()).await;
    assert_eq!(
        answer.unwrap_err().to_string(),
        "no response from the API server within 10 s"
    );
    assert_eq!(
        reported,
        unmet("no response from the API server within 10 s")
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stalls_is_abandoned_too() {
    let (_sender, response) = endless();
    let (answer, _) = call("/api", async { Ok::<_, Infallible>(response) }).await;
    assert_eq!(
        answer.unwrap_err().to_string(),
        "no response from the API server within 10 s"
    );
}

#[tokio::test(start_paused = true)]
async fn the_body_of_a_watch_has_no_deadline() {
    let (_sender, response) = endless();
    let watch = "/api?limit=5&watch=true";
    let (answer, reported) = call(watch, async { Ok::<_, Infallible>(response) }).await;
    assert!(matches!(answer.unwrap().into_body(), Either::Right(_)));
    assert_eq!(reported, []);
}

#[tokio::test(start_paused = true)]
async fn the_body_of_a_refused_watch_has_a_deadline() {
    let (_sender, mut response) = endless();
    *response.status_mut() = StatusCode::FORBIDDEN;
    let (answer, _) = call("/api?watch=true", async { Ok::<_, Infallible>(response) }).await;
    assert_eq!(
        answer.unwrap_err().to_string(),
        "no response from the API server within 60 s"
    );
}

#[tokio::test]
async fn a_complete_response_makes_the_condition_met() {
    let (mut sender, response) = endless();
    tokio::spawn(async move {
        sender.send_data("ab".into()).await.unwrap();
        sender.send_data("cd".into()).await.unwrap();
    });
    let (answer, reported) = call("/api", async { Ok::<_, Infallible>(response) }).await;
    let body = answer
        .unwrap()
        .into_body()
        .collect()
        .await
        .unwrap()
        .to_bytes();
    assert_eq!(body, "abcd");
    assert_eq!(reported, []);
}

#[tokio::test]
async fn the_condition_is_met_by_client_errors_but_not_by_server_errors() {
    for (status, expected) in [
        (403, vec![]),
        (404, vec![]),
        (409, vec![]),
        (401, unmet("the API server responded with 401 Unauthorized")),
        (
            503,
            unmet("the API server responded with 503 Service Unavailable"),
        ),
    ] {
        let (sender, mut response) = endless();
        drop(sender);
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        let (_, reported) = call("/api", async { Ok::<_, Infallible>(response) }).await;
        assert_eq!(reported, expected, "{status}");
    }
}

#[tokio::test]
async fn a_connection_error_is_reported_with_its_cause() {
    #[derive(Debug, thiserror::Error)]
    #[error("client error (Connect)")]
    struct Connect(#[source] io::Error);

    let refused = Connect(io::Error::other("connection refused"));
    let (_, reported) = call("/api", async { Err(refused) }).await;
    assert_eq!(
        reported,
        unmet("client error (Connect): connection refused")
    );
}
