//! Templates whose ComputeDomain the watch does not have.

use compute_domain_api::names::FINALIZER;
use serde_json::json;

use super::*;
use crate::fixtures::{
    OF_OTHERS, TIME, being_deleted, daemon_in, mk_daemon_template, mk_template_for,
    with_device_class, with_mode, with_target,
};

const NOTHING: Decision = Decision::Done(Outcome::Gone);

/// The API server has no ComputeDomain of the UID in these namespaces.
fn absent_in(namespaces: &[&str]) -> Findings {
    Findings {
        absent_in: namespaces.iter().map(|name| (*name).into()).collect(),
        ..mk_findings()
    }
}

fn look_up(namespace: &str, name: Option<&str>) -> Decision {
    Decision::Send(Request::LookUpDomain {
        namespace: namespace.into(),
        name: name.map(Into::into),
    })
}

// req: CD-22
#[test]
fn a_template_is_not_changed_before_its_domain_was_looked_up() {
    for patch in [json!({}), being_deleted(&[FINALIZER])] {
        let observed = observe_orphans(template_patched(patch));
        assert_eq!(decide_first(&observed), look_up("team-1", Some("train-a")));
    }
}

#[test]
fn our_template_is_deleted_once_its_domain_is_absent() {
    let decide_about = |patch| {
        let observed = observe_orphans(template_patched(patch));
        decide_with(&observed, &absent_in(&["team-1"]))
    };
    assert_eq!(decide_about(json!({})), delete_own());
    assert_eq!(decide_about(being_deleted(&[FINALIZER])), release_own());
    assert_eq!(decide_about(being_deleted(&[])), NOTHING);
}

#[test]
fn a_template_of_either_mode_or_without_the_target_label_is_deleted_too() {
    let all = mk_template_for(&mk_domain(with_mode("All")), json!({}));
    for template in [ObservedTemplate::new(&all), mk_template(with_target(None))] {
        let observed = observe_orphans([template]);
        assert_eq!(
            decide_with(&observed, &absent_in(&["team-1"])),
            delete_own()
        );
    }
}

#[test]
fn the_go_drivers_template_has_no_domain_name_so_its_namespace_is_searched() {
    let of_go = || template_patched(json!({ "spec": { "metadata": null } }));
    assert_eq!(
        decide_first(&observe_orphans(of_go())),
        look_up("team-1", None)
    );
    assert_eq!(
        decide_with(&observe_orphans(of_go()), &absent_in(&["team-1"])),
        delete_own()
    );
}

#[test]
fn a_domain_is_looked_up_in_each_namespace_in_which_a_template_names_it() {
    // The Go driver's template does not name its ComputeDomain's namespace.
    let copy = mk_template(json!({ "metadata": {
        "namespace": "team-2", "uid": "copy-uid", "annotations": null,
    } }));
    let of_copy = copy.reference().clone();
    let observed = observe_orphans([copy, mk_template(json!({}))]);
    assert_eq!(decide_first(&observed), look_up("team-2", Some("train-a")));
    // Only the template in the namespace without the domain is deleted.
    assert_eq!(
        decide_with(&observed, &absent_in(&["team-2"])),
        Decision::Send(Request::DeleteTemplate(of_copy.clone()))
    );
    let held = mk_template(json!({ "metadata": {
        "namespace": "team-2", "uid": "copy-uid", "deletionTimestamp": TIME,
        "finalizers": [OF_OTHERS],
    } }));
    let observed = observe_orphans([held, mk_template(json!({}))]);
    assert_eq!(
        decide_with(&observed, &absent_in(&["team-2"])),
        look_up("team-1", Some("train-a"))
    );
}

#[test]
fn a_foreign_object_with_our_labels_is_never_deleted_and_costs_no_request() {
    let foreign = with_device_class("gpu.nvidia.com");
    let undecodable = {
        let object = mk_template_object(json!({}));
        ObservedTemplate::undecodable(&object.metadata)
    };
    let no_uid = mk_template(json!({ "metadata": { "labels": {
        "resource.nvidia.com/computeDomain": "a/b",
    } } }));
    let held = mk_template(being_deleted(&[OF_OTHERS]));
    for template in [mk_template(foreign), undecodable, no_uid, held] {
        let observed = observe_orphans([template]);
        assert_eq!(decide_first(&observed), NOTHING);
        assert_eq!(decide_with(&observed, &absent_in(&["team-1"])), NOTHING);
    }
}

#[test]
fn a_copy_in_another_namespace_is_not_deleted() {
    let elsewhere = json!({ "metadata": { "namespace": "team-2" } });
    let observed = observe_orphans([mk_template(elsewhere.clone())]);
    assert_eq!(decide_with(&observed, &absent_in(&["team-2"])), NOTHING);
    let deleted = mk_template(merged(elsewhere, being_deleted(&[FINALIZER])));
    let reference = deleted.reference().clone();
    let released = decide_with(&observe_orphans([deleted]), &absent_in(&["team-2"]));
    assert!(matches!(
        released,
        Decision::Send(Request::RemoveTemplateFinalizer(of, _)) if of == reference
    ));
}

#[test]
fn a_copy_loses_our_finalizer_when_its_owner_deletes_it() {
    let foreign = merged(
        with_device_class("gpu.nvidia.com"),
        being_deleted(&[FINALIZER]),
    );
    let observed = observe_orphans(template_patched(foreign));
    assert_eq!(decide_first(&observed), look_up("team-1", Some("train-a")));
    assert_eq!(
        decide_with(&observed, &absent_in(&["team-1"])),
        release_own()
    );
}

#[test]
fn templates_of_the_driver_managed_mode_are_not_touched_even_when_they_are_deleted() {
    let daemon = mk_daemon_template(DRIVER_NAMESPACE);
    let deleted = mk_template(merged(
        daemon_in(DRIVER_NAMESPACE),
        being_deleted(&[FINALIZER]),
    ));
    for template in [daemon, deleted] {
        let observed = observe_orphans([template]);
        assert_eq!(decide_first(&observed), NOTHING);
        let absent = absent_in(&["team-1", DRIVER_NAMESPACE]);
        assert_eq!(decide_with(&observed, &absent), NOTHING);
    }
}

#[test]
fn a_uid_without_objects_is_done() {
    assert_eq!(decide_first(&Observed::default()), NOTHING);
}

#[test]
fn a_template_that_the_api_server_keeps_does_not_block_the_others() {
    let other = json!({ "metadata": { "name": "z-other", "uid": "other-uid" } });
    let mut findings = findings_with_kept(TEMPLATE_UID);
    findings.absent_in = vec!["team-1".into()];
    for kept in [json!({}), being_deleted(&[FINALIZER])] {
        let templates = [mk_template(kept), mk_template(other.clone())];
        let expected = Request::DeleteTemplate(templates[1].reference().clone());
        let observed = observe_orphans(templates);
        let decision = decide_with(&observed, &findings);
        assert_eq!(decision, Decision::Send(expected));
    }
    let alone = observe_orphans(template_patched(json!({})));
    assert_eq!(decide_with(&alone, &findings), NOTHING);
}
