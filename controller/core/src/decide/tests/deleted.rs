//! A ComputeDomain that is being deleted.

use compute_domain_api::names::FINALIZER;
use serde_json::json;

use super::*;
use crate::fixtures::{
    OF_OTHERS, being_deleted, deleted, mk_daemon_template, with_device_class, with_target,
    with_template_name,
};

fn look_up_template() -> Decision {
    Decision::Send(Request::LookUpTemplate {
        name: "train-a-channel".into(),
    })
}

// req: CD-18
#[test]
fn a_deletion_deletes_the_template_then_removes_its_finalizer_then_the_domains() {
    let domain = || mk_domain(deleted());
    let present = observe(domain(), template_patched(json!({})));
    assert_eq!(decide_first(&present), delete_own());
    let terminating = observe(domain(), template_patched(being_deleted(&[FINALIZER])));
    assert_eq!(decide_first(&terminating), release_own());
    let released = observe(domain(), template_patched(being_deleted(&[])));
    assert_eq!(
        decide_with(&released, &without_template()),
        remove_finalizer()
    );
    let gone = observe(mk_domain(being_deleted(&[])), []);
    assert_eq!(decide_first(&gone), Decision::Done(Outcome::Gone));
}

// req: CD-18
#[test]
fn a_domain_keeps_its_finalizer_until_a_look_up_finds_no_template() {
    let observed = observe(mk_domain(deleted()), []);
    assert_eq!(decide_first(&observed), look_up_template());
    assert_eq!(
        decide_with(&observed, &without_template()),
        remove_finalizer()
    );
}

#[test]
fn a_template_without_label_is_deleted_like_any_other() {
    let observed = observe(mk_domain(deleted()), []);
    for (template, decision) in [
        (unlabelled(json!({})), delete_own()),
        (unlabelled(being_deleted(&[FINALIZER])), release_own()),
        (unlabelled(being_deleted(&[OF_OTHERS])), write_held()),
    ] {
        let findings = findings_with_unlabelled(template);
        assert_eq!(decide_with(&observed, &findings), decision);
    }
}

#[test]
fn a_deletion_blocked_by_other_finalizers_is_reported_once_and_continues_without_them() {
    let template = || template_patched(being_deleted(&[OF_OTHERS]));
    let ready = with_reported_status(deleted(), &Admission::Admitted);
    assert_eq!(decide_first(&observe(ready, template())), write_held());
    let reported = with_reported_status(deleted(), &Admission::Rejected(held()));
    assert_eq!(
        decide_first(&observe(reported.clone(), template())),
        Decision::Done(Outcome::Blocked(mk_reference()))
    );
    assert_eq!(
        decide_with(&observe(reported, []), &without_template()),
        remove_finalizer()
    );
}

#[test]
fn copies_under_other_names_block_nothing() {
    let copy = |patch| {
        let place = json!({ "metadata": { "name": "copy", "uid": "copy-uid" } });
        mk_template(merged(place, patch))
    };
    let held = || mk_template(being_deleted(&[OF_OTHERS]));
    let terminating = || mk_template(being_deleted(&[FINALIZER]));
    let foreign = || copy(with_device_class("gpu.nvidia.com"));
    let leaving = || copy(being_deleted(&[OF_OTHERS]));
    for copy in [copy(json!({})), foreign(), leaving()] {
        let about = |own: Option<ObservedTemplate>| {
            let mut templates = vec![copy.clone()];
            templates.extend(own);
            observe(mk_domain(deleted()), templates)
        };
        assert_eq!(decide_first(&about(Some(terminating()))), release_own());
        assert_eq!(decide_first(&about(Some(held()))), write_held());
        assert_eq!(
            decide_with(&about(None), &without_template()),
            remove_finalizer()
        );
    }
}

#[test]
fn foreign_templates_daemon_templates_and_other_namespaces_are_left_alone() {
    let elsewhere = json!({ "metadata": { "namespace": "team-2" } });
    let not_ours = merged(with_device_class("gpu.nvidia.com"), with_target(None));
    let templates = [
        mk_daemon_template(DRIVER_NAMESPACE),
        mk_daemon_template("team-1"),
        mk_template(elsewhere),
        mk_template(not_ours),
    ];
    let observed = observe(mk_domain(deleted()), templates.clone());
    assert_eq!(
        decide_with(&observed, &without_template()),
        remove_finalizer()
    );
    let observed = observe(mk_domain(being_deleted(&[])), templates);
    assert_eq!(decide_first(&observed), Decision::Done(Outcome::Gone));
}

#[test]
fn driver_managed_objects_do_not_stop_a_deletion() {
    let templates = [mk_daemon_template(DRIVER_NAMESPACE), mk_template(json!({}))];
    let observed = observe(mk_domain(deleted()), templates);
    assert_eq!(decide_first(&observed), delete_own());
}

#[test]
fn a_domain_without_a_usable_spec_is_deleted_without_a_look_up() {
    for patch in [json!({ "spec": null }), with_template_name("A")] {
        let observed = observe(mk_domain(merged(deleted(), patch)), []);
        assert_eq!(decide_first(&observed), remove_finalizer());
    }
}

#[test]
fn a_template_with_only_our_finalizer_is_released_first() {
    let named = |name: &str, finalizers: &[&str]| {
        let place = json!({ "metadata": { "name": name, "uid": name } });
        mk_template(merged(place, being_deleted(finalizers)))
    };
    let domain = || mk_domain(merged(deleted(), json!({ "spec": null })));
    let ours = named("ours", &[FINALIZER]);
    let theirs = named("theirs", &[OF_OTHERS]);
    for templates in [[ours.clone(), theirs.clone()], [theirs, ours.clone()]] {
        let decision = decide_first(&observe(domain(), templates));
        assert_eq!(decision, release(ours.reference().clone()));
    }
}

// req: CD-19
#[test]
fn only_our_own_finalizer_is_removed_from_it() {
    let domain = mk_domain(being_deleted(&[OF_OTHERS, FINALIZER]));
    let Decision::Send(Request::RemoveFinalizer(patch)) =
        decide_with(&observe(domain, []), &without_template())
    else {
        panic!("the finalizer stays");
    };
    assert_eq!(patch[2]["path"], "/metadata/finalizers/1");
    let domain = mk_domain(being_deleted(&[OF_OTHERS]));
    assert_eq!(
        decide_with(&observe(domain, []), &without_template()),
        Decision::Done(Outcome::Gone)
    );
}

// req: CD-19
#[test]
fn a_domain_with_other_finalizers_is_not_ready_before_ours_is_removed() {
    let keep = being_deleted(&[FINALIZER, OF_OTHERS]);
    let ready = with_reported_status(keep.clone(), &Admission::Admitted);
    let decision = decide_with(&observe(ready, []), &without_template());
    let rejection = rejection(decision);
    assert_eq!(rejection.reason(), "BeingDeleted");
    assert!(rejection.message().contains(OF_OTHERS));
    // When the status has that, and also if it never was Ready.
    let rejected = Admission::Rejected(rejection);
    for domain in [
        with_reported_status(keep.clone(), &rejected),
        mk_domain(keep),
        with_reported_status(deleted(), &Admission::Admitted),
    ] {
        let decision = decide_with(&observe(domain, []), &without_template());
        assert!(
            matches!(decision, Decision::Send(Request::RemoveFinalizer(_))),
            "{decision:?}"
        );
    }
}

#[test]
fn the_template_of_a_domain_without_our_finalizer_is_still_deleted() {
    let domain = || mk_domain(being_deleted(&[OF_OTHERS]));
    let present = observe(domain(), template_patched(json!({})));
    assert_eq!(decide_first(&present), delete_own());
    let terminating = observe(domain(), template_patched(being_deleted(&[FINALIZER])));
    assert_eq!(decide_first(&terminating), release_own());
}

#[test]
fn a_domain_waits_and_reports_that_the_api_server_keeps_its_template() {
    for template in [json!({}), being_deleted(&[FINALIZER])] {
        let decide_about = |domain| {
            let observed = observe(domain, template_patched(template.clone()));
            decide_with(&observed, &findings_with_kept(TEMPLATE_UID))
        };
        let ready = with_reported_status(deleted(), &Admission::Admitted);
        assert_eq!(decide_about(ready), write(Admission::Rejected(kept())));
        let reported = with_reported_status(deleted(), &Admission::Rejected(kept()));
        let expected = Decision::Done(Outcome::Blocked(mk_reference()));
        assert_eq!(decide_about(reported), expected);
    }
}
