//! Templates that the API server rejects.

use std::time::Duration;

use tokio::time::Instant;

use crate::fake_api::{Call, FakeApi, Fault, Rule};
use crate::testing::objects::*;
use crate::testing::{Controller, assert_within};

const QUOTA: &str =
    "exceeded quota: templates, used: count/resourceclaimtemplates.resource.k8s.io=10";

/// The pauses between the attempts to create a template, in seconds.
fn pauses(api: &FakeApi) -> Vec<f64> {
    let times = api.times(Call::CreateTemplate);
    let pause = |pair: &[Instant]| (pair[1] - pair[0]).as_secs_f64();
    times.windows(2).map(pause).collect()
}

// req: CD-14
#[tokio::test(start_paused = true)]
async fn a_quota_is_reported_with_the_servers_message_and_retried_with_back_off() {
    let api = FakeApi::new();
    api.break_with(Rule::always(Call::CreateTemplate, Fault::Forbidden(QUOTA)));
    let controller = Controller::start(&api);
    api.create(mk_domain("a"));
    api.until("rejected", |api| reason(api, "a") == "TemplateRefused")
        .await;
    assert!(message(&api, "a").contains(QUOTA), "{}", message(&api, "a"));
    api.after(Duration::from_secs(600)).await;
    let note = api.event_note("TemplateRefused").unwrap();
    assert!(note.contains(QUOTA), "{note}");
    assert_eq!(api.count(Call::WriteStatus), 1, "already reported");

    let pauses = pauses(&api);
    let expected = [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0];
    for (pause, expected) in pauses.iter().zip(expected) {
        let range = expected * 0.75..=expected * 1.25;
        assert!(range.contains(pause), "{pauses:?}");
    }
    assert!(pauses.len() >= expected.len(), "{pauses:?}");
    controller.stop().await;
}

// req: CD-14
#[tokio::test(start_paused = true)]
async fn a_quota_that_is_raised_lets_the_domain_become_ready_within_the_longest_pause() {
    let api = FakeApi::new();
    api.break_with(Rule::always(Call::CreateTemplate, Fault::Forbidden(QUOTA)));
    let controller = Controller::start(&api);
    api.create(mk_domain("a"));
    api.after(Duration::from_secs(300)).await;
    assert_eq!(reason(&api, "a"), "TemplateRefused");
    api.heal();
    let healed = Instant::now();
    api.until("ready", |api| is_ready(api, "a")).await;
    assert_within(Duration::from_secs(75), healed);
    assert_eq!(reason(&api, "a"), "Admitted");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_webhook_is_reported_only_if_it_stays_unavailable() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    api.break_with(Rule::once(Call::CreateTemplate, Fault::InternalError).times(2));
    api.create(mk_domain("short"));
    api.until("ready", |api| is_ready(api, "short")).await;
    assert_eq!(api.event_note("TemplateRefused"), None);

    api.break_with(Rule::always(Call::CreateTemplate, Fault::InternalError));
    api.create(mk_domain("long"));
    api.until("rejected", |api| reason(api, "long") == "TemplateRefused")
        .await;
    assert!(message(&api, "long").contains("etcdserver: request timed out"));
    api.heal();
    api.until("ready", |api| is_ready(api, "long")).await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_domain_that_is_refused_can_be_deleted_at_once() {
    let api = FakeApi::new();
    api.break_with(Rule::always(Call::CreateTemplate, Fault::Forbidden(QUOTA)));
    let controller = Controller::start(&api);
    api.create(mk_domain("a"));
    api.after(Duration::from_secs(300)).await;
    let deleted = Instant::now();
    delete_domain(&api, "a");
    api.until("gone", nothing_is_left).await;
    assert_within(Duration::from_secs(1), deleted);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn in_a_terminating_namespace_nothing_is_reported() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    api.create(mk_domain("a"));
    api.terminate(TEAM);
    api.after(Duration::from_secs(60)).await;
    assert_eq!(reason(&api, "a"), "");
    assert_eq!(api.event_reasons(), [""; 0]);
    assert!(
        api.count(Call::CreateTemplate) <= 15,
        "{}",
        api.count(Call::CreateTemplate)
    );
    assert!(
        !controller
            .metrics()
            .contains("imex_dra_reconcile_errors_total{"),
        "{}",
        controller.metrics()
    );
    delete_domain(&api, "a");
    api.until("gone", nothing_is_left).await;
    controller.stop().await;
}
