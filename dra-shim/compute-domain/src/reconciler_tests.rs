//! What becomes of a record whose claim is gone, and when; hours of paused time.

use std::time::Duration;

use compute_domain_node::{ABSENT_FOR, ChannelRequest, DomainState, PrepareInput};
use dra_checkpoint::ClaimStatus;
use tokio::time::{sleep, timeout};

use super::*;
use crate::tests::api_server::{ApiServer, DOMAIN};
use crate::tests::node::TestNode;

const GET: &str = "get resourceclaims";
const LIST_PODS: &str = "list pods";

/// A node on which the claim ns/holder is prepared, and its reconciler at work.
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

/// Another claim wants the device, and the refusal is returned.
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

/// How many claims were read; nothing else was.
fn gets(server: &ApiServer) -> usize {
    let (claims, pods) = gets_with_lists(server);
    assert_eq!(pods, 0);
    claims
}

/// How many claims were read, and pods listed; nothing else was asked.
fn gets_with_lists(server: &ApiServer) -> (usize, usize) {
    let mut requests = server.requests();
    // Comes within seconds after a Prepare.
    requests.retain(|asked| asked != "patch resourceclaims/status");
    let (claims, others): (Vec<_>, Vec<_>) = requests.iter().partition(|asked| *asked == GET);
    assert!(
        others.iter().all(|asked| *asked == LIST_PODS),
        "{requests:?}"
    );
    (claims.len(), others.len())
}

// req: NODE-29
#[tokio::test(start_paused = true)]
async fn a_leftover_holder_costs_the_next_claim_two_and_a_half_minutes() {
    let (server, node, _running) = mk_node().await;
    server.delete_claim("ns", "holder");
    let refusal = conflict(&server, &node).await;
    assert!(refusal.contains("claim ns/holder:holder"), "{refusal}");
    let took = until_unprepared(&node).await;
    let late = took.as_secs().checked_sub(ABSENT_FOR.as_secs());
    assert!(late.is_some_and(|late| late <= 2), "{took:?}");
    // One for the refused claim, and one for the holder at 0, 30 .. 150 s.
    assert_eq!(gets_with_lists(&server), (7, 1));
    node.prepare("ns", "next").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_is_there_is_asked_for_once_in_half_a_minute_however_many_complain() {
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
async fn without_a_complaint_a_leftover_is_found_by_the_round() {
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
async fn an_idle_node_asks_once_in_ten_minutes_at_most() {
    let (server, _node, _running) = mk_node().await;
    for _ in 0..24 {
        sleep(Duration::from_secs(60 * 60)).await;
        let count = gets(&server);
        assert!((4..=6).contains(&count), "{count} in an hour");
    }
}

// req: NODE-29
#[tokio::test(start_paused = true)]
async fn a_claim_that_comes_back_or_an_api_server_that_does_not_answer_keeps_the_device() {
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

/// As 25.3.x of the Go driver leaves it.
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
    node.claims.prepare(&input).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_record_without_a_name_is_searched_for_once_page_by_page_and_then_asked_for() {
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
async fn nothing_is_unprepared_while_the_pods_of_a_claim_that_is_gone_cannot_be_asked_for() {
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
async fn a_record_without_a_name_whose_claim_is_gone_is_searched_for_once() {
    let server = ApiServer::default();
    let node = TestNode::start(&server);
    prepare_without_name(&node, "holder");
    let _running = run(&node);
    until_unprepared(&node).await;
    assert_eq!(server.requests(), ["list resourceclaims"]);
}
