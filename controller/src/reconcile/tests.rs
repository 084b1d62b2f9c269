use kube::core::DeserializeGuard;
use serde_json::{Value, json};

use super::*;
use crate::fake_api::{Exchange, FakeApi, expect, expect_and_fail};

const UID: &str = "6c2dc0c8-9c15-4a0d-a3ce-0e3ac5a4c0a1";
const FINALIZER: &str = "resource.nvidia.com/computeDomain";

const GET_DOMAIN: &str =
    "GET /apis/resource.nvidia.com/v1beta1/namespaces/team-1/computedomains/train-a";
const PATCH_DOMAIN: &str =
    "PATCH /apis/resource.nvidia.com/v1beta1/namespaces/team-1/computedomains/train-a?";
const PATCH_STATUS: &str = "PATCH /apis/resource.nvidia.com/v1beta1/namespaces/team-1/computedomains/train-a/status?&force=true&fieldManager=compute-domain-controller";
const LIST_TEMPLATES: &str = "GET /apis/resource.k8s.io/v1/resourceclaimtemplates?&labelSelector=resource.nvidia.com%2FcomputeDomain%3D6c2dc0c8-9c15-4a0d-a3ce-0e3ac5a4c0a1";
const GET_TEMPLATE: &str =
    "GET /apis/resource.k8s.io/v1/namespaces/team-1/resourceclaimtemplates/train-a-channel";
const CREATE_TEMPLATE: &str = "POST /apis/resource.k8s.io/v1/namespaces/team-1/resourceclaimtemplates?&fieldManager=compute-domain-controller";
const DELETE_TEMPLATE: &str =
    "DELETE /apis/resource.k8s.io/v1/namespaces/team-1/resourceclaimtemplates/train-a-channel?";
const PATCH_TEMPLATE: &str =
    "PATCH /apis/resource.k8s.io/v1/namespaces/team-1/resourceclaimtemplates/train-a-channel?";
const POST_EVENT: &str = "POST /apis/events.k8s.io/v1/namespaces/team-1/events?";

// === objects as the API server answers ===

fn merge(mut into: Value, patch: Value) -> Value {
    match (&mut into, patch) {
        (Value::Object(fields), Value::Object(patch)) => {
            for (key, value) in patch {
                let field = fields.remove(&key).unwrap_or_default();
                fields.insert(key, merge(field, value));
            }
            into
        }
        (_, patch) => patch,
    }
}

fn mk_domain(patch: Value) -> Value {
    merge(
        json!({
            "apiVersion": "resource.nvidia.com/v1beta1",
            "kind": "ComputeDomain",
            "metadata": {
                "name": "train-a", "namespace": "team-1", "uid": UID,
                "generation": 1, "resourceVersion": "1",
            },
            "spec": { "numNodes": 0, "channel": {
                "allocationMode": "Single",
                "resourceClaimTemplate": { "name": "train-a-channel" },
            } },
        }),
        patch,
    )
}

fn finalized() -> Value {
    mk_domain(json!({ "metadata": { "finalizers": [FINALIZER] } }))
}

fn with_status(domain: Value, status: &str, reason: &str, message: &str) -> Value {
    let condition = json!({
        "type": "Ready",
        "status": if status == "Ready" { "True" } else { "False" },
        "reason": reason,
        "message": message,
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    });
    merge(
        domain,
        json!({ "status": { "status": status, "conditions": [condition] } }),
    )
}

fn admitted() -> Value {
    let message = "the ResourceClaimTemplate for the workload exists; running IMEX on the nodes is up to the operator";
    with_status(finalized(), "Ready", "Admitted", message)
}

fn deleted() -> Value {
    merge(
        admitted(),
        json!({ "metadata": { "deletionTimestamp": "2026-01-02T03:04:05Z" } }),
    )
}

fn desired_template() -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {
            "name": "train-a-channel",
            "namespace": "team-1",
            "finalizers": [FINALIZER],
            "labels": {
                "resource.nvidia.com/computeDomain": UID,
                "resource.nvidia.com/computeDomainTarget": "Workload",
            },
        },
        "spec": { "spec": { "devices": {
            "requests": [{
                "name": "channel",
                "exactly": { "deviceClassName": "compute-domain-default-channel.nvidia.com" },
            }],
            "config": [{
                "requests": ["channel"],
                "opaque": {
                    "driver": "compute-domain.nvidia.com",
                    "parameters": {
                        "apiVersion": "resource.nvidia.com/v1beta1",
                        "kind": "ComputeDomainChannelConfig",
                        "domainID": UID,
                        "allocationMode": "Single",
                    },
                },
            }],
        } } },
    })
}

fn template() -> Value {
    merge(
        desired_template(),
        json!({ "metadata": { "uid": "template-uid" } }),
    )
}

fn terminating() -> Value {
    merge(
        template(),
        json!({ "metadata": { "deletionTimestamp": "2026-01-02T03:04:05Z" } }),
    )
}

fn list(items: &[Value]) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplateList",
        "metadata": {}, "items": items,
    })
}

fn event() -> Exchange {
    expect(POST_EVENT, json!({ "metadata": {}, "eventTime": null }))
}

fn removal(uid: &str) -> Value {
    json!([
        { "op": "test", "path": "/metadata/uid", "value": uid },
        { "op": "test", "path": "/metadata/finalizers/0", "value": FINALIZER },
        { "op": "remove", "path": "/metadata/finalizers/0" },
    ])
}

fn mk_context(api: &FakeApi) -> Arc<Context> {
    let events = Events::new(api.client(), "compute-domain-controller", "pod-1");
    Arc::new(Context::new(ApiClient::new(api.client()), events))
}

fn mk_object() -> Arc<RawDomain> {
    let domain = serde_json::from_value(mk_domain(json!({}))).unwrap();
    Arc::new(DeserializeGuard(Ok(domain)))
}

/// One reconcile that makes exactly the requests of the script.
async fn reconcile_with(
    script: impl IntoIterator<Item = Exchange>,
) -> Result<Action, ReconcileError> {
    let api = FakeApi::new(script);
    let outcome = reconcile(mk_object(), mk_context(&api)).await;
    api.events_written().await;
    api.assert_done();
    outcome
}

// === reconciles ===

#[tokio::test]
async fn a_new_domain_gets_finalizer_template_status_and_event_in_one_reconcile() {
    let action = reconcile_with([
        expect(GET_DOMAIN, mk_domain(json!({}))),
        expect(LIST_TEMPLATES, list(&[])),
        expect_and_fail(GET_TEMPLATE, 404, "NotFound"),
        expect(PATCH_DOMAIN, finalized()).with_body(json!([
            { "op": "test", "path": "/metadata/uid", "value": UID },
            { "op": "test", "path": "/metadata/finalizers", "value": null },
            { "op": "add", "path": "/metadata/finalizers", "value": [FINALIZER] },
        ])),
        expect(CREATE_TEMPLATE, template()).with_body(desired_template()),
        expect(PATCH_STATUS, admitted()),
        event(),
    ])
    .await;
    assert_eq!(action.unwrap(), Action::await_change());
}

#[tokio::test]
async fn a_second_reconcile_writes_nothing() {
    let action = reconcile_with([
        expect(GET_DOMAIN, admitted()),
        expect(LIST_TEMPLATES, list(&[template()])),
    ])
    .await;
    assert_eq!(action.unwrap(), Action::await_change());
}

#[tokio::test]
async fn a_reconcile_that_was_killed_half_way_is_completed_by_the_next() {
    let action = reconcile_with([
        expect(GET_DOMAIN, finalized()),
        expect(LIST_TEMPLATES, list(&[template()])),
        expect(PATCH_STATUS, admitted()),
        event(),
    ])
    .await;
    assert_eq!(action.unwrap(), Action::await_change());
}

#[tokio::test]
async fn a_deleted_domain_loses_its_finalizer_after_its_template_is_gone() {
    let action = reconcile_with([
        expect(GET_DOMAIN, deleted()),
        expect(LIST_TEMPLATES, list(&[template()])),
        expect(DELETE_TEMPLATE, terminating())
            .with_body(json!({ "preconditions": { "uid": "template-uid" } })),
        expect(LIST_TEMPLATES, list(&[terminating()])),
        expect(PATCH_TEMPLATE, terminating()).with_body(removal("template-uid")),
        expect(LIST_TEMPLATES, list(&[])),
        expect(
            PATCH_DOMAIN,
            merge(deleted(), json!({ "metadata": { "finalizers": null } })),
        )
        .with_body(removal(UID)),
    ])
    .await;
    assert_eq!(action.unwrap(), Action::await_change());
}

#[tokio::test]
async fn a_template_that_vanishes_meanwhile_does_not_stop_the_deletion() {
    let action = reconcile_with([
        expect(GET_DOMAIN, deleted()),
        expect(LIST_TEMPLATES, list(&[template()])),
        expect_and_fail(DELETE_TEMPLATE, 404, "NotFound"),
        expect(LIST_TEMPLATES, list(&[])),
        expect(
            PATCH_DOMAIN,
            merge(deleted(), json!({ "metadata": { "finalizers": null } })),
        ),
    ])
    .await;
    assert_eq!(action.unwrap(), Action::await_change());
}

#[tokio::test]
async fn a_domain_that_is_gone_but_still_cached_gets_no_template_again() {
    let action = reconcile_with([expect_and_fail(GET_DOMAIN, 404, "NotFound")]).await;
    assert_eq!(action.unwrap(), Action::await_change());
}

#[tokio::test]
async fn a_template_name_taken_by_somebody_else_is_rejected_without_a_takeover() {
    let foreign = merge(
        template(),
        json!({ "metadata": { "labels": null, "finalizers": null } }),
    );
    let message = "ResourceClaimTemplate \"train-a-channel\" already exists and belongs to no ComputeDomain; delete that ResourceClaimTemplate, or create the ComputeDomain again with another spec.channel.resourceClaimTemplate.name";
    let api = FakeApi::new([
        expect(GET_DOMAIN, mk_domain(json!({}))),
        expect(LIST_TEMPLATES, list(&[])),
        expect(GET_TEMPLATE, foreign),
        expect(
            PATCH_STATUS,
            with_status(
                mk_domain(json!({})),
                "NotReady",
                "TemplateNameTaken",
                message,
            ),
        ),
        event(),
    ]);
    let action = reconcile(mk_object(), mk_context(&api)).await.unwrap();
    api.events_written().await;
    api.assert_done();
    assert_eq!(action, Action::requeue(REQUEUE_UNWATCHED));
}

#[tokio::test]
async fn an_invalid_template_name_is_rejected_without_a_request_for_it() {
    let bad = mk_domain(json!({ "spec": { "channel": {
        "resourceClaimTemplate": { "name": "A\nnamespace: kube-system" },
    } } }));
    let message = "\"A\\nnamespace: kube-system\" is not a valid name of a ResourceClaimTemplate: it contains 'A'; delete it and create one whose spec.channel.resourceClaimTemplate.name has only lower-case letters, digits, '-' and '.'";
    let action = reconcile_with([
        expect(GET_DOMAIN, bad.clone()),
        expect(LIST_TEMPLATES, list(&[])),
        expect(
            PATCH_STATUS,
            with_status(bad, "NotReady", "InvalidTemplateName", message),
        ),
        event(),
    ])
    .await;
    assert_eq!(action.unwrap(), Action::await_change());
}

#[tokio::test]
async fn a_domain_that_does_not_match_the_crd_is_rejected_and_can_be_deleted() {
    let odd = mk_domain(json!({ "spec": { "channel": "none" } }));
    let action = reconcile_with([
        expect(GET_DOMAIN, odd.clone()),
        expect(LIST_TEMPLATES, list(&[])),
        event(),
    ])
    .await;
    assert_eq!(action.unwrap(), Action::await_change());

    let odd = merge(
        odd,
        json!({ "metadata": {
        "finalizers": [FINALIZER], "deletionTimestamp": "2026-01-02T03:04:05Z",
    } }),
    );
    let action = reconcile_with([
        expect(GET_DOMAIN, odd.clone()),
        expect(LIST_TEMPLATES, list(&[])),
        expect(
            PATCH_DOMAIN,
            merge(odd, json!({ "metadata": { "finalizers": null } })),
        )
        .with_body(removal(UID)),
    ])
    .await;
    assert_eq!(action.unwrap(), Action::await_change());
}

#[tokio::test]
async fn objects_of_the_driver_managed_mode_are_reported_and_never_changed() {
    let daemon = merge(
        template(),
        json!({ "metadata": {
            "name": "computedomain-daemon-x", "namespace": "nvidia",
            "labels": { "resource.nvidia.com/computeDomainTarget": "Daemon" },
        } }),
    );
    let message = "the ComputeDomain is still driver-managed: ResourceClaimTemplate nvidia/computedomain-daemon-x exists; switch back to the driver-managed mode, delete the ComputeDomain there, and switch again";
    let rejected = with_status(finalized(), "NotReady", "DriverManagedLeftovers", message);
    let action = reconcile_with([
        expect(GET_DOMAIN, admitted()),
        expect(LIST_TEMPLATES, list(&[template(), daemon.clone()])),
        expect(PATCH_STATUS, rejected),
        event(),
    ])
    .await;
    assert_eq!(action.unwrap(), Action::await_change());

    let gone = merge(deleted(), json!({ "metadata": { "finalizers": null } }));
    let action = reconcile_with([
        expect(GET_DOMAIN, deleted()),
        expect(LIST_TEMPLATES, list(&[daemon])),
        expect(PATCH_DOMAIN, gone),
        event(),
    ])
    .await;
    assert_eq!(action.unwrap(), Action::await_change());
}

#[tokio::test]
async fn a_failed_request_is_an_error_that_names_it_and_is_retried_later_each_time() {
    let api = FakeApi::new([expect_and_fail(GET_DOMAIN, 500, "InternalError")]);
    let context = mk_context(&api);
    let error = reconcile(mk_object(), context.clone()).await.unwrap_err();
    assert!(
        error_chain(&error).starts_with("cannot read the ComputeDomain: "),
        "{error}"
    );
    let first = retry(mk_object(), &error, context.clone());
    let second = retry(mk_object(), &error, context);
    assert_eq!(first, Action::requeue(Duration::from_millis(250)));
    assert_eq!(second, Action::requeue(Duration::from_millis(500)));
}

#[tokio::test(start_paused = true)]
async fn the_watches_start_when_both_kinds_can_be_listed_and_readiness_names_what_is_missing() {
    const DOMAINS: &str = "GET /apis/resource.nvidia.com/v1beta1/computedomains?&limit=1";
    const TEMPLATES: &str = "GET /apis/resource.k8s.io/v1/resourceclaimtemplates?&limit=1";
    let domains = || json!({ "kind": "ComputeDomainList", "metadata": {}, "items": [] });
    let api = FakeApi::new([
        expect_and_fail(DOMAINS, 404, "NotFound"),
        expect(DOMAINS, domains()),
        expect_and_fail(TEMPLATES, 403, "Forbidden"),
        expect(DOMAINS, domains()),
        expect(TEMPLATES, list(&[])),
    ]);
    let readiness = imex_runtime::Readiness::default();
    let listed = readiness.add_condition("compute-domains", "not listed yet");
    let client = ApiClient::new(api.client());
    let waiting = tokio::spawn(async move { client.wait_until_listed(&listed).await });
    tokio::time::sleep(Duration::from_secs(3)).await;
    let unmet = readiness.unmet();
    assert!(
        unmet[0]
            .1
            .starts_with("cannot list ResourceClaimTemplates: "),
        "{unmet:?}"
    );
    waiting.await.unwrap();
    assert_eq!(readiness.unmet(), []);
    api.assert_done();
}
