//! The ordinary life cycle of a domain, and its cost.

use std::time::Duration;

use compute_domain_api::names::FINALIZER;
use serde_json::json;
use tokio::time::Instant;

use crate::fake_api::{Call, FakeApi, Fault, Resource, Rule};
use crate::testing::objects::*;
use crate::testing::{Controller, assert_within};

// req: CD-9, CD-10, CD-28
#[tokio::test(start_paused = true)]
async fn a_domain_costs_three_writes_to_create_and_three_to_delete() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    controller.settle().await;
    let uid = uid(&api.create(mk_domain("a")));
    api.until("ready", |api| is_ready(api, "a")).await;
    api.after(Duration::from_secs(60)).await;
    let created = [Call::AddFinalizer, Call::CreateTemplate, Call::WriteStatus];
    assert_eq!(api.calls(), created);
    assert_eq!(
        domain(&api, "a").unwrap()["metadata"]["finalizers"],
        json!([FINALIZER])
    );
    assert_eq!(reason(&api, "a"), "Admitted");
    let mut expected = mk_template_of_go("a-channel", &uid);
    expected["spec"]["metadata"] = json!({
        "labels": { "resource.nvidia.com/computeDomain": uid },
        "annotations": { "resource.nvidia.com/computeDomainName": "a" },
    });
    assert_eq!(template(&api, "a").unwrap()["spec"], expected["spec"]);

    api.forget_requests();
    delete_domain(&api, "a");
    api.until("gone", nothing_is_left).await;
    api.after(Duration::from_secs(60)).await;
    let deleted = [
        Call::DeleteTemplate,
        Call::ReleaseTemplate,
        Call::RemoveFinalizer,
    ];
    assert_eq!(api.calls(), deleted);
    assert_eq!(api.event_reasons(), ["Admitted"]);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn two_hundred_domains_cost_three_writes_each_even_if_watches_lag() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    controller.settle().await;
    api.set_latency(Duration::from_millis(40));
    let names = mk_names(200);
    create_domains(&api, &names);
    api.until("ready", |api| are_ready(api, &names)).await;
    assert_eq!((api.writes(), api.lists()), (600, 0));
    for name in &names {
        delete_domain(&api, name);
    }
    api.until("gone", nothing_is_left).await;
    assert_eq!((api.writes(), api.lists()), (1_200, 0));
    assert_eq!(api.calls().len(), 1_200, "no reads");
    controller.stop().await;
}

// req: CD-28
#[tokio::test(start_paused = true)]
async fn a_restart_without_changes_writes_nothing() {
    let api = FakeApi::new();
    let names = mk_names(700);
    create_domains(&api, &names);
    let first = Controller::start(&api);
    api.until("ready", |api| are_ready(api, &names)).await;
    first.stop().await;

    api.forget_requests();
    let second = Controller::start(&api);
    api.until("the last lists", |api| api.count(Call::ListNodes) == 1)
        .await;
    api.after(Duration::from_secs(60)).await;
    assert_eq!(api.writes(), 0);
    // Two pages of domains and of templates; one of claims, DaemonSets, nodes and templates
    // without label.
    assert_eq!(api.lists(), 8);
    assert!(
        second
            .metrics()
            .contains("nvidia_dra_compute_domain_info{status=\"Ready\"} 700\n")
    );
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_second_page_expired_is_repeated_and_nothing_counts_as_deleted() {
    let api = FakeApi::new();
    let names = mk_names(600);
    create_domains(&api, &names);
    api.break_with(Rule::once(Call::ListDomains, Fault::Expired).after(1));
    let controller = Controller::start(&api);
    api.until("ready", |api| are_ready(api, &names)).await;
    assert_eq!(api.count(Call::ListDomains), 4);
    assert_eq!(api.writes(), 1_800);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn changes_while_no_controller_runs_are_handled_at_start() {
    let api = FakeApi::new();
    api.create(mk_domain("kept"));
    api.create(mk_domain("deleted"));
    let first = Controller::start(&api);
    api.until("ready", |api| are_ready(api, &["kept", "deleted"]))
        .await;
    first.kill().await;

    delete_domain(&api, "deleted");
    api.create(mk_domain("new"));
    api.delete(Resource::Templates, TEAM, "kept-channel");
    api.forget_requests();
    let second = Controller::start(&api);
    let as_wanted = |api: &FakeApi| {
        let alive = |name| template(api, name).is_some_and(|it| !is_being_deleted(&it));
        alive("kept") && alive("new") && is_ready(api, "new") && domain(api, "deleted").is_none()
    };
    api.until("as wanted", as_wanted).await;
    assert_eq!(template(&api, "deleted"), None);
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_recreated_domain_of_the_same_name_gets_its_own_template() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    let first = uid(&api.create(mk_domain("a")));
    api.until("ready", |api| is_ready(api, "a")).await;
    delete_domain(&api, "a");
    api.until("gone", |api| domain(api, "a").is_none()).await;
    let second = uid(&api.create(mk_domain("a")));
    api.until("ready again", |api| is_ready(api, "a")).await;
    assert_ne!(first, second);
    let label =
        &template(&api, "a").unwrap()["metadata"]["labels"]["resource.nvidia.com/computeDomain"];
    assert_eq!(*label, second);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn two_domains_that_want_one_name_get_it_one_after_the_other() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    api.create(mk_domain("a"));
    api.until("the first is ready", |api| is_ready(api, "a"))
        .await;
    api.create(mk_domain_that_wants("a-channel", "b"));
    api.until("the second is rejected", |api| {
        reason(api, "b") == "TemplateNameTaken"
    })
    .await;
    assert!(
        message(&api, "b").contains("belongs to the ComputeDomain team/a;"),
        "{}",
        message(&api, "b")
    );
    delete_domain(&api, "a");
    let deleted = Instant::now();
    api.until("the second is ready", |api| is_ready(api, "b"))
        .await;
    assert_within(Duration::from_secs(1), deleted);
    controller.stop().await;
}
