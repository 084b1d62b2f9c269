//! Real publishers whose API server ends their watches: when they come back.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Channel, Full};
use kube::client::Body;
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::super::publisher::Publisher;
use super::super::state::{DesiredPool, Publication};
use crate::observer::Observer;
use crate::registration::Registration;

type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;

/// Reads nothing but this: what was asked for when, and how watches end.
#[derive(Clone)]
struct Server(Arc<Mutex<State>>);

struct State {
    requests: Vec<(Instant, &'static str)>,
    is_down: bool,
    history_is_lost: bool,
    /// Ends all watches: cleanly, or as a connection that breaks.
    end: watch::Sender<Option<End>>,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Clean,
    Broken,
}

struct Silent;

impl Observer for Silent {}

/// What one publisher needs to live.
struct Running {
    state: watch::Receiver<Publication>,
    desired: watch::Sender<DesiredPool>,
    registration: watch::Sender<Registration>,
    _stop: tokio_util::sync::DropGuard,
}

impl Server {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            requests: Vec::new(),
            is_down: false,
            history_is_lost: false,
            end: watch::Sender::new(None),
        })))
    }

    fn client(&self) -> kube::Client {
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

    fn end_watches(&self, end: End) {
        self.0.lock().unwrap().end.send_replace(Some(end));
    }

    fn set_down(&self, is_down: bool) {
        self.0.lock().unwrap().is_down = is_down;
    }

    /// The requests since the last call, as seconds from now on and kind.
    fn take(&self, since: Instant) -> Vec<(u64, &'static str)> {
        let requests = std::mem::take(&mut self.0.lock().unwrap().requests);
        let seconds = |at: Instant| (at - since).as_secs();
        requests
            .into_iter()
            .map(|(at, kind)| (seconds(at), kind))
            .collect()
    }
}

/// Ends with the time that it asks for, or with the server.
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

/// `data` is written only when something is to be published.
fn start(client: &kube::Client, data: &Path) -> Running {
    let desired = watch::Sender::new(DesiredPool::Undecided);
    let registration = watch::Sender::new(Registration::Pending);
    let stop = CancellationToken::new();
    let publisher = Publisher::new(
        client.clone(),
        "d.example.com".to_owned(),
        "n1".to_owned(),
        data.to_owned(),
        desired.subscribe(),
        Arc::new(Silent),
    );
    let state = publisher.state();
    tokio::spawn(publisher.run(registration.subscribe(), stop.clone()));
    Running {
        state,
        desired,
        registration,
        _stop: stop.drop_guard(),
    }
}

/// A publisher whose watch is open.
async fn mk_watching(server: &Server, data: &TempDir) -> Running {
    let running = start(&server.client(), data.path());
    sleep(Duration::from_secs(1)).await;
    assert_eq!(
        server.take(Instant::now() - Duration::from_secs(1)).len(),
        2
    );
    running
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_expires_begins_again_at_once() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::new();
    let start = Instant::now();
    let _running = mk_watching(&server, &data).await;
    sleep(Duration::from_secs(3 * 290)).await;
    assert_eq!(
        server.take(start),
        [(290, "watch"), (580, "watch"), (870, "watch")]
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_early_begins_again_within_a_minute_with_one_request() {
    let data = tempfile::tempdir().unwrap();
    for end in [End::Clean, End::Broken] {
        let mut pauses = Vec::new();
        for _ in 0..20 {
            let server = Server::new();
            let _running = mk_watching(&server, &data).await;
            let ended = Instant::now();
            server.end_watches(end);
            sleep(Duration::from_secs(61)).await;
            let requests = server.take(ended);
            assert_eq!(requests.len(), 1, "{end:?} {requests:?}");
            assert_eq!(requests[0].1, "watch");
            pauses.push(requests[0].0);
        }
        pauses.sort_unstable();
        // All of 20 in one half of the minute: once in 500 000 runs.
        assert!(pauses[0] < 30 && pauses[19] >= 30, "{end:?} {pauses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_lost_history_the_list_does_not_wait_for_a_second_time() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::new();
    let _running = mk_watching(&server, &data).await;
    let ended = Instant::now();
    server.0.lock().unwrap().history_is_lost = true;
    server.end_watches(End::Clean);
    sleep(Duration::from_secs(61)).await;
    let requests = server.take(ended);
    let kinds: Vec<_> = requests.iter().map(|request| request.1).collect();
    assert_eq!(kinds, ["watch", "list", "watch"]);
    assert_eq!(requests[0].0, requests[2].0);
}

#[tokio::test(start_paused = true)]
async fn registration_and_a_changed_pool_do_not_wait_for_the_watch() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::new();
    let running = mk_watching(&server, &data).await;
    let ended = Instant::now();
    server.end_watches(End::Broken);
    running.registration.send_replace(Registration::Registered);
    running
        .desired
        .send_replace(DesiredPool::Devices(Vec::new()));
    let mut state = running.state.clone();
    state
        .wait_for(|state| matches!(state, Publication::Published { .. }))
        .await
        .unwrap();
    assert!(ended.elapsed() < Duration::from_secs(1));
    let writes = server.take(ended);
    assert!(
        writes.contains(&(0, "list")) && writes.contains(&(0, "create")),
        "{writes:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_is_not_reported_and_a_long_one_until_the_watch_is_back() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::new();
    let running = mk_watching(&server, &data).await;
    running
        .desired
        .send_replace(DesiredPool::Devices(Vec::new()));
    let mut state = running.state.clone();
    state
        .wait_for(|state| matches!(state, Publication::Published { .. }))
        .await
        .unwrap();
    state.mark_unchanged();
    server.end_watches(End::Clean);
    sleep(Duration::from_secs(61)).await;
    assert!(!state.has_changed().unwrap());

    server.set_down(true);
    server.end_watches(End::Clean);
    let failing = state.wait_for(|state| {
        matches!(
            state,
            Publication::Failing {
                code: "watch-slices",
                ..
            }
        )
    });
    failing.await.unwrap();
    server.set_down(false);
    state
        .wait_for(|state| matches!(state, Publication::Published { .. }))
        .await
        .unwrap();
}

/// How many requests a second there are, by kind, from `since` on.
fn per_second(requests: &[(u64, &'static str)]) -> BTreeMap<u64, usize> {
    let mut counts = BTreeMap::new();
    for (second, _) in requests {
        *counts.entry(*second).or_default() += 1;
    }
    counts
}

#[tokio::test(start_paused = true)]
#[expect(clippy::print_stdout, reason = "the table is its result")]
async fn ten_thousand_nodes_come_back_spread_over_a_minute_after_a_restart() {
    const NODES: usize = 10_000;
    println!("API server restart, {NODES} nodes   requests   peak per second   last after");
    for (name, outage, end) in [
        ("another server takes over", 0, End::Clean),
        ("connections break, 20 s away", 20, End::Broken),
        ("clean end, 120 s away", 120, End::Clean),
    ] {
        let server = Server::new();
        let client = server.client();
        let running: Vec<_> = (0..NODES)
            .map(|_| start(&client, Path::new("/nowhere")))
            .collect();
        sleep(Duration::from_secs(1)).await;
        server.set_down(outage > 0);
        server.end_watches(end);
        sleep(Duration::from_secs(outage)).await;
        server.take(Instant::now() - Duration::from_secs(outage));
        server.set_down(false);
        let back = Instant::now();
        sleep(Duration::from_secs(61)).await;
        let requests = server.take(back);
        let peak = per_second(&requests).into_values().max().unwrap();
        let last = requests.last().unwrap().0;
        println!("{name:<33} {:>8} {peak:>17} {last:>10} s", requests.len());
        assert_eq!(requests.len(), NODES);
        // 167 a second; twice as many at first if all have tried in vain before.
        assert!(peak < 400, "{peak}");
        assert!(last < 60);
        drop(running);
    }
}
