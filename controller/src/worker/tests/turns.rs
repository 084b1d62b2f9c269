//! Several domains that wait for one template name: which one gets it, and when.

use std::time::Duration;

use tokio::time::Instant;

use super::names::replace_spec;
use crate::fake_api::{Call, FakeApi, Fault, Resource, Rule};
use crate::testing::objects::*;
use crate::testing::{Controller, assert_within};

/// Less than the interval at which each of them reads the name.
const AT_ONCE: Duration = Duration::from_millis(100);

/// Makes these domains wait for the name `shared`, in this order.
async fn waiting(api: &FakeApi, names: &[impl AsRef<str>]) -> Controller {
    api.create(mk_foreign_template("shared"));
    let controller = Controller::start(api);
    controller.settle().await;
    for name in names {
        let name = name.as_ref();
        api.create(mk_domain_that_wants("shared", name));
        api.until("it waits", |api| reason(api, name) == "TemplateNameTaken")
            .await;
    }
    api.until("their watch", |api| {
        api.open_watches(Call::WatchOtherTemplates) == 1
    })
    .await;
    // By now, each reads the name once a minute.
    api.after(Duration::from_secs(300)).await;
    api.forget_requests();
    controller
}

/// Deletes the template. Returns the time.
fn free_the_name(api: &FakeApi) -> Instant {
    api.delete(Resource::Templates, TEAM, "shared");
    Instant::now()
}

#[track_caller]
fn assert_only_ready(api: &FakeApi, names: &[impl AsRef<str>], ready: &str) {
    let names = names.iter().map(AsRef::as_ref);
    let found: Vec<_> = names.filter(|name| is_ready(api, name)).collect();
    assert_eq!(found, [ready]);
}

#[tokio::test(start_paused = true)]
async fn a_free_name_goes_to_the_first_of_fifty_waiters_without_requests_of_the_others() {
    let api = FakeApi::new();
    let names = mk_names(50);
    let controller = waiting(&api, &names).await;
    let freed = free_the_name(&api);
    api.until("ready", |api| is_ready(api, "d0")).await;
    assert_within(AT_ONCE, freed);
    api.after(AT_ONCE).await;
    assert_only_ready(&api, &names, "d0");
    // Three of the first, and perhaps those of a domain whose minute ends now.
    let calls = api.calls();
    assert!(calls.len() <= 10, "{calls:?}");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_released_name_goes_to_the_longest_waiter() {
    let api = FakeApi::new();
    let names = mk_names(6);
    let controller = waiting(&api, &names).await;
    let mut freed = free_the_name(&api);
    for name in &names {
        api.until("ready", |api| is_ready(api, name)).await;
        assert_within(AT_ONCE, freed);
        delete_domain(&api, name);
        freed = Instant::now();
    }
    api.until("gone", nothing_is_left).await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_name_whose_first_waiter_is_deleted_goes_to_the_second_at_once() {
    let api = FakeApi::new();
    let names = ["a", "b", "c"];
    let controller = waiting(&api, &names).await;
    let freed = free_the_name(&api);
    delete_domain(&api, "a");
    api.until("ready", |api| is_ready(api, "b")).await;
    assert_within(AT_ONCE, freed);
    assert!(domain(&api, "a").is_none());
    assert_only_ready(&api, &names, "b");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_its_first_waiter_no_longer_wants_goes_to_the_second_at_once() {
    let api = FakeApi::new();
    let controller = waiting(&api, &["a", "b"]).await;
    let freed = free_the_name(&api);
    replace_spec(&api, "a", "other");
    api.until("ready", |api| are_ready(api, &["a", "b"])).await;
    assert_within(AT_ONCE, freed);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_creation_fails_passes_the_name_on_at_once() {
    let refused = Fault::Forbidden("exceeded quota");
    for fault in [refused, Fault::InternalError, Fault::RequestLost] {
        let api = FakeApi::new();
        let names = mk_names(4);
        let controller = waiting(&api, &names).await;
        api.break_with(Rule::once(Call::CreateTemplate, fault).times(3));
        let freed = free_the_name(&api);
        api.until("ready", |api| is_ready(api, "d3")).await;
        assert_within(AT_ONCE, freed);
        assert_only_ready(&api, &names, "d3");
        controller.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_in_back_off_does_not_delay_the_next() {
    let api = FakeApi::new();
    let controller = waiting(&api, &["a", "b", "c"]).await;
    api.break_with(Rule::once(Call::CreateTemplate, Fault::InternalError));
    free_the_name(&api);
    api.until("ready", |api| is_ready(api, "b")).await;
    // The first is in back-off, and has still waited longest.
    delete_domain(&api, "b");
    let freed = Instant::now();
    api.until("ready", |api| is_ready(api, "c")).await;
    assert_within(AT_ONCE, freed);
    assert_eq!(reason(&api, "a"), "TemplateNameTaken");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_name_taken_by_another_client_goes_to_the_longest_waiter_later() {
    let api = FakeApi::new();
    let names = ["a", "b"];
    let controller = waiting(&api, &names).await;
    free_the_name(&api);
    api.create(mk_foreign_template("shared"));
    api.after(AT_ONCE).await;
    assert_eq!(api.count(Call::CreateTemplate), 0);
    let freed = free_the_name(&api);
    api.until("ready", |api| is_ready(api, "a")).await;
    assert_within(AT_ONCE, freed);
    assert_only_ready(&api, &names, "a");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_becomes_free_while_the_watch_of_templates_is_down_is_found_when_it_is_up() {
    let api = FakeApi::new();
    let names = ["a", "b"];
    let controller = waiting(&api, &names).await;
    free_the_name(&api);
    api.until("ready", |api| is_ready(api, "a")).await;
    // By now, the other one reads the name once a minute, and the other watches are up.
    api.after(Duration::from_secs(120)).await;
    let away = Rule::once(Call::ListTemplates, Fault::Unavailable).times(3);
    api.break_with(away);
    api.expire_watches();
    api.after(Duration::from_millis(100)).await;
    delete_domain(&api, "a");
    let freed = Instant::now();
    api.until("ready", |api| is_ready(api, "b")).await;
    // After four pauses: 1, 2, 4 and 4 s at most.
    assert_within(Duration::from_secs(12), freed);
    controller.stop().await;
}
