//! Failing watches, and unexpected objects in them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fake_api::{Call, FakeApi, Fault, Resource, Rule};
use crate::testing::Controller;
use crate::testing::logs::Logs;
use crate::testing::objects::*;

// req: CD-15
#[tokio::test(start_paused = true)]
async fn a_domain_that_does_not_match_the_crd_is_reported_blocks_nothing_and_can_be_deleted() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    controller.settle().await;
    let mut odd = mk_domain("odd");
    odd["spec"] = json!({ "channel": "none" });
    api.create(odd);
    api.create(mk_domain("a"));
    api.until("the other is ready", |api| is_ready(api, "a"))
        .await;
    api.until("reported", |api| api.event_note("Unreadable").is_some())
        .await;
    let of_odd = |api: &FakeApi| api.requests().iter().filter(|it| it.name == "odd").count();
    api.after(Duration::from_secs(60)).await;
    assert_eq!(of_odd(&api), 0, "nothing is written to it");
    delete_domain(&api, "odd");
    api.until("gone", |api| domain(api, "odd").is_none()).await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_domain_without_a_usable_uid_is_ignored_and_blocks_nothing() {
    let logs = Logs::start();
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    controller.settle().await;
    let mut deleted = mk_domain("odd");
    deleted["metadata"]["finalizers"] = json!(["example.com/kept"]);
    api.create(deleted);
    api.until("ready", |api| is_ready(api, "odd")).await;
    api.edit(Resource::Domains, TEAM, "odd", |it| {
        it["metadata"]["uid"] = json!("not a label");
    });
    api.create(mk_domain("a"));
    api.until("the other is ready", |api| is_ready(api, "a"))
        .await;
    assert_eq!(logs.with("ignored an object from the watch").len(), 1);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_list_is_retried_with_back_off() {
    let api = FakeApi::new();
    api.break_with(Rule::always(Call::ListDomains, Fault::Forbidden("no")));
    let controller = Controller::start(&api);
    api.after(Duration::from_secs(60)).await;
    let times = api.times(Call::ListDomains);
    let pauses = times.windows(2).map(|pair| pair[1] - pair[0]);
    let pauses: Vec<_> = pauses.collect();
    assert!(
        pauses[0] < Duration::from_secs(2)
            && pauses[3..].iter().all(|it| *it >= Duration::from_secs(2)),
        "{pauses:?}"
    );
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_template_is_left_alone_until_its_domain_is_deleted() {
    let api = FakeApi::new();
    let uid = uid(&api.create(mk_domain("a")));
    let mut odd = mk_template_of_go("a-channel", &uid);
    odd["spec"] = json!(7);
    api.create(odd);
    let controller = Controller::start(&api);
    api.until("ready", |api| is_ready(api, "a")).await;
    assert_eq!(template(&api, "a").unwrap()["spec"], 7);
    delete_domain(&api, "a");
    api.until("gone", nothing_is_left).await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn deletions_during_a_lost_watch_history_are_noticed() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    api.create(mk_domain("a"));
    api.create(mk_domain("b"));
    api.until("ready", |api| are_ready(api, &["a", "b"])).await;
    // Without a deletion event of a watch.
    strip_finalizers(&api, Resource::Domains, "a");
    api.break_with(Rule::once(Call::ListDomains, Fault::Unavailable).times(3));
    api.expire_watches();
    delete_domain(&api, "a");
    strip_finalizers(&api, Resource::Templates, "b-channel");
    api.delete(Resource::Templates, TEAM, "b-channel");
    api.until("the template of a is gone", |api| {
        template(api, "a").is_none()
    })
    .await;
    api.until("b has one again", |api| template(api, "b").is_some())
        .await;
    let says = |line: &str| controller.metrics().contains(line);
    assert!(
        says("\nnvidia_dra_compute_domain_info{status=\"Ready\"} 1\n"),
        "{}",
        controller.metrics()
    );
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_fails_later_makes_the_controller_unready_with_the_reason() {
    let logs = Logs::start();
    for (call, condition) in [
        (Call::WatchDomains, "compute-domains"),
        (Call::ListTemplates, "templates"),
        (Call::WatchClaims, "claims"),
    ] {
        let api = FakeApi::new();
        let controller = Controller::start(&api);
        controller.settle().await;
        api.break_with(Rule::always(call, Fault::Forbidden("RBAC: not allowed")));
        api.expire_watches();
        api.until("not ready", |_| !controller.readiness.unmet().is_empty())
            .await;
        api.after(Duration::from_secs(60)).await;
        let unmet = controller.readiness.unmet();
        assert_eq!(unmet.len(), 1, "{unmet:?}");
        assert_eq!(unmet[0].0, condition);
        assert!(unmet[0].1.contains("RBAC: not allowed"), "{unmet:?}");
        api.heal();
        api.until("ready", |_| controller.readiness.unmet().is_empty())
            .await;
        controller.stop().await;
    }
    let lines = logs.with("watch failed; retrying");
    let lines = lines
        .iter()
        .filter(|line| line.contains("RBAC: not allowed"));
    assert_eq!(lines.count(), 3, "once for each");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_created_before_both_domains_and_templates_are_known() {
    let api = FakeApi::new();
    let uid = uid(&api.create(mk_domain("a")));
    api.create(mk_template_of_go("a-channel", &uid));
    api.break_with(Rule::once(Call::ListTemplates, Fault::Unavailable).times(5));
    let controller = Controller::start(&api);
    api.until("ready", |api| is_ready(api, "a")).await;
    assert_eq!(api.count(Call::CreateTemplate), 0);
    controller.stop().await;
}

/// A time that Kubernetes accepts and that cannot be decoded. Every client that may update an object can write it.
const ODD_TIME: &str = "9999-12-31T23:59:59Z";

#[tokio::test(start_paused = true)]
async fn an_undecodable_time_in_managed_fields_stops_no_watch() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    controller.settle().await;
    let odd = |object: &mut Value| {
        for entry in object["metadata"]["managedFields"].as_array_mut().unwrap() {
            entry["time"] = json!(ODD_TIME);
        }
    };
    let other = api.create(mk_domain("odd"));
    api.create(mk_claim("odd", &uid(&other)));
    api.create(mk_foreign_template("foreign"));
    // It waits for a name, so that foreign templates are watched, too.
    api.create(mk_domain_that_wants("foreign", "waits"));
    api.until("ready", |api| is_ready(api, "odd")).await;
    for (resource, name) in [
        (Resource::Domains, "odd"),
        (Resource::Templates, "odd-channel"),
        (Resource::Templates, "foreign"),
        (Resource::Claims, "odd"),
    ] {
        api.edit(resource, TEAM, name, odd);
    }
    // Both by the running watches and by lists.
    for name in ["a", "b"] {
        api.create(mk_domain(name));
        api.until("the other is ready", |api| is_ready(api, name))
            .await;
        api.expire_watches();
    }
    api.delete(Resource::Templates, TEAM, "foreign");
    delete_domain(&api, "odd");
    api.until("gone", |api| domain(api, "odd").is_none()).await;
    api.until("ready", |api| is_ready(api, "waits")).await;
    assert!(template(&api, "odd").is_none());
    let note = api.event_note("ClaimsInUse").unwrap();
    assert!(note.contains("odd"), "{note}");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_status_with_an_undecodable_time_is_written_again() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    api.create(mk_domain("a"));
    api.until("ready", |api| is_ready(api, "a")).await;
    let condition = |api: &FakeApi| domain(api, "a").unwrap()["status"]["conditions"][0].clone();
    api.edit(Resource::Domains, TEAM, "a", |domain| {
        let condition = &mut domain["status"]["conditions"][0];
        condition["lastTransitionTime"] = json!(ODD_TIME);
        condition["reason"] = json!("Forged");
    });
    api.until("written", |api| reason(api, "a") == "Admitted")
        .await;
    assert_ne!(condition(&api)["lastTransitionTime"], ODD_TIME);
    controller.stop().await;
}
