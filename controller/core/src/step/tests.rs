use compute_domain_api::crd::ComputeDomain;
use compute_domain_api::names::FINALIZER;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::status_patch;

const UID: &str = "6c2dc0c8-9c15-4a0d-a3ce-0e3ac5a4c0a1";

// === objects ===

/// A fresh domain, as the API server hands it out, with `patch` merged over it.
fn mk_domain(patch: Value) -> Domain {
    let mut object = json!({
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": { "name": "train-a", "namespace": "team-1", "uid": UID, "generation": 1 },
        "spec": { "numNodes": 0, "channel": {
            "allocationMode": "Single",
            "resourceClaimTemplate": { "name": "train-a-channel" },
        } },
    });
    merge(&mut object, patch);
    Domain::new(serde_json::from_value::<ComputeDomain>(object).unwrap()).unwrap()
}

fn merge(into: &mut Value, patch: Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, patch) => *into = patch,
    }
}

fn finalized() -> Value {
    json!({ "metadata": { "finalizers": [FINALIZER] } })
}

fn deleted() -> Value {
    json!({ "metadata": { "finalizers": [FINALIZER], "deletionTimestamp": "2026-01-02T03:04:05Z" } })
}

fn with_template_name(name: &str) -> Value {
    json!({ "spec": { "channel": { "resourceClaimTemplate": { "name": name } } } })
}

/// The domain's own template as it comes back from the API server.
fn mk_template(patch: Value) -> ResourceClaimTemplate {
    let template = claim_template(&mk_domain(finalized())).unwrap();
    let mut object = serde_json::to_value(template).unwrap();
    merge(
        &mut object,
        json!({ "metadata": { "uid": "template-uid" } }),
    );
    merge(&mut object, patch);
    serde_json::from_value(object).unwrap()
}

fn mk_daemon_template() -> ResourceClaimTemplate {
    mk_template(json!({ "metadata": {
        "name": format!("computedomain-daemon-{UID}"),
        "namespace": "nvidia",
        "labels": { "resource.nvidia.com/computeDomainTarget": "Daemon" },
    } }))
}

fn terminating_now(finalizers: &[&str]) -> Value {
    json!({ "metadata": { "finalizers": finalizers, "deletionTimestamp": "2026-01-02T03:04:05Z" } })
}

fn own(template: ResourceClaimTemplate) -> Observed {
    Observed {
        labelled: vec![template.clone()],
        named: Some(template),
    }
}

fn reference() -> TemplateRef {
    TemplateRef {
        namespace: "team-1".into(),
        name: "train-a-channel".into(),
        uid: "template-uid".into(),
    }
}

/// The patch that takes the only finalizer off.
fn removal(uid: &str) -> Value {
    json!([
        { "op": "test", "path": "/metadata/uid", "value": uid },
        { "op": "test", "path": "/metadata/finalizers/0", "value": FINALIZER },
        { "op": "remove", "path": "/metadata/finalizers/0" },
    ])
}

/// The same domain after the verdict was written.
fn settled(patch: Value, verdict: &Verdict) -> Domain {
    let mut patch = patch;
    let written = status_patch(&mk_domain(patch.clone()), verdict, Timestamp::UNIX_EPOCH);
    merge(&mut patch, json!({ "status": written["status"] }));
    mk_domain(patch)
}

fn refusal(step: Step) -> Refusal {
    match step {
        Step::WriteStatus(Verdict::Refused(refusal)) => refusal,
        step => panic!("not refused: {step:?}"),
    }
}

// === a live domain ===

#[test]
fn a_new_domain_gets_its_finalizer_before_anything_that_needs_cleaning_up() {
    assert!(matches!(
        next(&mk_domain(json!({})), &Observed::default()),
        Step::AddFinalizer(_)
    ));
}

#[test]
fn then_its_template_exactly_as_go_makes_it() {
    let Step::CreateTemplate(template) = next(&mk_domain(finalized()), &Observed::default()) else {
        panic!("no template");
    };
    assert_eq!(
        serde_json::to_value(template).unwrap(),
        json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {
                "name": "train-a-channel",
                "namespace": "team-1",
                "finalizers": ["resource.nvidia.com/computeDomain"],
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
    );
}

#[test]
fn its_own_allocation_mode_goes_through_and_an_absent_one_is_single() {
    for (mode, expected) in [
        (json!("All"), "All"),
        (json!("Shared"), "Shared"),
        (Value::Null, "Single"),
    ] {
        let domain = mk_domain(json!({ "spec": { "channel": { "allocationMode": mode } } }));
        let template = serde_json::to_value(claim_template(&domain).unwrap()).unwrap();
        let parameters = &template["spec"]["spec"]["devices"]["config"][0]["opaque"]["parameters"];
        assert_eq!(parameters["allocationMode"], expected);
    }
}

#[test]
fn then_it_is_ready() {
    let step = next(&mk_domain(finalized()), &own(mk_template(json!({}))));
    assert_eq!(step, Step::WriteStatus(Verdict::Admitted));
}

#[test]
fn then_there_is_nothing_left_to_do() {
    let domain = settled(finalized(), &Verdict::Admitted);
    assert_eq!(
        next(&domain, &own(mk_template(json!({})))),
        Step::Rest(Outcome::Admitted)
    );
}

#[test]
fn a_ready_without_our_condition_is_written_again() {
    let domain = mk_domain({
        let mut patch = finalized();
        merge(&mut patch, json!({ "status": { "status": "Ready" } }));
        patch
    });
    let step = next(&domain, &own(mk_template(json!({}))));
    assert_eq!(step, Step::WriteStatus(Verdict::Admitted));
}

#[test]
fn a_ready_domain_whose_template_is_gone_gets_it_again() {
    let domain = settled(finalized(), &Verdict::Admitted);
    assert!(matches!(
        next(&domain, &Observed::default()),
        Step::CreateTemplate(_)
    ));
}

#[test]
fn a_template_deleted_under_a_live_domain_is_let_go_to_be_made_anew() {
    let domain = settled(finalized(), &Verdict::Admitted);
    let observed = own(mk_template(terminating_now(&[FINALIZER])));
    assert_eq!(
        next(&domain, &observed),
        Step::ReleaseTemplate(reference(), removal("template-uid"))
    );
    let observed = own(mk_template(terminating_now(&["example.com/other"])));
    assert_eq!(
        next(&domain, &observed),
        Step::Rest(Outcome::Held(reference()))
    );
}

// === a refused domain ===

#[test]
fn a_domain_without_a_spec_is_refused_and_not_a_panic() {
    let domain = mk_domain(json!({ "spec": null, "metadata": { "finalizers": [FINALIZER] } }));
    assert_eq!(
        refusal(next(&domain, &Observed::default())),
        Refusal::SpecMissing
    );
}

#[test]
fn a_domain_that_cannot_be_read_is_refused_without_a_status_that_could_not_be_compared() {
    let metadata = mk_domain(json!({})).object().metadata.clone();
    let domain = Domain::unreadable(metadata, "missing field `channel`").unwrap();
    let Step::Rest(Outcome::Refused(refusal)) = next(&domain, &Observed::default()) else {
        panic!("not refused");
    };
    assert_eq!(refusal.reason(), "Unreadable");
    assert!(refusal.message().contains("missing field `channel`"));
}

#[test]
fn a_template_name_that_no_object_can_have_is_refused() {
    let domain = mk_domain(with_template_name("a\nnamespace: kube-system"));
    let refusal = refusal(next(&domain, &Observed::default()));
    assert_eq!(refusal.reason(), "InvalidTemplateName");
    assert!(!refusal.message().contains('\n'), "{}", refusal.message());
}

#[test]
fn a_template_of_somebody_else_is_never_taken_over() {
    let domain = mk_domain(finalized());
    let unlabelled = mk_template(json!({ "metadata": { "labels": null } }));
    let other = mk_template(
        json!({ "metadata": { "labels": { "resource.nvidia.com/computeDomain": "other" } } }),
    );
    for (template, owner) in [
        (unlabelled, "no ComputeDomain"),
        (other, "the ComputeDomain with UID other"),
    ] {
        let observed = Observed {
            labelled: vec![],
            named: Some(template),
        };
        let refusal = refusal(next(&domain, &observed));
        assert_eq!(
            refusal,
            Refusal::NameTaken {
                name: "train-a-channel".into(),
                owner: owner.into()
            }
        );
        assert!(refusal.ends_unseen());
    }
}

#[test]
fn a_domain_that_the_driver_managed_mode_still_serves_is_refused_even_when_it_was_ready() {
    let mut observed = own(mk_template(json!({})));
    observed.labelled.push(mk_daemon_template());
    let refusal = refusal(next(&settled(finalized(), &Verdict::Admitted), &observed));
    assert_eq!(refusal.reason(), "DriverManagedLeftovers");
    assert!(
        refusal
            .message()
            .contains(&format!("nvidia/computedomain-daemon-{UID}"))
    );
}

#[test]
fn a_refused_domain_rests_once_its_status_says_why() {
    let patch = with_template_name("A");
    let refusal = refusal(next(&mk_domain(patch.clone()), &Observed::default()));
    let domain = settled(patch, &Verdict::Refused(refusal.clone()));
    assert_eq!(
        next(&domain, &Observed::default()),
        Step::Rest(Outcome::Refused(refusal))
    );
}

// === a deleted domain ===

#[test]
fn deletion_takes_the_template_then_its_finalizer_then_the_domains() {
    let domain = mk_domain(deleted());
    let steps = [
        (
            own(mk_template(json!({}))),
            Step::DeleteTemplate(reference()),
        ),
        (
            own(mk_template(terminating_now(&[FINALIZER]))),
            Step::ReleaseTemplate(reference(), removal("template-uid")),
        ),
        (Observed::default(), Step::RemoveFinalizer(removal(UID))),
    ];
    for (observed, step) in steps {
        assert_eq!(next(&domain, &observed), step);
    }
    let gone = mk_domain(json!({ "metadata": { "deletionTimestamp": "2026-01-02T03:04:05Z" } }));
    assert_eq!(next(&gone, &Observed::default()), Step::Rest(Outcome::Gone));
}

#[test]
fn a_template_that_others_hold_keeps_the_domain() {
    let observed = own(mk_template(terminating_now(&["example.com/other"])));
    assert_eq!(
        next(&mk_domain(deleted()), &observed),
        Step::Rest(Outcome::Held(reference()))
    );
}

#[test]
fn deletion_leaves_foreign_and_daemon_templates_alone() {
    let foreign = mk_template(
        json!({ "metadata": { "labels": { "resource.nvidia.com/computeDomain": "other" } } }),
    );
    let observed = Observed {
        labelled: vec![mk_daemon_template()],
        named: Some(foreign),
    };
    assert_eq!(
        next(&mk_domain(deleted()), &observed),
        Step::RemoveFinalizer(removal(UID))
    );
}

#[test]
fn a_domain_without_a_spec_can_be_deleted() {
    let mut patch = deleted();
    merge(&mut patch, json!({ "spec": null }));
    assert_eq!(
        next(&mk_domain(patch), &Observed::default()),
        Step::RemoveFinalizer(removal(UID))
    );
}

// === its status ===

#[test]
fn the_status_patch_holds_our_fields_and_no_others() {
    let now: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
    let patch = status_patch(&mk_domain(finalized()), &Verdict::Admitted, now);
    assert_eq!(
        patch,
        json!({
            "apiVersion": "resource.nvidia.com/v1beta1",
            "kind": "ComputeDomain",
            "metadata": { "name": "train-a", "namespace": "team-1", "uid": UID },
            "status": {
                "status": "Ready",
                "conditions": [{
                    "type": "Ready",
                    "status": "True",
                    "reason": "Admitted",
                    "message": "the ResourceClaimTemplate for the workload exists; IMEX on the nodes is the operator's",
                    "observedGeneration": 1,
                    "lastTransitionTime": "2026-01-02T03:04:05Z",
                }],
            },
        })
    );
}

#[test]
fn the_transition_time_moves_only_when_the_condition_turns() {
    let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    let missing = Verdict::Refused(Refusal::SpecMissing);
    let refused = settled(json!({}), &missing);
    let since = |verdict| {
        status_patch(&refused, verdict, now)["status"]["conditions"][0]["lastTransitionTime"]
            .clone()
    };
    let other = Verdict::Refused(Refusal::Unreadable { why: "x".into() });
    assert_eq!(since(&other), "1970-01-01T00:00:00Z");
    assert_eq!(since(&Verdict::Admitted), "2026-01-02T03:04:05Z");
}
