//! A template that is not what the controller creates, although it has the labels or the place.

use compute_domain_api::names::FINALIZER;
use serde_json::json;

use super::*;
use crate::fixtures::{
    being_deleted, deleted, mk_template_for, with_device_class, with_mode, with_target,
};

fn content(object: &ResourceClaimTemplate) -> Content {
    Content::new(&object.spec.spec, UID)
}

/// The API server stores this for the template that we would create.
fn stored(object: &ResourceClaimTemplate) -> Findings {
    Findings {
        stored: Some(content(object)),
        ..mk_findings()
    }
}

/// Other requests or configs than those that the controller writes.
fn alterations() -> Vec<Value> {
    let devices = |devices: Value| json!({ "spec": { "spec": { "devices": devices } } });
    let class = "compute-domain-default-channel.nvidia.com";
    let other_name = json!([{ "name": "x", "exactly": { "deviceClassName": class } }]);
    let other_driver = json!([{ "requests": ["channel"], "opaque": {
        "driver": "gpu.nvidia.com", "parameters": {},
    } }]);
    vec![
        with_device_class("gpu.nvidia.com"),
        devices(json!({ "requests": other_name })),
        devices(json!({ "config": other_driver })),
        devices(json!({ "config": [] })),
        devices(json!({ "requests": null })),
    ]
}

#[test]
fn an_altered_template_is_deleted_only_after_a_dry_run_has_shown_what_the_server_stores() {
    let ours = mk_template_object(json!({}));
    for alteration in alterations() {
        let observed = observe(ready(), template_patched(alteration.clone()));
        let Decision::Send(Request::DryRunTemplate(template)) = decide_first(&observed) else {
            panic!("no dry run: {alteration}");
        };
        assert_eq!(template.spec, ours.spec);
        let decision = decide_with(&observed, &stored(&ours));
        assert_eq!(decision, delete_own(), "{alteration}");
    }
}

#[test]
fn one_that_is_what_an_older_server_makes_of_ours_is_left_as_it_is() {
    for alteration in alterations() {
        let object = mk_template_object(alteration);
        let observed = observe(ready(), [ObservedTemplate::new(&object)]);
        assert_eq!(
            decide_with(&observed, &stored(&object)),
            Decision::Done(Outcome::Admitted)
        );
    }
}

#[test]
fn then_it_loses_its_finalizer_and_is_created_again() {
    let ours = stored(&mk_template_object(json!({})));
    let altered = merged(
        with_device_class("gpu.nvidia.com"),
        being_deleted(&[FINALIZER]),
    );
    let observed = observe(ready(), template_patched(altered));
    assert_eq!(decide_with(&observed, &ours), release_own());
    assert!(matches!(
        decide_with(&observe(ready(), []), &ours),
        Decision::Send(Request::CreateTemplate(_))
    ));
}

#[test]
fn what_does_not_matter_to_claims_is_nobodys_business() {
    let annotation = json!({ "metadata": { "annotations": { "a": "b" }, "labels": { "c": "d" } } });
    let of_go = json!({ "spec": { "metadata": null } });
    let finalizers = json!({ "metadata": { "finalizers": null } });
    for patch in [annotation, of_go, finalizers] {
        let observed = observe(ready(), template_patched(patch));
        assert_eq!(decide_first(&observed), Decision::Done(Outcome::Admitted));
    }
}

// req: MODE-31
#[test]
fn one_without_the_label_for_its_claims_is_made_again_where_the_domain_has_a_channel_of_its_own() {
    let of_go = || template_patched(json!({ "spec": { "metadata": null } }));
    let is_kept = |number: u32| {
        let status = json!({ "status": { "status": "NotReady", "channel": number } });
        let domain = mk_domain(merged(finalized(), status));
        match decide_first(&observe(domain, of_go())) {
            Decision::Send(Request::WriteStatus(_)) => true,
            Decision::Send(Request::DryRunTemplate(_)) => false,
            decision => panic!("neither kept nor altered: {decision:?}"),
        }
    };
    assert!(is_kept(0), "channel 0 is every domain's");
    assert!(!is_kept(1));
}

#[test]
fn the_go_drivers_single_for_a_domain_of_all_is_kept_and_not_the_other_way_round() {
    let of_mode = |mode: &str| mk_domain(merged(finalized(), with_mode(mode)));
    let of_go = || json!({ "metadata": { "annotations": null } });
    let kept = |domain: &str, template: &str, made_by| {
        let template = mk_template_for(&of_mode(template), made_by);
        let observed = observe(of_mode(domain), [ObservedTemplate::new(&template)]);
        match decide_first(&observed) {
            Decision::Send(Request::WriteStatus(Admission::Admitted)) => true,
            Decision::Send(Request::DryRunTemplate(_)) => false,
            decision => panic!("neither kept nor altered: {decision:?}"),
        }
    };
    for (domain, template, expected) in [
        ("All", "All", true),
        ("All", "Single", true),
        ("Single", "Single", true),
        ("Single", "All", false),
        ("Shared", "Shared", true),
        ("Shared", "Single", false),
    ] {
        let kept = kept(domain, template, of_go());
        assert_eq!(kept, expected, "{domain}, {template}");
    }
    // Ours is of a former spec.
    assert!(!kept("All", "Single", json!({})));
    assert!(kept("All", "All", json!({})));
}

#[test]
fn a_template_of_which_only_the_metadata_could_be_decoded_is_left_alone() {
    let object = mk_template_object(with_device_class("gpu.nvidia.com"));
    let template = ObservedTemplate::undecodable(&object.metadata);
    let observed = observe(ready(), [template]);
    assert_eq!(decide_first(&observed), Decision::Done(Outcome::Admitted));
}

#[test]
fn ours_without_the_label_is_made_again_without_a_dry_run() {
    let observed = observe(ready(), []);
    for (template, decision) in [
        (unlabelled(json!({})), delete_own()),
        (unlabelled(being_deleted(&[FINALIZER])), release_own()),
    ] {
        let findings = findings_with_unlabelled(template);
        assert_eq!(decide_with(&observed, &findings), decision);
    }
}

#[test]
fn one_without_label_is_ours_only_if_it_asks_for_exactly_this_domains_channel() {
    assert!(unlabelled(json!({})).is_some());
    for alteration in alterations() {
        assert_eq!(unlabelled(alteration.clone()), None, "{alteration}");
    }
    let other = mk_domain(json!({ "metadata": { "uid": "other-uid" } }));
    let labels = json!({ "metadata": { "labels": null } });
    let of_other = mk_template_for(&other, labels);
    let uid = mk_domain(json!({})).uid().clone();
    assert_eq!(ObservedTemplate::without_label(&of_other, &uid), None);
    let labelled = mk_template_object(json!({}));
    assert_eq!(ObservedTemplate::without_label(&labelled, &uid), None);
}

#[test]
fn what_an_unlabelled_template_asks_for_is_remembered_while_it_is_deleted() {
    let before = unlabelled(json!({})).unwrap();
    let labels = json!({ "metadata": { "labels": null } });
    let now = mk_template(merged(labels, being_deleted(&[FINALIZER])));
    assert_ne!(now.content(), before.content());
    let after = before.clone().changed_to(&now);
    assert_eq!(after.content(), before.content());
    assert!(after.is_being_deleted());
}

#[test]
fn ours_without_the_label_of_its_target_is_still_ours() {
    let ours = stored(&mk_template_object(json!({})));
    let template = || template_patched(with_target(None));
    assert_eq!(
        decide_with(&observe(ready(), template()), &ours),
        delete_own()
    );
    assert_eq!(
        decide_first(&observe(mk_domain(deleted()), template())),
        delete_own()
    );
    let [template] = template();
    assert!(template.is_of(&ready()));
}

#[test]
fn one_stays_while_another_could_not_be_created_and_the_reason_is_reported() {
    let altered = || template_patched(with_device_class("gpu.nvidia.com"));
    let decide_after = |refusal| decide_with(&observe(ready(), altered()), &findings_with(refusal));
    let refused = Rejection::TemplateRefused {
        message: "exceeded quota".to_owned(),
    };
    assert_eq!(rejection(decide_after(refused.clone())), refused);
    // That its name was taken, or that the last one was altered, too, says nothing about it.
    for other in [
        mk_name_taken(),
        Rejection::TemplateChanged {
            template: mk_reference(),
        },
    ] {
        assert!(matches!(
            decide_after(other),
            Decision::Send(Request::DryRunTemplate(_))
        ));
    }
}

#[test]
fn one_that_the_api_server_keeps_makes_the_domain_not_ready() {
    let mut findings = findings_with_kept(TEMPLATE_UID);
    findings.stored = Some(content(&mk_template_object(json!({}))));
    let altered = template_patched(with_device_class("gpu.nvidia.com"));
    let decision = decide_with(&observe(ready(), altered), &findings);
    assert_eq!(rejection(decision), kept());
}
