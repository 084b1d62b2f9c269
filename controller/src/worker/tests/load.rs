//! Many domains at once.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::fake_api::{Call, FakeApi, Fault, Resource, Rule};
use crate::testing::objects::*;
use crate::testing::{Controller, assert_within};

/// Number of domains of another tenant.
const CROWD: usize = 500;

// req: CD-29
#[tokio::test(start_paused = true)]
async fn domains_that_keep_failing_delay_no_other() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    controller.settle().await;
    let names = mk_names(30);
    // More than are reconciled at the same time; each fails after a while.
    api.break_with(Rule::always(Call::AddFinalizer, Fault::NoAnswer).in_namespace("broken"));
    for name in &names {
        api.create(in_namespace("broken", mk_domain(name)));
    }
    api.after(Duration::from_secs(120)).await;
    create_domains(&api, &names);
    let created = Instant::now();
    api.until("ready", |api| are_ready(api, &names)).await;
    assert_within(Duration::from_secs(20), created);
    controller.stop().await;
}

/// Creates another tenant's domains, which all want one name.
fn create_crowd(api: &FakeApi) {
    for name in mk_names(CROWD) {
        let domain = mk_domain_that_wants("shared", &name);
        api.create(in_namespace("crowd", domain));
    }
}

/// Number of the crowd's domains without status.
fn unanswered(api: &FakeApi) -> usize {
    let domains = api.all(Resource::Domains);
    let waits = |it: &&Value| it["metadata"]["namespace"] == "crowd" && it["status"].is_null();
    domains.iter().filter(waits).count()
}

// req: CD-29
#[tokio::test(start_paused = true)]
async fn hundreds_of_domains_in_one_namespace_delay_no_other_namespace() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    controller.settle().await;
    api.set_latency(Duration::from_millis(20));
    create_crowd(&api);
    for name in mk_names(2) {
        let created = Instant::now();
        api.create(mk_domain(&name));
        api.until("ready", |api| is_ready(api, &name)).await;
        assert_within(Duration::from_millis(500), created);
        let deleted = Instant::now();
        delete_domain(&api, &name);
        api.until("gone", |api| domain(api, &name).is_none()).await;
        assert_within(Duration::from_millis(500), deleted);
    }
    assert!(
        unanswered(&api) > CROWD / 2,
        "{} are left",
        unanswered(&api)
    );
    let waits = |it: &Value| it["status"].is_null();
    api.until("answered", |api| !api.any(Resource::Domains, waits))
        .await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_with_hundreds_of_domains_in_one_namespace_delays_no_other_namespace() {
    let api = FakeApi::new();
    create_crowd(&api);
    let names = mk_names(3);
    create_domains(&api, &names);
    api.set_latency(Duration::from_millis(20));
    let controller = Controller::start(&api);
    controller.settle().await;
    let listed = Instant::now();
    api.until("ready", |api| are_ready(api, &names)).await;
    assert_within(Duration::from_millis(500), listed);
    assert!(
        unanswered(&api) > CROWD / 2,
        "{} are left",
        unanswered(&api)
    );
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn metrics_follow_the_domains_and_the_queue() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    controller.settle().await;
    api.break_with(Rule::always(Call::CreateTemplate, Fault::NoAnswer));
    let names = mk_names(30);
    create_domains(&api, &names);
    let says = |line: &str| controller.metrics().contains(line);
    api.until("queued", |_| says("\nimex_dra_queue_depth 30\n"))
        .await;
    api.heal();
    api.until("ready", |_| {
        says("\nnvidia_dra_compute_domain_info{status=\"Ready\"} 30\n")
    })
    .await;
    assert!(
        says("\nimex_dra_reconcile_errors_total{code=\"no-answer\"} "),
        "{}",
        controller.metrics()
    );
    for name in &names {
        delete_domain(&api, name);
    }
    api.until("gone", |_| {
        says("\nnvidia_dra_compute_domain_info{status=\"Ready\"} 0\n")
    })
    .await;
    api.until("idle", |_| says("\nimex_dra_queue_depth 0\n"))
        .await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_running_requests_but_not_for_a_hanging_server() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    controller.settle().await;
    api.break_with(Rule::always(Call::CreateTemplate, Fault::NoAnswer));
    api.create(mk_domain("a"));
    api.until("it hangs", |api| api.count(Call::CreateTemplate) == 1)
        .await;
    let took = controller.stop().await;
    assert!(took <= Duration::from_millis(300), "{took:?}");

    api.heal();
    api.set_latency(Duration::from_millis(20));
    let controller = Controller::start(&api);
    api.until("created", |api| template(api, "a").is_some())
        .await;
    let took = controller.stop().await;
    assert!(took <= Duration::from_millis(100), "{took:?}");
    assert!(is_ready(&api, "a"), "running requests were finished");
}
