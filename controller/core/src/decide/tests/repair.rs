//! A template with the right labels or name that differs from what the controller creates.

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

/// Requests and configs that differ from the controller's.
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
fn a_template_as_an_older_api_server_stores_it_is_kept() {
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
fn an_altered_template_loses_its_finalizer_and_is_created_again() {
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
fn changes_that_do_not_affect_claims_are_ignored() {
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
fn a_template_without_the_claims_label_is_replaced_if_the_domain_has_its_own_channel() {
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
    assert!(is_kept(0), "channel 0 is shared");
    assert!(!is_kept(1));
}

#[test]
fn the_go_drivers_single_template_for_mode_all_is_kept_and_not_vice_versa() {
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
    // Our template is from a former spec.
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
fn our_template_without_the_label_is_replaced_without_a_dry_run() {
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
fn a_template_without_label_is_ours_only_if_it_requests_exactly_this_domains_channel() {
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
fn the_content_of_an_unlabelled_template_is_kept_while_it_is_deleted() {
    let before = unlabelled(json!({})).unwrap();
    let labels = json!({ "metadata": { "labels": null } });
    let now = mk_template(merged(labels, being_deleted(&[FINALIZER])));
    assert_ne!(now.content(), before.content());
    let after = before.clone().changed_to(&now);
    assert_eq!(after.content(), before.content());
    assert!(after.is_being_deleted());
}

#[test]
fn our_template_without_the_target_label_is_still_ours() {
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
fn a_template_stays_while_a_new_one_would_be_refused_and_the_reason_is_reported() {
    let altered = || template_patched(with_device_class("gpu.nvidia.com"));
    let decide_after = |refusal| decide_with(&observe(ready(), altered()), &findings_with(refusal));
    let refused = Rejection::TemplateRefused {
        message: "exceeded quota".to_owned(),
    };
    assert_eq!(rejection(decide_after(refused.clone())), refused);
    // That the name was taken, or that the last template was altered, too, does not keep it.
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
fn a_template_that_the_api_server_keeps_makes_the_domain_not_ready() {
    let mut findings = findings_with_kept(TEMPLATE_UID);
    findings.stored = Some(content(&mk_template_object(json!({}))));
    let altered = template_patched(with_device_class("gpu.nvidia.com"));
    let decision = decide_with(&observe(ready(), altered), &findings);
    assert_eq!(rejection(decision), kept());
}
