//! An API server that ends watches.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Channel, Full};
use kube::client::Body;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;

/// The server, which records requests and their times. Clones share it.
#[derive(Clone)]
pub(super) struct Server(Arc<Mutex<State>>);

struct State {
    requests: Vec<(Instant, &'static str)>,
    is_down: bool,
    history_is_lost: bool,
    /// Ends all watches: cleanly, or like a broken connection.
    end: watch::Sender<Option<End>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Clean,
    Broken,
}

impl Server {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            requests: Vec::new(),
            is_down: false,
            history_is_lost: false,
            end: watch::Sender::new(None),
        })))
    }

    pub(super) fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let answer = server.answer(&request);
            async move { answer }
        });
        kube::Client::new(service, "default")
    }

    fn answer(&self, request: &Request<Body>) -> io::Result<Answer> {
        let query = request.uri().query().unwrap_or_default();
        let is_watch = query.contains("watch=true");
        let kind = match request.uri().path() {
            "/api/v1/nodes/n1" => "get node",
            _ if is_watch => "watch",
            _ if request.method() == http::Method::POST => "create",
            _ => "list",
        };
        let mut state = self.0.lock().unwrap();
        state.requests.push((Instant::now(), kind));
        if state.is_down {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let whole = |body: serde_json::Value| {
            let body = Full::from(body.to_string()).map_err(|never| match never {});
            Response::new(body.boxed_unsync())
        };
        Ok(match kind {
            "list" => whole(json!({"metadata": {"resourceVersion": "1"}, "items": []})),
            "get node" => whole(json!({"metadata": {"name": "n1", "uid": "u"}})),
            "create" => whole(
                json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
                "metadata": {"name": "00000-d.example.com-n1", "uid": "s", "resourceVersion": "2"},
                "spec": {"driver": "d.example.com", "pool": {"name": "n1", "generation": 0, "resourceSliceCount": 1}}}),
            ),
            _ if std::mem::take(&mut state.history_is_lost) => whole(json!({"type": "ERROR",
                "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}})),
            _ => Response::new(mk_watch(query, state.end.subscribe())),
        })
    }

    pub(super) fn end_watches(&self, end: End) {
        self.0.lock().unwrap().end.send_replace(Some(end));
    }

    /// Refuses the next watch, because its history is lost.
    pub(super) fn lose_history(&self) {
        self.0.lock().unwrap().history_is_lost = true;
    }

    pub(super) fn set_down(&self, is_down: bool) {
        self.0.lock().unwrap().is_down = is_down;
    }

    /// Returns the requests since the last call, as seconds after `since` and kind.
    pub(super) fn take(&self, since: Instant) -> Vec<(u64, &'static str)> {
        let requests = std::mem::take(&mut self.0.lock().unwrap().requests);
        let seconds = |at: Instant| (at - since).as_secs();
        requests
            .into_iter()
            .map(|(at, kind)| (seconds(at), kind))
            .collect()
    }
}

/// A watch that ends after the requested time, or with the server.
fn mk_watch(query: &str, mut end: watch::Receiver<Option<End>>) -> UnsyncBoxBody<Bytes, io::Error> {
    let (body, answer) = Channel::<Bytes, io::Error>::new(1);
    let seconds = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("timeoutSeconds="));
    let seconds = seconds.unwrap().parse().unwrap();
    tokio::spawn(async move {
        tokio::select! {
            () = sleep(Duration::from_secs(seconds)) => {}
            _ = end.changed() => if let Some(End::Broken) = *end.borrow() {
                body.abort(io::ErrorKind::ConnectionReset.into());
            },
        }
    });
    answer.boxed_unsync()
}
