//! One reconcile, with an index that lags behind the API server.

use compute_domain_core::ObservedTemplate;
use dra_common::error_chain;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::*;
use crate::api_client::{RawDomain, identify};
use crate::fake_api::{Call, FakeApi, Fault, Resource, Rule};
use crate::fence::Fence;
use crate::testing::mk_worker;
use crate::testing::objects::*;

fn mk_context(api: &FakeApi, fence: Fence) -> Context {
    mk_worker(api, fence, &mut Registry::default()).context
}

/// Puts this domain into the index, as the watch does. Returns its key.
fn observe(context: &Context, domain: &Value) -> Key {
    let object: RawDomain = serde_json::from_value(domain.clone()).unwrap();
    context.index.lock().apply_domain(identify(object).unwrap());
    uid(domain).as_str().into()
}

fn observe_template(context: &Context, template: &Value) {
    let template = serde_json::from_value(template.clone()).unwrap();
    let observed = ObservedTemplate::new(&template);
    context.index.lock().apply_template(observed);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_domain_still_in_the_cache_gets_no_template_and_is_removed() {
    let api = FakeApi::new();
    let context = mk_context(&api, Fence::default());
    let key = observe(&context, &api.create(mk_domain("a")));
    delete_domain(&api, "a");
    context.reconcile(&key, 0).await.unwrap();
    assert_eq!(api.calls(), [Call::AddFinalizer]);
    assert!(context.index.lock().keys().is_empty());
    assert!(nothing_is_left(&api));
}

// req: CD-27
#[tokio::test(start_paused = true)]
async fn a_decision_for_a_domain_does_not_affect_another_one_of_its_name() {
    let api = FakeApi::new();
    let context = mk_context(&api, Fence::default());
    let mut finalized = mk_domain("a");
    let before = observe(&context, &api.create(finalized.clone()));
    delete_domain(&api, "a");
    let another = api.create(mk_domain("a"));
    context.reconcile(&before, 0).await.unwrap();
    assert_eq!(api.calls(), [Call::AddFinalizer, Call::GetDomain]);
    assert_eq!(domain(&api, "a").unwrap(), another);

    // The same with finalizer and template, so that only the status is missing.
    delete_domain(&api, "a");
    finalized["metadata"]["finalizers"] = json!(["resource.nvidia.com/computeDomain"]);
    let finalized = api.create(finalized);
    let before = observe(&context, &finalized);
    let template = api.create(mk_template_of_go("a-channel", &before));
    observe_template(&context, &template);
    strip_finalizers(&api, Resource::Domains, "a");
    delete_domain(&api, "a");
    let another = api.create(mk_domain("a"));
    api.forget_requests();
    context.reconcile(&before, 0).await.unwrap();
    assert_eq!(api.calls()[..2], [Call::WriteStatus, Call::GetDomain]);
    assert_eq!(domain(&api, "a").unwrap(), another);
}

#[tokio::test(start_paused = true)]
async fn a_domain_deleted_during_a_reconcile_is_released_by_the_same_reconcile() {
    let api = FakeApi::new();
    let context = mk_context(&api, Fence::default());
    let key = observe(&context, &api.create(mk_domain("a")));
    api.break_with(Rule::once(Call::WriteStatus, Fault::InternalError));
    context.reconcile(&key, 0).await.unwrap_err();
    delete_domain(&api, "a");
    api.forget_requests();
    context.reconcile(&key, 1).await.unwrap();
    assert_eq!(
        api.calls(),
        [
            Call::WriteStatus,
            Call::DeleteTemplate,
            Call::ReleaseTemplate,
            Call::RemoveFinalizer
        ]
    );
    assert!(nothing_is_left(&api));
}

#[tokio::test(start_paused = true)]
async fn a_template_that_vanishes_meanwhile_does_not_stop_the_deletion() {
    let api = FakeApi::new();
    let context = mk_context(&api, Fence::default());
    let key = observe(&context, &api.create(mk_domain("a")));
    context.reconcile(&key, 0).await.unwrap();
    delete_domain(&api, "a");
    observe(&context, &domain(&api, "a").unwrap());
    strip_finalizers(&api, Resource::Templates, "a-channel");
    api.delete(Resource::Templates, TEAM, "a-channel");
    api.forget_requests();
    context.reconcile(&key, 0).await.unwrap();
    assert_eq!(api.calls(), [Call::DeleteTemplate, Call::RemoveFinalizer]);
    assert!(nothing_is_left(&api));
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_failed_request_names_the_request() {
    let api = FakeApi::new();
    let context = mk_context(&api, Fence::default());
    let key = observe(&context, &api.create(mk_domain("a")));
    for (fault, code, text) in [
        (
            Fault::InternalError,
            "500",
            "cannot change the finalizers of the ComputeDomain: the API server responded with 500: etcdserver: request timed out",
        ),
        (
            Fault::RequestLost,
            "no-answer",
            "cannot change the finalizers of the ComputeDomain: ServiceError: connection reset",
        ),
        (
            Fault::NoAnswer,
            "no-answer",
            "cannot change the finalizers of the ComputeDomain: ServiceError: no response from the API server within 10s",
        ),
    ] {
        api.break_with(Rule::once(Call::AddFinalizer, fault));
        let error = context.reconcile(&key, 0).await.unwrap_err();
        assert_eq!(error.code(), code);
        assert!(
            error_chain(&error).starts_with(text),
            "{}",
            error_chain(&error)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_gives_up_if_another_client_reverts_its_changes() {
    let api = FakeApi::new();
    api.change_when_stored(Resource::Domains, |domain| {
        domain["metadata"]["finalizers"] = json!([]);
    });
    let context = mk_context(&api, Fence::default());
    let key = observe(&context, &api.create(mk_domain("a")));
    let error = context.reconcile(&key, 0).await.unwrap_err();
    assert_eq!(error.code(), "too-many-requests");
    assert_eq!(api.calls(), [Call::AddFinalizer; MAX_REQUESTS]);
}

// req: CD-26
#[tokio::test(start_paused = true)]
async fn nothing_is_written_once_the_fence_is_closed() {
    let api = FakeApi::new();
    let fence = Fence::default();
    let context = mk_context(&api, fence.clone());
    let key = observe(&context, &api.create(mk_domain("a")));
    fence.close();
    let error = context.reconcile(&key, 0).await.unwrap_err();
    assert_eq!(error.code(), "fenced");
    assert_eq!(api.calls(), []);
    fence.open_until(Instant::now() + Duration::from_secs(15));
    context.reconcile(&key, 0).await.unwrap();
    assert!(is_ready(&api, "a"));
}
