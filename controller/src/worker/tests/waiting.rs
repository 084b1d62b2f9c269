//! Waiting claims while nodes without a clique are tainted.

use std::time::Duration;

use compute_domain_api::names::{DEGRADED_FABRIC_TAINT, NO_CLIQUE_TAINT};
use serde_json::json;
use tokio::time::Instant;

use crate::fake_api::{Call, FakeApi, Fault, Resource, Rule};
use crate::testing::Controller;
use crate::testing::objects::*;
use crate::waiting::LONG;

const SECOND: Duration = Duration::from_secs(1);
const NOT_LONG: Duration = LONG.saturating_sub(SECOND);

/// A cluster of three nodes, two of them without a clique, and a ready domain.
async fn fixture(start: impl FnOnce(&FakeApi) -> Controller) -> (FakeApi, Controller, String) {
    let api = FakeApi::new();
    for (node, taints) in [
        ("node1", vec![NO_CLIQUE_TAINT]),
        ("node2", vec![]),
        ("node3", vec![DEGRADED_FABRIC_TAINT, NO_CLIQUE_TAINT]),
    ] {
        api.create(mk_slice(node, &taints));
    }
    let mut of_another_driver = mk_slice("node4", &[NO_CLIQUE_TAINT]);
    of_another_driver["spec"]["driver"] = json!("gpu.nvidia.com");
    api.create(of_another_driver);
    let controller = start(&api);
    controller.settle().await;
    let uid = uid(&api.create(mk_domain("a")));
    api.until("ready", |api| is_ready(api, "a")).await;
    (api, controller, uid)
}

#[tokio::test(start_paused = true)]
async fn a_waiting_claim_is_reported_once_with_the_number_of_nodes_without_clique() {
    let (api, controller, uid) = fixture(Controller::start_with_taints).await;
    for number in 0..50 {
        api.create(mk_claim(&format!("pod-{number}"), &uid));
    }
    api.forget_requests();
    api.after(NOT_LONG).await;
    assert_eq!(api.calls(), [], "not before it has waited long");
    api.until("reported", |api| reported(api, "a").is_some())
        .await;
    let condition = reported(&api, "a").unwrap();
    let message = "a ResourceClaim waits for allocation; 2 of 3 nodes with IMEX channels are not in an NVLink clique, and their taint compute-domain.nvidia.com/no-clique keeps this ComputeDomain's pods away";
    assert_eq!(condition["message"], message);
    assert_eq!(reason(&api, "a"), "Admitted");
    api.until("the event", |api| {
        api.event_note("NodesWithoutClique").as_deref() == Some(message)
    })
    .await;

    // Nothing is written again, whatever happens to nodes and other claims.
    api.delete(Resource::Slices, "", "node1-slice");
    api.create(mk_claim("later", &uid));
    allocate(&api, "pod-0");
    api.after(LONG * 10).await;
    assert_eq!(api.calls(), [Call::ListSlices, Call::WriteStatus]);
    assert_eq!(reported(&api, "a"), Some(condition));
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_report_is_removed_when_no_claim_waits() {
    let (api, controller, uid) = fixture(Controller::start_with_taints).await;
    for claim in ["one", "two"] {
        api.create(mk_claim(claim, &uid));
    }
    api.until("reported", |api| reported(api, "a").is_some())
        .await;
    allocate(&api, "one");
    api.after(SECOND).await;
    assert!(reported(&api, "a").is_some(), "the other one waits");
    api.delete(Resource::Claims, TEAM, "two");
    api.until("no longer", |api| reported(api, "a").is_none())
        .await;
    assert_eq!(reason(&api, "a"), "Admitted");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_allocated_in_time_costs_no_request() {
    let (api, controller, uid) = fixture(Controller::start_with_taints).await;
    api.forget_requests();
    for round in 0..3 {
        let claim = format!("pod-{round}");
        api.create(mk_claim(&claim, &uid));
        api.after(NOT_LONG).await;
        allocate(&api, &claim);
    }
    api.after(LONG * 3).await;
    assert_eq!(api.calls(), []);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn claims_of_others_with_the_label_of_the_domain_do_not_count() {
    let (api, controller, uid) = fixture(Controller::start_with_taints).await;
    api.forget_requests();
    api.create(in_namespace("elsewhere", mk_claim("stranger", &uid)));
    api.create(mk_claim("of-nobody", "another-uid"));
    api.after(LONG * 3).await;
    assert_eq!(api.calls(), []);
    // Nor do they keep the report about the domain's own claims.
    api.create(mk_claim("own", &uid));
    api.until("reported", |api| reported(api, "a").is_some())
        .await;
    allocate(&api, "own");
    api.until("no longer", |api| reported(api, "a").is_none())
        .await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn with_publish_no_claim_that_waits_costs_a_request() {
    let (api, controller, uid) = fixture(Controller::start).await;
    api.forget_requests();
    api.create(mk_claim("pod", &uid));
    api.after(LONG * 3).await;
    assert_eq!(api.calls(), []);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn if_every_node_has_a_clique_nothing_is_reported_and_nodes_are_counted_once() {
    let (api, controller, uid) = fixture(Controller::start_with_taints).await;
    for node in ["node1", "node3"] {
        api.delete(Resource::Slices, "", &format!("{node}-slice"));
    }
    api.forget_requests();
    api.create(mk_claim("pod", &uid));
    api.after(LONG * 10).await;
    assert_eq!(api.calls(), [Call::ListSlices]);
    assert_eq!(reported(&api, "a"), None);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_count_is_retried_and_delays_nothing_else() {
    let (api, controller, uid) = fixture(Controller::start_with_taints).await;
    let forbidden = Fault::Forbidden("resourceslices is forbidden");
    for _ in 0..2 {
        api.break_with(Rule::once(Call::ListSlices, forbidden));
    }
    api.create(mk_claim("pod", &uid));
    api.forget_requests();
    api.until("tried", |api| api.count(Call::ListSlices) == 1)
        .await;
    api.create(mk_domain("b"));
    api.until("ready", |api| is_ready(api, "b")).await;
    api.until("reported", |api| reported(api, "a").is_some())
        .await;
    assert_eq!(api.count(Call::ListSlices), 3);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn domains_that_wait_at_the_same_time_share_one_count() {
    let (api, controller, _) = fixture(Controller::start_with_taints).await;
    let names = mk_names(20);
    create_domains(&api, &names);
    api.until("ready", |api| are_ready(api, &names)).await;
    for name in &names {
        let uid = uid(&domain(&api, name).unwrap());
        api.create(mk_claim(&format!("of-{name}"), &uid));
    }
    api.forget_requests();
    api.until("all are reported", |api| {
        api.count(Call::WriteStatus) == names.len()
    })
    .await;
    assert_eq!(api.count(Call::ListSlices), 1);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_controller_repeats_no_report_and_removes_stale_ones() {
    let (api, controller, uid) = fixture(Controller::start_with_taints).await;
    api.create(mk_claim("pod", &uid));
    api.until("reported", |api| reported(api, "a").is_some())
        .await;
    let before = reported(&api, "a");
    controller.kill().await;

    let controller = Controller::start_with_taints(&api);
    controller.settle().await;
    api.after(LONG * 3).await;
    assert_eq!(api.calls(), []);
    assert_eq!(reported(&api, "a"), before);
    controller.kill().await;

    allocate(&api, "pod");
    let controller = Controller::start_with_taints(&api);
    api.until("no longer", |api| reported(api, "a").is_none())
        .await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn switching_back_to_publish_removes_the_report() {
    let (api, controller, uid) = fixture(Controller::start_with_taints).await;
    api.create(mk_claim("pod", &uid));
    api.until("reported", |api| reported(api, "a").is_some())
        .await;
    controller.stop().await;
    let controller = Controller::start(&api);
    api.until("no longer", |api| reported(api, "a").is_none())
        .await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_allocated_while_the_watch_is_down_no_longer_waits() {
    let (api, controller, uid) = fixture(Controller::start_with_taints).await;
    api.create(mk_claim("pod", &uid));
    api.until("reported", |api| reported(api, "a").is_some())
        .await;
    allocate(&api, "pod");
    api.expire_watches();
    api.until("no longer", |api| reported(api, "a").is_none())
        .await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn waiting_times_of_several_claims_do_not_add_up() {
    let (api, controller, uid) = fixture(Controller::start_with_taints).await;
    api.create(mk_claim("first", &uid));
    api.after(SECOND * 20).await;
    api.create(mk_claim("second", &uid));
    let created = Instant::now();
    api.after(SECOND * 5).await;
    allocate(&api, "first");
    api.until("reported", |api| reported(api, "a").is_some())
        .await;
    let waited = created.elapsed();
    assert!(waited >= NOT_LONG && waited <= LONG + SECOND, "{waited:?}");
    controller.stop().await;
}
