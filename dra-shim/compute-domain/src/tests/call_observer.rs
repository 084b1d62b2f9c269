//! Events of a Prepare that takes long.

use std::time::Duration;

use compute_domain_node::ImexDaemon;
use dra_checkpoint::BootId;
use dra_kubelet::{ClaimError, Method, Observer as _};
use plugin_parts::CallObserver;
use tokio::time::{sleep, timeout};

use super::api_server::{ApiServer, DOMAIN};
use super::node::{TestNode, mk_metrics, mk_ref};
use crate::channel_devices::SharedClaims;
use crate::imex_daemon::DaemonWatch;

/// When the event is due.
const WAITS_AFTER: Duration = Duration::from_secs(5);
/// Just before that.
const NOT_YET: Duration = Duration::from_millis(4900);
const A_MOMENT: Duration = Duration::from_millis(100);

/// A node whose claims wait for an IMEX daemon that never starts, and its call observer.
fn waiting_node(server: &ApiServer) -> (TestNode, CallObserver) {
    let mut node = TestNode::start(server);
    let boot = BootId::new("boot-1").unwrap();
    let daemon = ImexDaemon::new(&node.data_dir(), boot);
    node.driver.imex_daemon = Some(DaemonWatch::new(daemon));
    let observer = CallObserver {
        metrics: mk_metrics(),
        in_flight: node.driver.in_flight.clone(),
        events: node.driver.events.clone(),
    };
    (node, observer)
}

// req: NODE-46
#[tokio::test(start_paused = true)]
async fn after_five_seconds_a_waiting_pod_gets_an_event_with_the_reason() {
    let server = ApiServer::default();
    server.put_claim("ns", "a");
    server.put_domain("ns", "domain", DOMAIN);
    let (node, observer) = waiting_node(&server);
    observer.claim_started(Method::Prepare, &mk_ref("ns", "a"));
    let mut prepare = Box::pin(node.prepare("ns", "a"));
    let waits = timeout(NOT_YET, prepare.as_mut()).await;
    assert!(waits.is_err(), "{waits:?}");
    assert_eq!(server.events(), [""; 0]);
    let waits = timeout(2 * A_MOMENT, prepare.as_mut()).await;
    assert!(waits.is_err(), "{waits:?}");
    let events = server.events_with_objects();
    let [(object, event)] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!(object, "pod");
    let expected = "Warning PrepareWaits: claim a: imex-daemon-missing: no IMEX daemon";
    assert!(event.starts_with(expected), "{event}");
}

// req: NODE-46
#[tokio::test(start_paused = true)]
async fn a_wait_before_any_look_up_is_reported_too() {
    let server = ApiServer::default();
    server.put_claim("ns", "a");
    let (mut node, observer) = waiting_node(&server);
    // The checkpoint is not open.
    node.driver.shared_claims = SharedClaims::default();
    let claim = mk_ref("ns", "a");
    observer.claim_started(Method::Prepare, &claim);
    let reason = node.prepare("ns", "a").await.unwrap_err();
    let error = ClaimError::retry(&reason).with_code("checkpoint");
    observer.attempt_finished(Method::Prepare, &claim, Err(&error), A_MOMENT);
    sleep(WAITS_AFTER + A_MOMENT).await;
    let event = format!("Warning PrepareWaits: claim a: checkpoint: {reason}");
    assert_eq!(server.events_with_objects(), [("pod".to_owned(), event)]);
}

// req: NODE-46
#[tokio::test(start_paused = true)]
async fn an_ended_prepare_is_not_reported_as_waiting() {
    let server = ApiServer::default();
    let (_node, observer) = waiting_node(&server);
    let claim = mk_ref("ns", "a");
    let begins = || observer.claim_started(Method::Prepare, &claim);
    let ends = || observer.claim_finished(Method::Prepare, &claim, Ok(()), A_MOMENT);
    begins();
    sleep(NOT_YET).await;
    ends();
    // The first Prepare's time is over while the second one is in progress.
    begins();
    sleep(2 * A_MOMENT).await;
    ends();
    sleep(2 * WAITS_AFTER).await;
    assert_eq!(server.events(), [""; 0]);
}

/// Hundreds of claims may end within the five seconds before a report.
#[tokio::test(start_paused = true)]
async fn an_ended_prepare_leaves_no_task() {
    let server = ApiServer::default();
    let (_node, observer) = waiting_node(&server);
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    sleep(A_MOMENT).await;
    let before = tasks();
    let claims: Vec<_> = (0..100)
        .map(|it| mk_ref("ns", &format!("claim-{it}")))
        .collect();
    for claim in &claims {
        observer.claim_started(Method::Prepare, claim);
    }
    assert_eq!(tasks(), before + claims.len());
    for claim in &claims {
        observer.claim_finished(Method::Prepare, claim, Ok(()), A_MOMENT);
    }
    sleep(A_MOMENT).await;
    assert_eq!(tasks(), before);
}
