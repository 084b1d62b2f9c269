//! Domains deleted while their claims exist.

use std::time::Duration;

use crate::fake_api::{Call, FakeApi, Resource};
use crate::testing::Controller;
use crate::testing::logs::Logs;
use crate::testing::objects::*;

// req: CD-21
#[tokio::test(start_paused = true)]
async fn deleting_a_domain_in_use_reports_its_claims_and_completes() {
    let logs = Logs::start();
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    controller.settle().await;
    let uid = uid(&api.create(mk_domain("a")));
    api.until("ready", |api| is_ready(api, "a")).await;
    for number in 1..=7 {
        api.create(mk_claim(&format!("pod-{number}"), &uid));
    }
    api.create(mk_claim("of-another", "another-uid"));
    api.create(in_namespace("elsewhere", mk_claim("elsewhere", &uid)));
    api.delete(Resource::Claims, TEAM, "pod-2");
    // Watches may lag by different times.
    api.after(Duration::from_secs(1)).await;
    delete_domain(&api, "a");
    api.until("gone", nothing_is_left).await;
    api.until("the event", |api| api.event_note("ClaimsInUse").is_some())
        .await;
    assert_eq!(
        api.event_note("ClaimsInUse").unwrap(),
        "the ComputeDomain was deleted, but some of its ResourceClaims still exist: pod-1, pod-3, pod-4, pod-5, pod-6 and 1 more; running pods keep their channel, but new pods do not get a channel"
    );
    assert_eq!(logs.with("some of its ResourceClaims still exist").len(), 1);
    assert_eq!(
        api.all(Resource::Claims).len(),
        8,
        "claims belong to the pods"
    );
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn claims_deleted_while_the_watch_was_down_are_not_reported() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    controller.settle().await;
    let uid = uid(&api.create(mk_domain("a")));
    api.create(mk_claim("pod-1", &uid));
    api.until("ready", |api| is_ready(api, "a")).await;
    api.delete(Resource::Claims, TEAM, "pod-1");
    api.expire_watches();
    api.until("all are watched again", |api| {
        api.count(Call::WatchClaims) == 1
    })
    .await;
    delete_domain(&api, "a");
    api.until("gone", nothing_is_left).await;
    assert_eq!(api.event_note("ClaimsInUse"), None);
    controller.stop().await;
}
