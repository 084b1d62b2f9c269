//! Blocked deletions.

use std::time::Duration;

use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::time::Instant;

use crate::fake_api::{Call, FakeApi, Fault, Resource, Rule};
use crate::fence::Fence;
use crate::testing::objects::*;
use crate::testing::{Controller, assert_within, mk_worker};
use crate::worker::Run;

#[tokio::test(start_paused = true)]
async fn a_deletion_does_not_wait_for_the_pause_after_failures() {
    let api = FakeApi::new();
    api.break_with(Rule::always(Call::WriteStatus, Fault::InternalError));
    let controller = Controller::start(&api);
    api.create(mk_domain("a"));
    // By now, the pause is a minute.
    api.until("many failures", |api| api.count(Call::WriteStatus) == 10)
        .await;
    let deleted = Instant::now();
    delete_domain(&api, "a");
    api.until("gone", nothing_is_left).await;
    assert_within(Duration::from_secs(1), deleted);
    let note = api.event_note("ReconcileFailed").unwrap();
    assert!(
        note.contains("cannot write the status of the ComputeDomain: "),
        "{note}"
    );
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_template_held_by_other_finalizers_is_reported_and_the_domain_follows_it() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    api.create(mk_domain("a"));
    api.until("ready", |api| is_ready(api, "a")).await;
    hold_template(&api, "a");
    delete_domain(&api, "a");
    api.until("held", |api| reason(api, "a") == "TemplateHeld")
        .await;
    api.forget_requests();
    api.after(Duration::from_secs(600)).await;
    assert_eq!(api.calls(), [], "it only waits");
    strip_finalizers(&api, Resource::Templates, "a-channel");
    let released = Instant::now();
    api.until("gone", nothing_is_left).await;
    assert_within(Duration::from_secs(1), released);
    controller.stop().await;
}

// req: CD-19
#[tokio::test(start_paused = true)]
async fn only_our_finalizer_is_removed_from_a_domain() {
    let api = FakeApi::new();
    let mut owned = mk_domain("a");
    owned["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    api.create(owned);
    let controller = Controller::start(&api);
    api.until("ready", |api| is_ready(api, "a")).await;
    delete_domain(&api, "a");
    api.until("the template is gone", |api| template(api, "a").is_none())
        .await;
    let only_theirs = |api: &FakeApi| {
        domain(api, "a").unwrap()["metadata"]["finalizers"] == json!(["foregroundDeletion"])
    };
    api.until("released", only_theirs).await;
    controller.stop().await;
}

// req: CD-20
#[tokio::test(start_paused = true)]
async fn no_state_of_a_deleted_domain_is_kept() {
    let api = FakeApi::new();
    for (call, fault) in [
        (Call::AddFinalizer, Fault::InternalError),
        (Call::CreateTemplate, Fault::Forbidden("quota")),
        (Call::DeleteTemplate, Fault::Unavailable),
        (Call::RemoveFinalizer, Fault::Busy),
    ] {
        api.break_with(Rule::once(call, fault).times(3));
    }
    let worker = mk_worker(&api, Fence::default(), &mut Registry::default());
    let mut run = Run::new(&worker);
    let key = uid(&api.create(mk_domain("a"))).as_str().into();
    tokio::select! {
        () = run.until_shutdown() => {}
        () = async {
            api.until("ready", |api| is_ready(api, "a")).await;
            delete_domain(&api, "a");
            api.until("gone", nothing_is_left).await;
            // The watches have delivered by then.
            api.after(Duration::from_secs(1)).await;
        } => {}
    }
    let later = Instant::now() + Duration::from_secs(86_400);
    assert_eq!(run.queue.pop(later), None);
    assert_eq!(run.backoff.failures(&key), 0);
    assert_eq!(worker.context.refusals.retry_at(&key), None);
    assert!(worker.context.index.lock().keys().is_empty());
}

#[tokio::test(start_paused = true)]
async fn deleting_a_copy_does_not_hide_that_the_template_lost_its_label() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    api.create(mk_domain("a"));
    api.until("ready", |api| is_ready(api, "a")).await;
    controller.stop().await;
    let mut copy = template(&api, "a").unwrap();
    copy["metadata"]["name"] = json!("copy");
    api.create(copy);
    strip_labels(&api, "a");
    delete_domain(&api, "a");
    let controller = Controller::start(&api);
    api.until("gone", nothing_is_left).await;
    // By the search for lost labels, and for the domain.
    assert!(api.count(Call::GetTemplate) <= 3);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_refused_by_a_policy_is_reported_and_continues_when_admitted() {
    for call in [Call::DeleteTemplate, Call::ReleaseTemplate] {
        let api = FakeApi::new();
        let controller = Controller::start(&api);
        api.create(mk_domain("a"));
        api.until("ready", |api| is_ready(api, "a")).await;
        api.break_with(Rule::always(
            call,
            Fault::Forbidden("no deletions on Friday"),
        ));
        delete_domain(&api, "a");
        api.until("named", |api| reason(api, "a") == "TemplateKept")
            .await;
        let message = message(&api, "a");
        assert!(message.contains("no deletions on Friday"), "{message}");
        api.forget_requests();
        api.after(Duration::from_secs(600)).await;
        let attempts = api.count(call);
        assert!((10..30).contains(&attempts), "{attempts}");
        assert_eq!(api.writes(), attempts, "and nothing else");
        api.heal();
        api.until("gone", nothing_is_left).await;
        controller.stop().await;
    }
}
