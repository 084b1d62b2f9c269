//! Restarts of real publishers' watches after the API server has ended them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::super::publisher::Publisher;
use super::super::state::{DesiredPool, Publication};
use super::ending_watches::{End, Server};
use crate::observer::Observer;
use crate::registration::Registration;

struct Silent;

impl Observer for Silent {}

/// A running publisher with its inputs.
struct Running {
    state: watch::Receiver<Publication>,
    desired: watch::Sender<DesiredPool>,
    registration: watch::Sender<Registration>,
    _stop: tokio_util::sync::DropGuard,
}

/// Starts a publisher. It writes to `data` only if it has devices to publish.
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

/// A publisher with an open watch.
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
async fn an_expired_watch_restarts_at_once() {
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
async fn a_watch_that_ends_early_restarts_within_a_minute_with_one_request() {
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
        // Probability of all 20 in one half of the minute: 1 in 500 000.
        assert!(pauses[0] < 30 && pauses[19] >= 30, "{end:?} {pauses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_lost_history_the_list_does_not_wait_again() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::new();
    let _running = mk_watching(&server, &data).await;
    let ended = Instant::now();
    server.lose_history();
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
    // The order of the two is random.
    sleep(Duration::from_millis(500)).await;
    let requests = server.take(ended);
    assert!(
        requests.contains(&(0, "list")) && requests.contains(&(0, "create")),
        "{requests:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn only_a_long_outage_is_reported_until_the_watch_restarts() {
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

/// The number of requests in each second.
fn per_second(requests: &[(u64, &'static str)]) -> BTreeMap<u64, usize> {
    let mut counts = BTreeMap::new();
    for (second, _) in requests {
        *counts.entry(*second).or_default() += 1;
    }
    counts
}

#[tokio::test(start_paused = true)]
async fn watches_of_ten_thousand_nodes_restart_spread_over_a_minute() {
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
        // 167 a second; twice as many at first if all have failed before. The probability that
        // one of 60 seconds with 333 on average has more than 500 is 10^-14.
        assert!(peak < 500, "{peak}");
        // A pause just below a minute ends at the timer's next millisecond.
        assert!(last <= 60);
        drop(running);
    }
}
