//! Copies of the template of a live ComputeDomain, in another namespace or under another name.

use compute_domain_api::names::FINALIZER;
use serde_json::json;

use super::*;
use crate::fixtures::{
    OF_OTHERS, being_deleted, daemon_in, deleted, mk_daemon_template, with_device_class,
    with_target, with_template_name,
};

/// Namespaces and names of copies.
const PLACES: [(&str, &str); 3] = [
    ("team-2", "train-a-channel"),
    ("team-1", "copy"),
    (DRIVER_NAMESPACE, "copy"),
];

fn copy((namespace, name): (&str, &str), patch: Value) -> ObservedTemplate {
    let place = json!({ "metadata": { "namespace": namespace, "name": name, "uid": "copy-uid" } });
    mk_template(merged(place, patch))
}

/// The decision for a Ready domain with its template and this copy.
fn decide_beside(copy: ObservedTemplate) -> Decision {
    decide_first(&observe(ready(), [copy, mk_template(json!({}))]))
}

#[test]
fn a_copy_that_is_not_being_deleted_is_left_alone() {
    for place in PLACES {
        let decision = decide_beside(copy(place, json!({})));
        assert_eq!(decision, Decision::Done(Outcome::Admitted), "{place:?}");
    }
}

#[test]
fn a_copy_that_is_being_deleted_loses_our_finalizer_and_nothing_else() {
    for place in PLACES {
        for patch in [
            json!({}),
            with_device_class("gpu.nvidia.com"),
            with_target(None),
        ] {
            let copy = copy(place, merged(patch, being_deleted(&[FINALIZER])));
            let reference = copy.reference().clone();
            assert_eq!(decide_beside(copy), release(reference), "{place:?}");
        }
        let held = copy(place, being_deleted(&[OF_OTHERS]));
        assert_eq!(decide_beside(held), Decision::Done(Outcome::Admitted));
    }
}

#[test]
fn templates_of_the_driver_managed_mode_are_not_touched() {
    let deleted = mk_template(merged(
        daemon_in(DRIVER_NAMESPACE),
        being_deleted(&[FINALIZER]),
    ));
    // They prevent only the domain's admission.
    let decision = decide_first(&observe(ready(), [deleted, mk_template(json!({}))]));
    assert!(matches!(
        decision,
        Decision::Send(Request::WriteStatus(Admission::Rejected(
            Rejection::DriverManaged { .. }
        )))
    ));
}

#[test]
fn an_object_with_their_labels_in_another_namespace_belongs_to_its_owner() {
    let daemon = mk_daemon_template("team-2");
    let observed = observe(ready(), [daemon, mk_template(json!({}))]);
    assert_eq!(decide_first(&observed), Decision::Done(Outcome::Admitted));
    let deleted = mk_template(merged(daemon_in("team-2"), being_deleted(&[FINALIZER])));
    let reference = deleted.reference().clone();
    let observed = observe(ready(), [deleted, mk_template(json!({}))]);
    assert_eq!(decide_first(&observed), release(reference));
}

#[test]
fn requests_for_the_domain_itself_come_first() {
    let terminating = || copy(PLACES[0], being_deleted(&[FINALIZER]));
    assert!(matches!(
        decide_first(&observe(mk_domain(json!({})), [terminating()])),
        Decision::Send(Request::AddFinalizer(_))
    ));
    assert!(matches!(
        decide_first(&observe(mk_domain(finalized()), [terminating()])),
        Decision::Send(Request::CreateTemplate(_))
    ));
    assert_eq!(
        decide_with(
            &observe(mk_domain(deleted()), [terminating()]),
            &without_template()
        ),
        remove_finalizer()
    );
}

/// The managed fields of a template that this manager created.
fn created_by(manager: &str, operation: &str) -> Value {
    let write = json!({ "manager": manager, "operation": operation });
    json!({ "metadata": { "managedFields": [write] } })
}

/// A template under the name of a former spec.
fn former(patch: Value) -> ObservedTemplate {
    let created = merged(created_by("imex-dra", "Update"), patch);
    copy(PLACES[1], created)
}

#[test]
fn a_template_that_a_controller_created_for_a_former_spec_is_deleted() {
    for manager in ["imex-dra", "compute-domain-controller"] {
        let former = former(created_by(manager, "Update"));
        let expected = Request::DeleteTemplate(former.reference().clone());
        assert_eq!(decide_beside(former), Decision::Send(expected));
    }
    let terminating = former(being_deleted(&[FINALIZER]));
    let expected = release(terminating.reference().clone());
    assert_eq!(decide_beside(terminating), expected);
}

#[test]
fn it_is_deleted_while_the_new_name_is_taken_so_domains_can_swap_names() {
    let domain = with_reported_status(finalized(), &Admission::Rejected(mk_name_taken()));
    let former = former(json!({}));
    let expected = Request::DeleteTemplate(former.reference().clone());
    let decision = decide_with(&observe(domain, [former]), &findings_with(mk_name_taken()));
    assert_eq!(decision, Decision::Send(expected));
}

#[test]
fn it_stays_while_the_spec_names_no_template_since_pods_may_use_it() {
    for spec in [json!({ "spec": null }), with_template_name("No_Name")] {
        let patch = merged(finalized(), spec);
        let rejection = mk_domain(patch.clone()).template_name().unwrap_err();
        let domain = with_reported_status(patch, &Admission::Rejected(rejection.clone()));
        assert_eq!(
            decide_first(&observe(domain, [former(json!({}))])),
            Decision::Done(Outcome::Rejected(rejection))
        );
    }
}

#[test]
fn a_template_that_only_resembles_one_of_a_former_spec_is_left_alone() {
    for other in [
        former(created_by("kubectl", "Update")),
        former(created_by("compute-domain-controller", "Apply")),
        former(with_device_class("gpu.nvidia.com")),
        former(with_target(Some("Daemon"))),
        former(json!({ "metadata": { "namespace": "team-2" } })),
    ] {
        let expected = Decision::Done(Outcome::Admitted);
        assert_eq!(decide_beside(other.clone()), expected, "{other:?}");
    }
}

#[test]
fn a_template_that_the_api_server_keeps_is_skipped_in_this_reconcile() {
    for template in [former(json!({})), former(being_deleted(&[FINALIZER]))] {
        let observed = observe(ready(), [template, mk_template(json!({}))]);
        assert_eq!(
            decide_with(&observed, &findings_with_kept("copy-uid")),
            Decision::Done(Outcome::Admitted)
        );
    }
}
