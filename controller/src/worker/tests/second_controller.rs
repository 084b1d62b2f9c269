//! The Go driver's controller, running beside ours by mistake.

use serde_json::json;

use crate::api_client::CONTROLLER_NAME;
use crate::fake_api::{FakeApi, Resource};
use crate::testing::Controller;
use crate::testing::objects::*;

#[tokio::test(start_paused = true)]
async fn a_second_controller_is_reported_and_our_own_writes_are_not() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    controller.settle().await;
    api.create(mk_domain("a"));
    api.until("ready", |api| is_ready(api, "a")).await;
    api.until("its event", |api| api.event_note("Admitted").is_some())
        .await;
    assert_eq!(api.event_reasons(), ["Admitted"]);
    api.edit_as(Resource::Domains, TEAM, "a", CONTROLLER_NAME, |domain| {
        domain["metadata"]["annotations"] = json!({ "written": "by another" });
    });
    api.until("named", |api| api.event_note("SecondController").is_some())
        .await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn writes_of_the_go_driver_before_our_start_are_not_reported() {
    let api = FakeApi::new();
    api.create(mk_domain("a"));
    api.edit_as(Resource::Domains, TEAM, "a", CONTROLLER_NAME, |domain| {
        domain["metadata"]["annotations"] = json!({ "written": "by another" });
    });
    let controller = Controller::start(&api);
    api.until("its event", |api| api.event_note("Admitted").is_some())
        .await;
    assert_eq!(api.event_note("SecondController"), None);
    controller.stop().await;
}
