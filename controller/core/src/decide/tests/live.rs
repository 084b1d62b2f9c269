//! A ComputeDomain that can be admitted.

use compute_domain_api::Sharing;
use compute_domain_api::names::FINALIZER;
use serde_json::json;

use super::*;
use crate::fixtures::{OF_OTHERS, being_deleted, deleted, reported, with_mode, with_template_name};
use crate::{NodeCount, Waiting};

// req: CD-5
#[test]
fn a_new_domain_gets_its_finalizer_before_anything_that_needs_cleaning_up() {
    for templates in [None, Some(mk_template(json!({})))] {
        assert!(matches!(
            decide_first(&observe(mk_domain(json!({})), templates)),
            Decision::Send(Request::AddFinalizer(_))
        ));
    }
}

// req: CD-6
#[test]
fn a_finalized_domain_gets_the_go_drivers_template_with_metadata_for_the_claims() {
    let Decision::Send(Request::CreateTemplate(template)) =
        decide_first(&observe(mk_domain(finalized()), []))
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
                "annotations": { "resource.nvidia.com/computeDomainNamespace": "team-1" },
            },
            "spec": {
                "metadata": {
                    "labels": { "resource.nvidia.com/computeDomain": UID },
                    "annotations": { "resource.nvidia.com/computeDomainName": "train-a" },
                },
                "spec": { "devices": {
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
                } },
            },
        })
    );
}

// req: CD-7
#[test]
fn the_allocation_mode_is_passed_on_and_an_absent_one_is_single() {
    let absent = json!({ "spec": { "channel": { "allocationMode": null } } });
    for (patch, expected) in [
        (with_mode("All"), "All"),
        (with_mode("Shared"), "Shared"),
        (with_mode(""), "Single"),
        (absent, "Single"),
    ] {
        let template =
            serde_json::to_value(claim_template(&mk_domain(patch), Sharing::One).unwrap()).unwrap();
        let parameters = &template["spec"]["spec"]["devices"]["config"][0]["opaque"]["parameters"];
        assert_eq!(parameters["allocationMode"], expected);
    }
}

#[test]
fn a_domain_with_a_template_becomes_ready() {
    let observed = observe(mk_domain(finalized()), template_patched(json!({})));
    assert_eq!(decide_first(&observed), write(Admission::Admitted));
}

#[test]
fn a_ready_domain_needs_nothing() {
    let observed = observe(ready(), template_patched(json!({})));
    assert_eq!(decide_first(&observed), Decision::Done(Outcome::Admitted));
}

#[test]
fn a_ready_without_our_condition_is_written_again() {
    let domain = mk_domain(merged(
        finalized(),
        json!({ "status": { "status": "Ready" } }),
    ));
    let observed = observe(domain, template_patched(json!({})));
    assert_eq!(decide_first(&observed), write(Admission::Admitted));
}

#[test]
fn a_status_about_an_older_generation_is_written_again() {
    let at_first = reported(StatusSchema::FULL, finalized(), &Admission::Admitted);
    let domain = mk_domain(merged(at_first, json!({ "metadata": { "generation": 2 } })));
    let observed = observe(domain, template_patched(json!({})));
    assert_eq!(decide_first(&observed), write(Admission::Admitted));
}

#[test]
fn a_ready_domain_whose_template_is_deleted_gets_it_again() {
    let gone = mk_template(being_deleted(&[]));
    for templates in [None, Some(gone)] {
        assert!(matches!(
            decide_first(&observe(ready(), templates)),
            Decision::Send(Request::CreateTemplate(_))
        ));
    }
}

#[test]
fn a_template_that_a_user_deleted_is_released_and_created_again() {
    for finalizers in [&[FINALIZER][..], &[FINALIZER, OF_OTHERS]] {
        let observed = observe(ready(), template_patched(being_deleted(finalizers)));
        assert_eq!(decide_first(&observed), release_own());
    }
}

#[test]
fn a_template_with_other_finalizers_makes_the_domain_not_ready_and_is_reported_once() {
    let template = || template_patched(being_deleted(&[OF_OTHERS]));
    assert_eq!(decide_first(&observe(ready(), template())), write_held());
    let reported = with_reported_status(finalized(), &Admission::Rejected(held()));
    assert_eq!(
        decide_first(&observe(reported.clone(), template())),
        Decision::Done(Outcome::Rejected(held()))
    );
    assert!(matches!(
        decide_first(&observe(reported, [])),
        Decision::Send(Request::CreateTemplate(_))
    ));
}

#[test]
fn only_a_template_with_the_domains_namespace_and_the_wanted_name_is_its_own() {
    let copies = [
        mk_template(json!({ "metadata": { "namespace": "team-2" } })),
        mk_template(json!({ "metadata": { "name": "copy" } })),
    ];
    for copy in copies {
        assert!(matches!(
            decide_first(&observe(mk_domain(finalized()), [copy])),
            Decision::Send(Request::CreateTemplate(_))
        ));
    }
}

#[test]
fn nodes_are_counted_for_a_ready_domain_whose_claim_has_waited_long_and_the_count_is_written() {
    let with = |waiting| {
        let mut findings = mk_findings();
        findings.waiting = waiting;
        decide_with(&observe(ready(), [mk_template(json!({}))]), &findings)
    };
    let count = |without_clique| {
        Waiting::Counted(NodeCount {
            without_clique,
            all: 4,
        })
    };
    let done = Decision::Done(Outcome::Admitted);
    assert_eq!(with(Waiting::Long), Decision::Send(Request::CountNodes));
    assert_eq!(
        with(count(1)),
        Decision::Send(Request::WriteStatus(Admission::Admitted))
    );
    for waiting in [
        Waiting::Unknown,
        Waiting::Nothing,
        Waiting::Briefly,
        count(0),
    ] {
        assert_eq!(with(waiting), done, "{waiting:?}");
    }
}

#[test]
fn no_node_is_counted_for_a_domain_that_is_rejected_or_being_deleted() {
    let mut findings = mk_findings();
    findings.waiting = Waiting::Long;
    for domain in [
        mk_domain(deleted()),
        mk_domain(merged(finalized(), with_template_name("Train_A"))),
    ] {
        let decision = decide_with(&observe(domain, []), &findings);
        assert_ne!(decision, Decision::Send(Request::CountNodes));
    }
}

#[test]
fn a_crd_without_conditions_causes_no_repeated_count() {
    let schema = StatusSchema {
        conditions: false,
        ..StatusSchema::FULL
    };
    let domain = mk_domain(reported(schema, finalized(), &Admission::Admitted));
    let mut findings = Findings::new(schema);
    findings.stored = mk_findings().stored;
    findings.waiting = Waiting::Counted(NodeCount {
        without_clique: 1,
        all: 4,
    });
    assert!(!matches!(
        decide_with(&observe(domain, [mk_template(json!({}))]), &findings),
        Decision::Send(Request::WriteStatus(_) | Request::CountNodes)
    ));
}
