use compute_domain_api::crd::ComputeDomain;
use compute_domain_api::names::FINALIZER;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::status_patch;

const UID: &str = "6c2dc0c8-9c15-4a0d-a3ce-0e3ac5a4c0a1";

// === objects ===

/// A new domain, as the API server returns it, with `patch` merged over it.
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

fn observe_own(template: ResourceClaimTemplate) -> ObservedTemplates {
    ObservedTemplates {
        with_domain_label: vec![template.clone()],
        with_expected_name: Some(template),
    }
}

fn reference() -> TemplateRef {
    TemplateRef {
        namespace: "team-1".into(),
        name: "train-a-channel".into(),
        uid: "template-uid".into(),
    }
}

/// The patch that removes the only finalizer.
fn removal(uid: &str) -> Value {
    json!([
        { "op": "test", "path": "/metadata/uid", "value": uid },
        { "op": "test", "path": "/metadata/finalizers/0", "value": FINALIZER },
        { "op": "remove", "path": "/metadata/finalizers/0" },
    ])
}

/// The same domain after this was written into its status.
fn with_reported_status(patch: Value, admission: &Admission) -> Domain {
    let mut patch = patch;
    let written = status_patch(&mk_domain(patch.clone()), admission, Timestamp::UNIX_EPOCH);
    merge(&mut patch, json!({ "status": written["status"] }));
    mk_domain(patch)
}

fn rejection(decision: Decision) -> Rejection {
    match decision {
        Decision::Send(Request::WriteStatus(Admission::Rejected(rejection))) => rejection,
        decision => panic!("not rejected: {decision:?}"),
    }
}

// === a domain that is not being deleted ===

#[test]
fn a_new_domain_gets_its_finalizer_before_anything_that_needs_cleaning_up() {
    assert!(matches!(
        decide(&mk_domain(json!({})), &ObservedTemplates::default()),
        Decision::Send(Request::AddFinalizer(_))
    ));
}

#[test]
fn then_its_template_exactly_as_the_go_driver_creates_it() {
    let Decision::Send(Request::CreateTemplate(template)) =
        decide(&mk_domain(finalized()), &ObservedTemplates::default())
    else {
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
fn its_own_allocation_mode_is_passed_on_and_an_absent_one_is_single() {
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
    let decision = decide(
        &mk_domain(finalized()),
        &observe_own(mk_template(json!({}))),
    );
    assert_eq!(
        decision,
        Decision::Send(Request::WriteStatus(Admission::Admitted))
    );
}

#[test]
fn then_there_is_nothing_left_to_do() {
    let domain = with_reported_status(finalized(), &Admission::Admitted);
    assert_eq!(
        decide(&domain, &observe_own(mk_template(json!({})))),
        Decision::Done(Outcome::Admitted)
    );
}

#[test]
fn a_ready_without_our_condition_is_written_again() {
    let domain = mk_domain({
        let mut patch = finalized();
        merge(&mut patch, json!({ "status": { "status": "Ready" } }));
        patch
    });
    let decision = decide(&domain, &observe_own(mk_template(json!({}))));
    assert_eq!(
        decision,
        Decision::Send(Request::WriteStatus(Admission::Admitted))
    );
}

#[test]
fn a_ready_domain_whose_template_is_gone_gets_it_again() {
    let domain = with_reported_status(finalized(), &Admission::Admitted);
    assert!(matches!(
        decide(&domain, &ObservedTemplates::default()),
        Decision::Send(Request::CreateTemplate(_))
    ));
}

#[test]
fn a_template_that_somebody_deleted_is_finalized_to_be_created_again() {
    let domain = with_reported_status(finalized(), &Admission::Admitted);
    let observed = observe_own(mk_template(terminating_now(&[FINALIZER])));
    assert_eq!(
        decide(&domain, &observed),
        Decision::Send(Request::RemoveTemplateFinalizer(
            reference(),
            removal("template-uid")
        ))
    );
    let observed = observe_own(mk_template(terminating_now(&["example.com/other"])));
    assert_eq!(
        decide(&domain, &observed),
        Decision::Done(Outcome::Blocked(reference()))
    );
}

// === a rejected domain ===

#[test]
fn a_domain_without_a_spec_is_rejected_and_not_a_panic() {
    let domain = mk_domain(json!({ "spec": null, "metadata": { "finalizers": [FINALIZER] } }));
    assert_eq!(
        rejection(decide(&domain, &ObservedTemplates::default())),
        Rejection::SpecMissing
    );
}

#[test]
fn a_domain_that_cannot_be_read_is_rejected_without_a_status_that_could_not_be_compared() {
    let metadata = mk_domain(json!({})).object().metadata.clone();
    let domain = Domain::unreadable(metadata, "missing field `channel`").unwrap();
    let Decision::Done(Outcome::Rejected(rejection)) =
        decide(&domain, &ObservedTemplates::default())
    else {
        panic!("not rejected");
    };
    assert_eq!(rejection.reason(), "Unreadable");
    assert!(rejection.message().contains("missing field `channel`"));
}

#[test]
fn a_template_name_that_no_object_can_have_is_rejected() {
    let domain = mk_domain(with_template_name("a\nnamespace: kube-system"));
    let rejection = rejection(decide(&domain, &ObservedTemplates::default()));
    assert_eq!(rejection.reason(), "InvalidTemplateName");
    assert!(
        !rejection.message().contains('\n'),
        "{}",
        rejection.message()
    );
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
        let observed = ObservedTemplates {
            with_domain_label: vec![],
            with_expected_name: Some(template),
        };
        let rejection = rejection(decide(&domain, &observed));
        assert_eq!(
            rejection,
            Rejection::NameTaken {
                name: "train-a-channel".into(),
                owner: owner.into()
            }
        );
        assert!(rejection.is_unwatched());
    }
}

#[test]
fn a_domain_with_driver_managed_objects_is_rejected_even_when_it_was_ready() {
    let mut observed = observe_own(mk_template(json!({})));
    observed.with_domain_label.push(mk_daemon_template());
    let rejection = rejection(decide(
        &with_reported_status(finalized(), &Admission::Admitted),
        &observed,
    ));
    assert_eq!(rejection.reason(), "DriverManagedLeftovers");
    assert!(
        rejection
            .message()
            .contains(&format!("nvidia/computedomain-daemon-{UID}"))
    );
}

#[test]
fn nothing_is_left_to_do_once_the_status_says_why() {
    let patch = with_template_name("A");
    let rejection = rejection(decide(
        &mk_domain(patch.clone()),
        &ObservedTemplates::default(),
    ));
    let domain = with_reported_status(patch, &Admission::Rejected(rejection.clone()));
    assert_eq!(
        decide(&domain, &ObservedTemplates::default()),
        Decision::Done(Outcome::Rejected(rejection))
    );
}

// === a deleted domain ===

#[test]
fn deletion_removes_the_template_then_its_finalizer_then_the_domains() {
    let domain = mk_domain(deleted());
    let steps = [
        (
            observe_own(mk_template(json!({}))),
            Decision::Send(Request::DeleteTemplate(reference())),
        ),
        (
            observe_own(mk_template(terminating_now(&[FINALIZER]))),
            Decision::Send(Request::RemoveTemplateFinalizer(
                reference(),
                removal("template-uid"),
            )),
        ),
        (
            ObservedTemplates::default(),
            Decision::Send(Request::RemoveFinalizer(removal(UID))),
        ),
    ];
    for (observed, decision) in steps {
        assert_eq!(decide(&domain, &observed), decision);
    }
    let gone = mk_domain(json!({ "metadata": { "deletionTimestamp": "2026-01-02T03:04:05Z" } }));
    assert_eq!(
        decide(&gone, &ObservedTemplates::default()),
        Decision::Done(Outcome::Gone)
    );
}

#[test]
fn a_template_with_finalizers_of_others_keeps_the_domain() {
    let observed = observe_own(mk_template(terminating_now(&["example.com/other"])));
    assert_eq!(
        decide(&mk_domain(deleted()), &observed),
        Decision::Done(Outcome::Blocked(reference()))
    );
}

#[test]
fn deletion_leaves_foreign_and_daemon_templates_alone() {
    let foreign = mk_template(
        json!({ "metadata": { "labels": { "resource.nvidia.com/computeDomain": "other" } } }),
    );
    let observed = ObservedTemplates {
        with_domain_label: vec![mk_daemon_template()],
        with_expected_name: Some(foreign),
    };
    assert_eq!(
        decide(&mk_domain(deleted()), &observed),
        Decision::Send(Request::RemoveFinalizer(removal(UID)))
    );
}

#[test]
fn a_domain_without_a_spec_can_be_deleted() {
    let mut patch = deleted();
    merge(&mut patch, json!({ "spec": null }));
    assert_eq!(
        decide(&mk_domain(patch), &ObservedTemplates::default()),
        Decision::Send(Request::RemoveFinalizer(removal(UID)))
    );
}

// === its status ===

#[test]
fn the_status_patch_has_our_fields_and_no_others() {
    let now: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
    let patch = status_patch(&mk_domain(finalized()), &Admission::Admitted, now);
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
                    "message": "the ResourceClaimTemplate for the workload exists; running IMEX on the nodes is up to the operator",
                    "observedGeneration": 1,
                    "lastTransitionTime": "2026-01-02T03:04:05Z",
                }],
            },
        })
    );
}

#[test]
fn the_transition_time_changes_only_when_the_condition_does() {
    let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    let missing = Admission::Rejected(Rejection::SpecMissing);
    let rejected = with_reported_status(json!({}), &missing);
    let since = |admission| {
        status_patch(&rejected, admission, now)["status"]["conditions"][0]["lastTransitionTime"]
            .clone()
    };
    let other = Admission::Rejected(Rejection::Unreadable {
        message: "x".into(),
    });
    assert_eq!(since(&other), "1970-01-01T00:00:00Z");
    assert_eq!(since(&Admission::Admitted), "2026-01-02T03:04:05Z");
}

// === the lifecycle's table, against objects ===

const TIME: &str = "2026-01-02T03:04:05Z";

/// How a template can be.
const TEMPLATES: [Option<(bool, &[&str])>; 6] = [
    None,
    Some((false, &[FINALIZER])),
    Some((false, &[FINALIZER, "example.com/other"])),
    Some((true, &[FINALIZER])),
    Some((true, &["example.com/other", FINALIZER])),
    Some((true, &["example.com/other"])),
];

/// One domain and its template in the API server.
#[derive(Clone, Debug)]
struct Objects {
    deleted: bool,
    finalized: bool,
    reported: Option<Admission>,
    /// Whether it is being deleted, and its finalizers.
    template: Option<(bool, Vec<String>)>,
    driver_managed: bool,
}

impl Objects {
    /// All of them, but for one: nothing makes a domain `Ready` that does not have our finalizer.
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for bits in 0..8 {
            let [deleted, finalized, driver_managed] = [1, 2, 4].map(|bit| bits & bit != 0);
            for template in TEMPLATES {
                let of_others = Admission::Rejected(Rejection::SpecMissing);
                for reported in [None, Some(Admission::Admitted), Some(of_others)] {
                    if finalized || reported != Some(Admission::Admitted) {
                        let template = template.map(|(deleted, finalizers)| {
                            (
                                deleted,
                                finalizers.iter().map(ToString::to_string).collect(),
                            )
                        });
                        all.push(Self {
                            deleted,
                            finalized,
                            reported,
                            template,
                            driver_managed,
                        });
                    }
                }
            }
        }
        all
    }

    fn domain(&self) -> Domain {
        let mut patch = json!({ "metadata": {
            "finalizers": self.finalized.then_some([FINALIZER]),
            "deletionTimestamp": self.deleted.then_some(TIME),
        } });
        if let Some(admission) = &self.reported {
            let written = status_patch(&mk_domain(json!({})), admission, Timestamp::UNIX_EPOCH);
            merge(&mut patch, json!({ "status": written["status"] }));
        }
        mk_domain(patch)
    }

    fn templates(&self) -> ObservedTemplates {
        let own = self.template.as_ref().map(|(deleted, finalizers)| {
            mk_template(json!({ "metadata": {
                "finalizers": finalizers,
                "deletionTimestamp": deleted.then_some(TIME),
            } }))
        });
        let daemon = self.driver_managed.then(mk_daemon_template);
        ObservedTemplates {
            with_domain_label: own.clone().into_iter().chain(daemon).collect(),
            with_expected_name: own,
        }
    }

    fn apply(&mut self, request: &Request) {
        match request {
            Request::AddFinalizer(_) => self.finalized = true,
            Request::RemoveFinalizer(_) => self.finalized = false,
            Request::WriteStatus(admission) => self.reported = Some(admission.clone()),
            Request::CreateTemplate(template) => {
                self.template = Some((false, template.metadata.finalizers.clone().unwrap()));
            }
            Request::DeleteTemplate(_) => self.template.as_mut().unwrap().0 = true,
            Request::RemoveTemplateFinalizer(..) => {
                let (_, finalizers) = self.template.as_mut().unwrap();
                finalizers.retain(|finalizer| finalizer != FINALIZER);
            }
        }
        // The API server removes what is deleted and has no finalizer.
        self.template
            .take_if(|(deleted, finalizers)| *deleted && finalizers.is_empty());
    }

    fn decide(&self) -> Decision {
        decide(&self.domain(), &self.templates())
    }
}

#[test]
fn every_request_is_the_one_of_the_tables_action_and_leads_to_its_state() {
    for mut objects in Objects::all() {
        let domain = objects.domain();
        let finding = find(&domain, &objects.templates());
        let Transition { action, next } = state(&domain).on(finding.event());
        let decision = objects.decide();
        let action_of_decision = match &decision {
            Decision::Send(Request::AddFinalizer(_)) => Action::AddFinalizer,
            Decision::Send(Request::CreateTemplate(_)) => Action::CreateTemplate,
            Decision::Send(Request::DeleteTemplate(_)) => Action::DeleteTemplate,
            Decision::Send(Request::RemoveTemplateFinalizer(..)) => Action::RemoveTemplateFinalizer,
            Decision::Send(Request::RemoveFinalizer(_)) => Action::RemoveFinalizer,
            Decision::Send(Request::WriteStatus(Admission::Admitted))
            | Decision::Done(Outcome::Admitted) => Action::ReportAdmission,
            Decision::Send(Request::WriteStatus(Admission::Rejected(_)))
            | Decision::Done(Outcome::Rejected(_)) => Action::ReportRejection,
            Decision::Done(Outcome::Blocked(_)) => Action::Wait,
            Decision::Done(Outcome::Gone) => Action::Nothing,
        };
        assert_eq!(action_of_decision, action, "{objects:?}");
        if let Decision::Send(request) = &decision {
            objects.apply(request);
        }
        assert_eq!(
            state(&objects.domain()),
            next,
            "after {decision:?}: {objects:?}"
        );
    }
}

#[test]
fn every_domain_comes_to_its_end_within_five_requests() {
    for mut objects in Objects::all() {
        let start = objects.clone();
        let mut requests = 0;
        let outcome = loop {
            match objects.decide() {
                Decision::Send(request) => objects.apply(&request),
                Decision::Done(outcome) => break outcome,
            }
            requests += 1;
            assert!(requests <= 5, "{start:?}");
        };
        let blocked = matches!(&objects.template, Some((true, _)));
        match outcome {
            Outcome::Blocked(_) => assert!(blocked, "{start:?}"),
            Outcome::Gone => {
                assert!(start.deleted && !objects.finalized && objects.template.is_none());
            }
            Outcome::Admitted => assert!(objects.finalized && objects.template.is_some()),
            Outcome::Rejected(_) => {
                assert!(start.driver_managed && !start.deleted);
                assert_eq!(objects.template, start.template, "{start:?}");
            }
        }
    }
}
