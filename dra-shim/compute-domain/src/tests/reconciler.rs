//! When records of deleted claims are removed; hours of paused time.

use std::time::Duration;

use compute_domain_node::{ChannelRequest, DomainState, PrepareInput};
use dra_checkpoint::{ClaimRef, ClaimStatus};
use node_claims::{ABSENT_FOR, Moment};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::api_server::{ApiServer, DOMAIN};
use super::node::TestNode;

const GET: &str = "get resourceclaims";
const LIST_PODS: &str = "list pods";

/// A node with the prepared claim ns/holder, and its running reconciler.
async fn mk_node() -> (ApiServer, TestNode, impl Drop) {
    let server = ApiServer::default();
    server.put_domain("ns", "train", DOMAIN);
    server.put_claim("ns", "holder");
    let node = TestNode::start(&server);
    node.prepare("ns", "holder").await.unwrap();
    server.requests();
    let running = run(&node);
    (server, node, running)
}

fn run(node: &TestNode) -> impl Drop + use<> {
    let stop = CancellationToken::new();
    tokio::spawn(node.reconciler().run(stop.clone()));
    stop.drop_guard()
}

/// Prepares another claim of the device, and returns its error.
async fn conflict(server: &ApiServer, node: &TestNode) -> String {
    server.put_claim("ns", "next");
    let refusal = node.prepare("ns", "next").await.unwrap_err();
    sleep(Duration::from_millis(1)).await; // paused: the reconciler runs
    refusal
}

async fn until_unprepared(node: &TestNode) -> Duration {
    let began = Instant::now();
    let gone = async {
        while node.recorded().contains(&"holder".to_owned()) {
            sleep(Duration::from_secs(1)).await;
        }
    };
    timeout(Duration::from_secs(24 * 60 * 60), gone)
        .await
        .unwrap();
    began.elapsed()
}

/// How many claims were read. There must be no other requests.
fn gets(server: &ApiServer) -> usize {
    let (claims, pods) = gets_with_lists(server);
    assert_eq!(pods, 0);
    claims
}

/// How many claims were read and how often pods were listed. There must be no other requests.
fn gets_with_lists(server: &ApiServer) -> (usize, usize) {
    let mut requests = server.requests();
    // Sent within seconds after a Prepare.
    requests.retain(|request| request != "patch resourceclaims/status");
    let (claims, others): (Vec<_>, Vec<_>) = requests.iter().partition(|it| *it == GET);
    assert!(others.iter().all(|it| *it == LIST_PODS), "{requests:?}");
    (claims.len(), others.len())
}

// req: NODE-29
#[tokio::test(start_paused = true)]
async fn an_orphaned_holder_delays_the_next_claim_by_two_and_a_half_minutes() {
    let (server, node, _running) = mk_node().await;
    server.delete_claim("ns", "holder");
    let refusal = conflict(&server, &node).await;
    assert!(refusal.contains("claim ns/holder:holder"), "{refusal}");
    let took = until_unprepared(&node).await;
    let late = took.as_secs().checked_sub(ABSENT_FOR.as_secs());
    assert!(late.is_some_and(|late| late <= 2), "{took:?}");
    // One read of the refused claim, and reads of the holder at 0, 30 .. 150 s.
    assert_eq!(gets_with_lists(&server), (7, 1));
    node.prepare("ns", "next").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_existing_holder_is_read_once_in_half_a_minute_however_often_it_blocks() {
    let (server, node, _running) = mk_node().await;
    for _ in 0..20 {
        conflict(&server, &node).await;
    }
    assert_eq!(gets(&server), 20 + 1);
    sleep(Duration::from_secs(31)).await;
    conflict(&server, &node).await;
    assert_eq!(gets(&server), 2);
    assert_eq!(node.recorded(), ["holder"]);
}

#[tokio::test(start_paused = true)]
async fn an_orphan_that_blocks_no_claim_is_found_by_the_round() {
    let (server, node, _running) = mk_node().await;
    server.change_claim("ns", "holder", |claim| {
        claim["status"]
            .as_object_mut()
            .unwrap()
            .remove("allocation");
    });
    let took = until_unprepared(&node).await;
    assert!(took < Duration::from_secs(10 * 60 + 152), "{took:?}");
    assert_eq!(gets_with_lists(&server), (6, 1));
}

#[tokio::test(start_paused = true)]
async fn an_idle_node_sends_at_most_one_request_in_ten_minutes() {
    let (server, _node, _running) = mk_node().await;
    for _ in 0..24 {
        sleep(Duration::from_secs(60 * 60)).await;
        let count = gets(&server);
        assert!((4..=6).contains(&count), "{count} in an hour");
    }
}

// req: NODE-29
#[tokio::test(start_paused = true)]
async fn a_claim_found_again_or_an_unresponsive_api_server_keeps_the_device() {
    let (server, node, _running) = mk_node().await;
    server.delete_claim("ns", "holder");
    conflict(&server, &node).await;
    sleep(Duration::from_secs(100)).await;
    for refusal in [(500, ""), (404, "404 page not found\n"), (404, "<html>")] {
        server.refuse(Some(refusal));
        sleep(Duration::from_secs(60 * 60)).await;
        assert_eq!(node.recorded(), ["holder"], "{refusal:?}");
    }
    server.refuse(None);
    server.put_claim("ns", "holder");
    sleep(Duration::from_secs(60 * 60)).await;
    assert_eq!(node.recorded(), ["holder"]);
}

/// Leaves a record without a name, like Go driver 25.3.x.
fn prepare_without_name(node: &TestNode, uid: &str) {
    let status = format!(
        r#"{{"allocation":{{"devices":{{"results":[{{"request":"channel","driver":"compute-domain.nvidia.com","pool":"n1","device":"channel-0"}}],
        "config":[{{"source":"FromClaim","opaque":{{"driver":"compute-domain.nvidia.com","parameters":{{
        "apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomainChannelConfig","domainID":"{DOMAIN}"}}}}}}]}}}}}}"#
    );
    let status = ClaimStatus::from_json(&status).unwrap();
    let claim = ClaimRef {
        uid: uid.to_owned(),
        name: String::new(),
        namespace: String::new(),
    };
    let input = PrepareInput {
        claim: &claim,
        status: &status,
        request: &ChannelRequest::from_status(&status).unwrap(),
        domain: DomainState::Unassigned,
        node: "n1",
        hardware: &node.driver.hardware.snapshot(),
        now: Moment::now(),
    };
    input.prepare(&node.claims).unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_claim_of_a_record_without_a_name_is_listed_once_and_then_read() {
    let server = ApiServer::default();
    server.put_claim("ns", "holder");
    for number in 0..1000 {
        server.put_claim("a", &format!("other-{number:04}"));
    }
    let node = TestNode::start(&server);
    prepare_without_name(&node, "holder");
    let _running = run(&node);
    sleep(Duration::from_secs(60 * 60)).await;
    let requests = server.requests();
    let lists = requests
        .iter()
        .filter(|request| *request == "list resourceclaims");
    assert_eq!(lists.count(), 3, "{requests:?}");
    assert!(requests.len() <= 3 + 7, "{requests:?}");
    assert_eq!(node.recorded(), ["holder"]);
    server.delete_claim("ns", "holder");
    until_unprepared(&node).await;
    assert!(gets(&server) <= 8);
}

// req: NODE-29
#[tokio::test(start_paused = true)]
async fn a_claim_deleted_while_its_pod_runs_keeps_the_device_until_the_pod_has_ended() {
    for end in ["Succeeded", "Failed", "another claim", "gone"] {
        let (server, node, _running) = mk_node().await;
        server.put_pod("ns", "holder", "Running");
        server.delete_claim("ns", "holder");
        conflict(&server, &node).await;
        sleep(Duration::from_secs(6 * 60 * 60)).await;
        assert_eq!(node.recorded(), ["holder"], "until {end}");
        match end {
            "another claim" => server.put_pod("ns", "other", "Running"),
            "gone" => server.delete_pod("ns"),
            phase => server.put_pod("ns", "holder", phase),
        }
        let took = until_unprepared(&node).await;
        assert!(took < Duration::from_secs(12 * 60 + 152), "{end}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_claim_stays_prepared_while_its_pods_cannot_be_listed() {
    let (server, node, _running) = mk_node().await;
    server.delete_claim("ns", "holder");
    for refusal in [
        (403, r#"{"kind":"Status","code":403}"#),
        (404, "404 page not found\n"),
    ] {
        server.refuse_pods(Some(refusal));
        conflict(&server, &node).await;
        sleep(Duration::from_secs(60 * 60)).await;
        assert_eq!(node.recorded(), ["holder"], "{refusal:?}");
    }
    server.refuse_pods(None);
    until_unprepared(&node).await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_claim_of_a_record_without_a_name_is_listed_once() {
    let server = ApiServer::default();
    let node = TestNode::start(&server);
    prepare_without_name(&node, "holder");
    let _running = run(&node);
    until_unprepared(&node).await;
    assert_eq!(server.requests(), ["list resourceclaims"]);
}
