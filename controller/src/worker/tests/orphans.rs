//! Templates without their domain, and copies.

use std::time::Duration;

use compute_domain_api::names::{DOMAIN_LABEL, FINALIZER};
use serde_json::json;

use crate::fake_api::{Call, FakeApi, Fault, Resource, Rule};
use crate::testing::Controller;
use crate::testing::objects::*;

// req: CD-22
#[tokio::test(start_paused = true)]
async fn a_template_whose_domain_was_deleted_without_finalizer_is_deleted_after_a_lookup() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    api.create(mk_domain("a"));
    api.until("ready", |api| is_ready(api, "a")).await;
    controller.stop().await;
    strip_finalizers(&api, Resource::Domains, "a");
    delete_domain(&api, "a");
    api.forget_requests();
    let controller = Controller::start(&api);
    api.until("gone", nothing_is_left).await;
    api.after(Duration::from_secs(60)).await;
    let calls = api.calls().into_iter().filter(|call| !call.is_list());
    assert_eq!(
        calls.collect::<Vec<_>>(),
        [Call::GetDomain, Call::DeleteTemplate, Call::ReleaseTemplate]
    );
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_removed_from_a_live_domain_is_restored() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    api.create(mk_domain("a"));
    api.until("ready", |api| is_ready(api, "a")).await;
    strip_finalizers(&api, Resource::Domains, "a");
    let has_it =
        |api: &FakeApi| domain(api, "a").unwrap()["metadata"]["finalizers"] == json!([FINALIZER]);
    api.until("finalizer", has_it).await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restored_domain_with_a_new_uid_replaces_the_template_of_the_old_one() {
    let api = FakeApi::new();
    api.create(mk_template_of_go("a-channel", "uid-before-the-backup"));
    api.create(mk_domain("a"));
    let controller = Controller::start(&api);
    api.until("ready", |api| is_ready(api, "a")).await;
    let label = &template(&api, "a").unwrap()["metadata"]["labels"][DOMAIN_LABEL];
    assert_eq!(*label, uid(&domain(&api, "a").unwrap()));
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_orphan_stuck_in_deletion_is_released() {
    let api = FakeApi::new();
    api.create(mk_template_of_go("a-channel", "gone"));
    api.delete(Resource::Templates, TEAM, "a-channel");
    let controller = Controller::start(&api);
    api.until("released", nothing_is_left).await;
    controller.stop().await;
}

// req: CD-22
#[tokio::test(start_paused = true)]
async fn a_template_is_kept_if_the_api_server_has_its_domain_but_the_watch_does_not() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    controller.settle().await;
    // The watch of domains hangs with the first one.
    api.break_with(Rule::once(Call::WatchDomains, Fault::StreamHangs));
    api.expire_watches();
    api.until("watched again", |api| {
        api.open_watches(Call::WatchDomains) == 1 && api.count(Call::WatchDomains) == 1
    })
    .await;
    let uid = uid(&api.create(mk_domain("a")));
    api.create(mk_template_of_go("a-channel", &uid));
    api.after(Duration::from_secs(60)).await;
    assert!(api.count(Call::FindDomain) >= 5, "it is looked up");
    assert!(!is_being_deleted(&template(&api, "a").unwrap()));
    api.until("ready", |api| is_ready(api, "a")).await;
    assert_eq!(api.count(Call::DeleteTemplate), 0);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_foreign_template_with_our_labels_is_left_alone() {
    let api = FakeApi::new();
    let mut foreign = mk_foreign_template("mine");
    foreign["metadata"]["labels"] = json!({ DOMAIN_LABEL: "made-up" });
    let before = api.create(foreign);
    let controller = Controller::start(&api);
    controller.settle().await;
    api.after(Duration::from_secs(60)).await;
    assert_eq!(api.get(Resource::Templates, TEAM, "mine").unwrap(), before);
    assert_eq!(api.calls(), []);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn copies_in_another_namespace_delay_nothing_and_are_released_when_deleted() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    let uid = uid(&api.create(mk_domain("a")));
    let copy = mk_template_of_go("a-channel", &uid);
    api.create(in_namespace("elsewhere", copy));
    api.until("ready", |api| is_ready(api, "a")).await;
    let found = || api.get(Resource::Templates, "elsewhere", "a-channel");
    api.after(Duration::from_secs(60)).await;
    assert!(!is_being_deleted(&found().unwrap()));
    api.delete(Resource::Templates, "elsewhere", "a-channel");
    api.until("released", |_| found().is_none()).await;
    assert!(is_ready(&api, "a"));
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_copy_in_another_namespace_outlives_the_domain() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    api.create(mk_domain("a"));
    api.until("ready", |api| is_ready(api, "a")).await;
    let copy = in_namespace("elsewhere", template(&api, "a").unwrap());
    let copy = api.create(copy);
    delete_domain(&api, "a");
    api.until("gone", |api| domain(api, "a").is_none()).await;
    assert_eq!(template(&api, "a"), None);
    api.after(Duration::from_secs(60)).await;
    let found = || api.get(Resource::Templates, "elsewhere", "a-channel");
    assert_eq!(found(), Some(copy));
    api.delete(Resource::Templates, "elsewhere", "a-channel");
    api.until("released", |_| found().is_none()).await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_orphan_kept_by_a_policy_gets_an_event_and_delays_no_other() {
    let api = FakeApi::new();
    let refused = Fault::Forbidden("denied by policy");
    api.break_with(Rule::always(Call::DeleteTemplate, refused).in_namespace("first"));
    let orphan = mk_template_of_go("a-channel", "gone");
    let kept = api.create(in_namespace("first", orphan.clone()));
    api.create(orphan);
    let controller = Controller::start(&api);
    api.until("the other is gone", |api| template(api, "a").is_none())
        .await;
    api.until("named", |api| api.event_note("ReconcileFailed").is_some())
        .await;
    let event = &api.all(Resource::Events)[0];
    assert_eq!(event["regarding"]["uid"], kept["metadata"]["uid"]);
    let note = event["note"].as_str().unwrap();
    assert!(note.contains("denied by policy"), "{note}");
    api.heal();
    api.until("gone", nothing_is_left).await;
    controller.stop().await;
}
