//! A template of the wanted name with another owner.

use std::time::Duration;

use compute_domain_api::names::DOMAIN_LABEL;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::fake_api::{Call, FakeApi, Fault, Resource, Rule};
use crate::testing::objects::*;
use crate::testing::{Controller, assert_within};

async fn rejected(api: &FakeApi) -> Controller {
    api.create(mk_foreign_template("a-channel"));
    let controller = Controller::start(api);
    controller.settle().await;
    api.create(mk_domain("a"));
    api.until("rejected", |api| reason(api, "a") == "TemplateNameTaken")
        .await;
    api.until("its watch", |api| {
        api.open_watches(Call::WatchOtherTemplates) == 1
    })
    .await;
    controller
}

// req: CD-12
#[tokio::test(start_paused = true)]
async fn a_taken_name_is_reported_and_its_template_left_unchanged() {
    let api = FakeApi::new();
    let controller = rejected(&api).await;
    let foreign = template(&api, "a").unwrap();
    api.after(Duration::from_secs(600)).await;
    assert_eq!(template(&api, "a").unwrap(), foreign);
    assert_eq!(domain(&api, "a").unwrap()["status"]["status"], "NotReady");
    let words = "ResourceClaimTemplate \"a-channel\" already exists and belongs to no ComputeDomain; recreate the ComputeDomain with another";
    assert!(
        message(&api, "a").starts_with(words),
        "{}",
        message(&api, "a")
    );
    assert_eq!(api.event_reasons(), ["TemplateNameTaken"]);
    // Afterwards, a taken name is only read.
    assert_eq!(api.count(Call::CreateTemplate), 1);
    assert_eq!(api.count(Call::WriteStatus), 1);
    assert!(
        api.count(Call::GetTemplate) <= 20,
        "{}",
        api.count(Call::GetTemplate)
    );
    controller.stop().await;
}

// req: CD-12
#[tokio::test(start_paused = true)]
async fn a_name_that_becomes_free_is_used_at_once_and_then_the_fourth_watch_ends() {
    let api = FakeApi::new();
    let controller = rejected(&api).await;
    api.after(Duration::from_secs(300)).await;
    let freed = Instant::now();
    api.delete(Resource::Templates, TEAM, "a-channel");
    api.until("ready", |api| is_ready(api, "a")).await;
    assert_within(Duration::from_secs(1), freed);
    api.until("no fourth watch", |api| {
        api.open_watches(Call::WatchOtherTemplates) == 0
    })
    .await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_becomes_free_while_the_fourth_watch_is_down_is_found_when_it_is_up() {
    let api = FakeApi::new();
    let controller = rejected(&api).await;
    // By now, the name is read once a minute.
    api.after(Duration::from_secs(300)).await;
    let freed = Instant::now();
    api.break_with(Rule::once(Call::ListOtherTemplates, Fault::Unavailable));
    api.expire_watches();
    api.delete(Resource::Templates, TEAM, "a-channel");
    api.until("ready", |api| is_ready(api, "a")).await;
    assert_within(Duration::from_secs(5), freed);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn templates_of_other_names_and_namespaces_wake_no_waiter() {
    let api = FakeApi::new();
    let controller = rejected(&api).await;
    api.create(in_namespace("elsewhere", mk_foreign_template("a-channel")));
    api.create(mk_foreign_template("other"));
    // Just after a read of the name; the next one is far away.
    api.after(Duration::from_secs(300)).await;
    let looks = api.count(Call::GetTemplate) + 1;
    api.until("a look", |api| api.count(Call::GetTemplate) == looks)
        .await;
    api.delete(Resource::Templates, "elsewhere", "a-channel");
    api.delete(Resource::Templates, TEAM, "other");
    api.after(Duration::from_millis(100)).await;
    assert_eq!(api.count(Call::GetTemplate), looks);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_waiting_domains_write_nothing() {
    let api = FakeApi::new();
    rejected(&api).await.stop().await;
    api.forget_requests();
    let controller = Controller::start(&api);
    api.until("read", |api| api.count(Call::GetTemplate) > 0)
        .await;
    api.after(Duration::from_secs(1)).await;
    assert_eq!(api.writes(), 0);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn deleting_a_domain_that_waits_for_a_name_leaves_the_template() {
    let api = FakeApi::new();
    let controller = rejected(&api).await;
    delete_domain(&api, "a");
    api.until("gone", |api| domain(api, "a").is_none()).await;
    assert!(template(&api, "a").is_some());
    api.until("no fourth watch", |api| {
        api.open_watches(Call::WatchOtherTemplates) == 0
    })
    .await;
    controller.stop().await;
}

// req: CD-13
#[tokio::test(start_paused = true)]
async fn an_invalid_name_is_reported_without_a_request_for_it() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    controller.settle().await;
    api.create(mk_domain_that_wants("A\nnamespace: kube-system", "a"));
    api.until("rejected", |api| reason(api, "a") == "InvalidTemplateName")
        .await;
    api.after(Duration::from_secs(60)).await;
    assert_eq!(api.calls(), [Call::WriteStatus]);
    delete_domain(&api, "a");
    api.until("gone", nothing_is_left).await;
    controller.stop().await;
}

/// Replaces the spec with two updates, which the CRD allows: one removes it, one adds another.
pub(super) fn replace_spec(api: &FakeApi, domain: &str, template: &str) {
    let edit = |change: &dyn Fn(&mut Value)| api.edit(Resource::Domains, TEAM, domain, change);
    let spec = api.get(Resource::Domains, TEAM, domain).unwrap()["spec"].clone();
    edit(&|object| object["spec"] = Value::Null);
    edit(&|object| {
        object["spec"] = spec.clone();
        object["spec"]["channel"]["resourceClaimTemplate"]["name"] = json!(template);
    });
}

#[tokio::test(start_paused = true)]
async fn two_domains_can_swap_template_names_and_a_third_gets_the_free_one() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    let names = ["a", "b"];
    create_domains(&api, &names);
    api.until("ready", |api| are_ready(api, &names)).await;
    replace_spec(&api, "a", "b-channel");
    replace_spec(&api, "b", "a-channel");
    let owner = |api: &FakeApi, template: &str| {
        let template = api.get(Resource::Templates, TEAM, template)?;
        Some(template["metadata"]["labels"][DOMAIN_LABEL].clone())
    };
    let is_swapped = |api: &FakeApi| {
        let owns =
            |name, template| owner(api, template) == Some(json!(uid(&domain(api, name).unwrap())));
        owns("a", "b-channel") && owns("b", "a-channel")
    };
    api.until("swapped", is_swapped).await;
    api.until("ready", |api| are_ready(api, &names)).await;
    assert!(api.event_note("FormerTemplateDeleted").is_some());

    api.create(mk_domain_that_wants("a-channel", "c"));
    api.until("waits", |api| reason(api, "c") == "TemplateNameTaken")
        .await;
    replace_spec(&api, "b", "other");
    api.until("ready", |api| is_ready(api, "c")).await;
    controller.stop().await;
}
