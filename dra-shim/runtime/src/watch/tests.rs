use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::Uri;
use tower::BoxError;

use super::*;
use crate::readiness::Readiness;

const LIST: &str = "/apis/resource.nvidia.com/v1beta1/computedomains?limit=500";
const WATCH: &str = "/apis/resource.nvidia.com/v1beta1/computedomains?watch=true&resourceVersion=1";

/// A response, or how the request failed.
enum Answer {
    Response(Response<Body>),
    Error(&'static str),
}

impl From<Response<Body>> for Answer {
    fn from(response: Response<Body>) -> Self {
        Self::Response(response)
    }
}

/// A watch and a server with scripted answers.
struct Watched {
    readiness: Readiness,
    client: Client,
    answers: Arc<Mutex<VecDeque<Answer>>>,
}

impl Watched {
    fn new() -> Self {
        let readiness = Readiness::default();
        let condition = readiness.add_condition("compute-domains", "not watched yet");
        let answers = Arc::new(Mutex::new(VecDeque::new()));
        let server: Arc<Mutex<VecDeque<Answer>>> = answers.clone();
        let service = service_fn(move |_: Request<Body>| {
            let answer = server.lock().unwrap().pop_front().unwrap();
            async {
                match answer {
                    Answer::Response(response) => Ok(response),
                    Answer::Error(text) => Err(BoxError::from(text)),
                }
            }
        });
        let client = observe_watch(&Client::new(service, "team"), &condition);
        Self {
            readiness,
            client,
            answers,
        }
    }

    /// The reason why the program is not ready after this exchange.
    async fn reason_after(&self, uri: &'static str, answer: impl Into<Answer>) -> Option<String> {
        self.answers.lock().unwrap().push_back(answer.into());
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = Uri::from_static(uri);
        let _ = self.client.send(request).await;
        self.readiness.unmet().pop().map(|(_, reason)| reason)
    }
}

fn status(code: u16, body: &str) -> Response<Body> {
    let body = Body::from(body.as_bytes().to_vec());
    Response::builder().status(code).body(body).unwrap()
}

fn refused() -> Response<Body> {
    status(
        403,
        r#"{ "kind": "Status", "code": 403, "message": "computedomains is forbidden: no" }"#,
    )
}

#[tokio::test]
async fn the_start_of_the_watch_makes_the_program_ready_and_a_list_does_not() {
    let watched = Watched::new();
    assert_eq!(
        watched.reason_after(LIST, status(200, "{}")).await.unwrap(),
        "not watched yet"
    );
    assert_eq!(watched.reason_after(WATCH, status(200, "")).await, None);
    assert_eq!(watched.reason_after(LIST, status(200, "{}")).await, None);
}

// req: CD-30
#[tokio::test]
async fn a_failed_list_or_watch_makes_the_program_not_ready_until_the_next_watch() {
    let watched = Watched::new();
    let path = "/apis/resource.nvidia.com/v1beta1/computedomains";
    for (uri, answer, reason) in [
        (
            WATCH,
            refused(),
            "403 Forbidden: computedomains is forbidden: no",
        ),
        (
            LIST,
            refused(),
            "403 Forbidden: computedomains is forbidden: no",
        ),
        (WATCH, status(404, "404 page not found\n"), "404 Not Found"),
        (LIST, status(429, ""), "429 Too Many Requests"),
        (WATCH, status(500, "{}"), "500 Internal Server Error"),
    ] {
        let seen = watched.reason_after(uri, answer).await;
        let verb = if uri == LIST { "list" } else { "watch" };
        assert_eq!(seen.unwrap(), format!("cannot {verb} {path}: {reason}"));
        assert_eq!(watched.reason_after(WATCH, status(200, "")).await, None);
    }
    let failure = Answer::Error("no response within 60 s");
    assert_eq!(
        watched.reason_after(WATCH, failure).await.unwrap(),
        format!("cannot watch {path}: ServiceError: no response within 60 s")
    );
}

#[tokio::test]
async fn a_server_that_has_lost_its_history_changes_nothing() {
    let watched = Watched::new();
    assert!(watched.reason_after(WATCH, status(410, "")).await.is_some());
    assert_eq!(watched.reason_after(WATCH, status(200, "")).await, None);
    assert_eq!(watched.reason_after(WATCH, status(410, "")).await, None);
    assert_eq!(watched.reason_after(LIST, status(410, "")).await, None);
}

#[tokio::test]
async fn the_caller_gets_the_answer_unchanged() {
    let watched = Watched::new();
    watched.answers.lock().unwrap().push_back(refused().into());
    let request = Request::get(WATCH).body(Body::empty()).unwrap();
    let response = watched.client.send(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
    let body = response.into_body().collect_bytes().await.unwrap();
    assert!(body.starts_with(br#"{ "kind": "Status""#));
    assert_eq!(watched.client.default_namespace(), "team");
}

#[tokio::test]
async fn a_kube_watcher_works_through_the_client() {
    use k8s_openapi::api::core::v1::Node;
    use kube::api::{Api, WatchParams};

    let readiness = Readiness::default();
    let condition = readiness.add_condition("nodes", "not watched yet");
    let service = service_fn(|_: Request<Body>| async { Ok::<_, Infallible>(status(200, "")) });
    let client = observe_watch(&Client::new(service, "team"), &condition);
    let nodes: Api<Node> = Api::all(client);
    drop(nodes.watch(&WatchParams::default(), "1").await.unwrap());
    assert_eq!(readiness.unmet(), []);
}
