//! A rejected ComputeDomain: it gets a status with the reason and nothing else.

use compute_domain_api::names::FINALIZER;
use serde_json::json;

use super::*;
use crate::fixtures::{
    being_deleted, mk_daemon_template, mk_domain_object, with_device_class, with_target,
    with_template_name,
};
use crate::nodes::Nodes;

/// One of each kind that a request or a watch can cause.
fn every_rejection() -> Vec<Rejection> {
    let source = crate::template_name::validate("A").unwrap_err();
    let name = "A".to_owned();
    vec![
        Rejection::SpecMissing,
        Rejection::Unreadable {
            message: "missing field `channel`".to_owned(),
        },
        Rejection::InvalidTemplateName { name, source },
        mk_name_taken(),
        mk_refused(),
        held(),
        kept(),
        Rejection::TemplateChanged {
            template: mk_reference(),
        },
        mk_driver_managed(),
    ]
}

fn mk_driver_managed() -> Rejection {
    Rejection::DriverManaged {
        object: mk_daemon_template(DRIVER_NAMESPACE).reference().clone(),
        uid: UID.to_owned(),
        removes: false,
    }
}

fn mk_refused() -> Rejection {
    Rejection::TemplateRefused {
        message: "exceeded quota: few, requested: 1, used: 1, limited: 1".to_owned(),
    }
}

fn mk_unreadable(patch: Value) -> Domain {
    let metadata = mk_domain_object(patch).metadata;
    Domain::unreadable(metadata, "missing field `channel`").unwrap()
}

#[test]
fn a_domain_without_a_spec_is_rejected_without_a_panic() {
    let domain = mk_domain(merged(finalized(), json!({ "spec": null })));
    assert_eq!(
        rejection(decide_first(&observe(domain, []))),
        Rejection::SpecMissing
    );
}

#[test]
fn an_unreadable_domain_is_rejected_without_a_write_of_its_status() {
    for patch in [json!({}), finalized()] {
        let decision = decide_first(&observe(mk_unreadable(patch), []));
        let Decision::Done(Outcome::Rejected(rejection)) = decision else {
            panic!("not rejected: {decision:?}");
        };
        assert_eq!(rejection.reason(), "Unreadable");
        assert!(rejection.message().contains("missing field `channel`"));
    }
}

#[test]
fn an_unreadable_deleted_domain_with_a_blocked_template_gets_no_status() {
    let domain = mk_unreadable(crate::fixtures::deleted());
    let template = template_patched(being_deleted(&["example.com/other"]));
    assert_eq!(
        decide_first(&observe(domain, template)),
        Decision::Done(Outcome::Blocked(mk_reference()))
    );
}

#[test]
fn a_template_name_that_no_object_can_have_is_rejected() {
    let domain = mk_domain(with_template_name("a\nnamespace: kube-system"));
    let rejection = rejection(decide_first(&observe(domain, [])));
    assert_eq!(rejection.reason(), "InvalidTemplateName");
}

#[test]
fn a_refusal_is_reported_with_the_api_servers_message_and_not_retried_at_once() {
    for refusal in [mk_name_taken(), mk_refused()] {
        let findings = findings_with(refusal.clone());
        let decision = decide_with(&observe(mk_domain(finalized()), []), &findings);
        assert_eq!(rejection(decision), refusal);

        let domain = with_reported_status(finalized(), &Admission::Rejected(refusal.clone()));
        assert_eq!(
            decide_with(&observe(domain.clone(), []), &findings),
            Decision::Done(Outcome::Rejected(refusal))
        );
        assert!(matches!(
            decide_first(&observe(domain, [])),
            Decision::Send(Request::CreateTemplate(_))
        ));
    }
    assert!(mk_refused().message().contains("exceeded quota: few"));
}

#[test]
fn a_former_refusal_is_ignored_once_the_template_exists() {
    let domain = with_reported_status(finalized(), &Admission::Rejected(mk_refused()));
    let observed = observe(domain, template_patched(json!({})));
    let decision = decide_with(&observed, &findings_with(mk_refused()));
    assert_eq!(decision, write(Admission::Admitted));
}

#[test]
fn a_template_of_its_name_that_is_not_for_a_workload_is_never_taken_over() {
    let other_target = with_target(Some("Daemon"));
    let other_content = merged(with_device_class("gpu.nvidia.com"), with_target(None));
    for template in [other_target, other_content] {
        let observed = observe(mk_domain(finalized()), template_patched(template));
        let taken = rejection(decide_first(&observed));
        assert_eq!(taken.reason(), "TemplateNameTaken");
        assert!(taken.message().contains(UID), "{}", taken.message());
    }
}

#[test]
fn a_domain_with_driver_managed_objects_is_rejected_even_when_it_was_ready() {
    let daemon = mk_daemon_template(DRIVER_NAMESPACE);
    let observed = observe(ready(), [mk_template(json!({})), daemon]);
    let rejection = rejection(decide_first(&observed));
    assert_eq!(rejection.reason(), "DriverManagedLeftovers");
    let object = format!("{DRIVER_NAMESPACE}/computedomain-daemon-{UID}");
    let message = rejection.message();
    assert!(
        message.contains(&object) && message.contains("kubectl delete"),
        "{message}"
    );
}

// req: MODE-31
#[test]
fn if_the_controller_removes_these_objects_the_administrator_has_nothing_to_do() {
    let observed = observe(
        ready(),
        [mk_template(json!({})), mk_daemon_template(DRIVER_NAMESPACE)],
    );
    let findings = Findings {
        nodes: Nodes::Unknown,
        ..mk_findings()
    };
    let rejection = rejection(decide(&observed, &findings, &[DRIVER_NAMESPACE.into()]));
    assert_eq!(rejection.reason(), "DriverManagedLeftovers");
    let message = rejection.message();
    assert!(
        message.contains("wait: the controller removes") && !message.contains("kubectl"),
        "{message}"
    );
}

#[test]
fn of_two_reasons_the_same_is_reported_in_any_order_of_the_templates() {
    let mut templates = [
        mk_template(with_target(Some("Daemon"))),
        mk_daemon_template(DRIVER_NAMESPACE),
    ];
    for _ in 0..2 {
        templates.reverse();
        let observed = observe(mk_domain(finalized()), templates.clone());
        let rejection = rejection(decide_first(&observed));
        assert_eq!(rejection.reason(), "DriverManagedLeftovers");
    }
}

#[test]
fn driver_managed_objects_are_recognised_only_in_the_drivers_namespaces() {
    for namespace in ["team-1", "team-2"] {
        let templates = [mk_template(json!({})), mk_daemon_template(namespace)];
        let observed = observe(ready(), templates);
        assert_eq!(decide_first(&observed), Decision::Done(Outcome::Admitted));
        let rejected = decide(
            &observed,
            &mk_findings(),
            &["nvidia".into(), namespace.into()],
        );
        assert_eq!(rejection(rejected).reason(), "DriverManagedLeftovers");
    }
}

#[test]
fn a_rejected_domain_needs_nothing_once_its_status_has_the_reason() {
    let patch = with_template_name("A");
    let why = rejection(decide_first(&observe(mk_domain(patch.clone()), [])));
    let domain = with_reported_status(patch, &Admission::Rejected(why.clone()));
    assert_eq!(
        decide_first(&observe(domain, [])),
        Decision::Done(Outcome::Rejected(why))
    );
}

#[test]
fn its_template_stays_but_is_released_when_a_user_deletes_it() {
    let rejected = mk_driver_managed();
    let domain = with_reported_status(finalized(), &Admission::Rejected(rejected.clone()));
    let decide_about = |template| {
        let templates = [mk_daemon_template(DRIVER_NAMESPACE), mk_template(template)];
        decide_first(&observe(domain.clone(), templates))
    };
    let done = Decision::Done(Outcome::Rejected(rejected));
    assert_eq!(decide_about(json!({})), done);
    assert_eq!(decide_about(being_deleted(&[FINALIZER])), release_own());
    assert_eq!(decide_about(being_deleted(&[])), done);
}

// req: CD-16
#[test]
fn every_rejection_has_its_own_reason_and_a_one_line_message_with_a_remedy() {
    let every = every_rejection();
    let reasons: std::collections::HashSet<_> = every.iter().map(Rejection::reason).collect();
    assert_eq!(reasons.len(), every.len());
    for rejection in every {
        let message = rejection.message();
        assert!(!message.contains('\n'), "{message}");
        assert!(message.ends_with(&rejection.hint()), "{message}");
        assert!(message.starts_with(&rejection.to_string()), "{message}");
        let is_word = |c: char| c.is_ascii_alphabetic();
        assert!(rejection.reason().chars().all(is_word), "{rejection:?}");
    }
    let hostile = Rejection::InvalidTemplateName {
        name: "a\nb".to_owned(),
        source: crate::template_name::validate("a\nb").unwrap_err(),
    };
    assert!(!hostile.message().contains('\n'), "{}", hostile.message());
}
