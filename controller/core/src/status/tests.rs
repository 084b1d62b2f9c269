use super::*;
use crate::fixtures::{finalized, merged, mk_domain, reported, with_reported_status};

const WITHOUT_CONDITIONS: StatusSchema = StatusSchema {
    conditions: false,
    observed_generation: true,
    channel: true,
};

/// The Go driver's CRD.
const MINIMAL: StatusSchema = StatusSchema {
    conditions: false,
    observed_generation: false,
    channel: false,
};

fn mk_message(field: &str) -> String {
    format!(
        "failed to create typed patch object (team-1/train-a; resource.nvidia.com/v1beta1, Kind=ComputeDomain): .status.{field}: field not declared in schema"
    )
}

fn rejected(message: &str) -> Admission {
    Admission::Rejected(Rejection::Unreadable {
        message: message.to_owned(),
    })
}

fn now() -> Timestamp {
    "2026-01-02T03:04:05.678Z".parse().unwrap()
}

// req: CD-8
#[test]
fn the_status_patch_has_our_fields_and_no_others() {
    let domain = mk_domain(finalized());
    let patch = status_patch(
        &domain,
        &Admission::Admitted.into(),
        StatusSchema::FULL,
        now(),
    );
    assert_eq!(
        patch,
        json!({
            "apiVersion": "resource.nvidia.com/v1beta1",
            "kind": "ComputeDomain",
            "metadata": { "name": "train-a", "namespace": "team-1", "uid": domain.uid() },
            "status": {
                "status": "Ready",
                "observedGeneration": 1,
                "conditions": [{
                    "type": "Ready",
                    "status": "True",
                    "reason": "Admitted",
                    "message": "the ResourceClaimTemplate for the workload exists; the administrator runs IMEX on the nodes",
                    "observedGeneration": 1,
                    "lastTransitionTime": "2026-01-02T03:04:05Z",
                }],
            },
        })
    );
}

#[test]
fn fields_that_the_crd_lacks_are_left_out() {
    let domain = mk_domain(finalized());
    let status =
        |schema| status_patch(&domain, &Admission::Admitted.into(), schema, now())["status"].take();
    assert_eq!(status(MINIMAL), json!({ "status": "Ready" }));
    assert_eq!(
        status(WITHOUT_CONDITIONS),
        json!({ "status": "Ready", "observedGeneration": 1 })
    );
}

#[test]
fn a_written_status_is_not_written_again_with_any_crd() {
    for schema in [StatusSchema::FULL, WITHOUT_CONDITIONS, MINIMAL] {
        for admission in [Admission::Admitted, rejected("x")] {
            let before = mk_domain(finalized());
            let report = Report::from(admission.clone());
            assert!(!report.is_reported_in(&before, schema), "{schema:?}");
            let after = mk_domain(reported(schema, finalized(), &admission));
            assert!(report.is_reported_in(&after, schema), "{schema:?}");
        }
    }
}

#[test]
fn a_reduced_status_is_completed_when_the_crd_has_all_fields() {
    for schema in [WITHOUT_CONDITIONS, MINIMAL] {
        let cut = mk_domain(reported(schema, finalized(), &Admission::Admitted));
        assert!(!Report::from(Admission::Admitted).is_reported_in(&cut, StatusSchema::FULL));
    }
}

#[test]
fn a_difference_in_any_part_of_the_status_causes_a_write() {
    let condition = |field: &str, value: Value| {
        let mut patch = reported(StatusSchema::FULL, finalized(), &Admission::Admitted);
        patch["status"]["conditions"][0][field] = value;
        patch
    };
    let mut state = condition("type", json!("Ready"));
    state["status"]["status"] = json!("NotReady");
    let mut generation = condition("type", json!("Ready"));
    generation["status"]["observedGeneration"] = json!(7);
    for patch in [
        state,
        generation,
        condition("type", json!("Other")),
        condition("status", json!("False")),
        condition("reason", json!("Other")),
        condition("message", json!("other")),
    ] {
        let domain = mk_domain(patch.clone());
        assert!(
            !Report::from(Admission::Admitted).is_reported_in(&domain, StatusSchema::FULL),
            "{patch}"
        );
    }
}

#[test]
fn the_transition_time_changes_only_when_the_condition_does() {
    let domain = with_reported_status(finalized(), &rejected("x"));
    let since = |admission: &Admission| {
        let patch = status_patch(
            &domain,
            &admission.clone().into(),
            StatusSchema::FULL,
            now(),
        );
        patch["status"]["conditions"][0]["lastTransitionTime"].clone()
    };
    assert_eq!(since(&rejected("y")), "1970-01-01T00:00:00Z");
    assert_eq!(since(&Admission::Admitted), "2026-01-02T03:04:05Z");
}

#[test]
fn the_api_servers_message_names_the_field_that_the_crd_lacks() {
    let full = StatusSchema::FULL;
    let conditions = mk_message("conditions");
    assert_eq!(
        full.without_undeclared(&conditions),
        Some(WITHOUT_CONDITIONS)
    );
    let [generation, channel] = ["observedGeneration", "channel"].map(mk_message);
    let all = format!("{conditions} {generation} {channel}");
    assert_eq!(full.without_undeclared(&all), Some(MINIMAL));
    let both = format!("{generation} {channel}");
    assert_eq!(WITHOUT_CONDITIONS.without_undeclared(&both), Some(MINIMAL));
    assert_eq!(MINIMAL.without_undeclared(&all), None);
    for other in [
        "",
        "conditions",
        &mk_message("status"),
        &mk_message("nodes"),
    ] {
        assert_eq!(full.without_undeclared(other), None, "{other}");
    }
}

// req: CHANNEL-8
#[test]
fn a_channel_in_the_status_stays_in_every_later_status() {
    let with_channel = merged(
        finalized(),
        json!({ "status": { "status": "NotReady", "channel": 7 } }),
    );
    let domain = mk_domain(with_channel);
    for admission in [
        Admission::Admitted,
        Admission::NotIsolated,
        Admission::Assigned(9),
        rejected("x"),
    ] {
        let channel = |schema| {
            status_patch(&domain, &admission.clone().into(), schema, now())["status"]["channel"]
                .take()
        };
        assert_eq!(channel(StatusSchema::FULL), 7, "{admission:?}");
        assert_eq!(channel(MINIMAL), Value::Null, "{admission:?}");
    }
}

#[test]
fn the_first_status_with_a_channel_is_not_ready_and_has_the_next_step() {
    let domain = mk_domain(finalized());
    let assigned = Report::from(Admission::Assigned(7));
    let patch = status_patch(&domain, &assigned, StatusSchema::FULL, now());
    let status = &patch["status"];
    assert_eq!(
        (&status["status"], &status["channel"]),
        (&json!("NotReady"), &json!(7))
    );
    assert_eq!(status["conditions"][0]["status"], "False");
    assert_eq!(status["conditions"][0]["reason"], "ChannelAssigned");
    let written = mk_domain(merged(finalized(), json!({ "status": status })));
    assert_eq!(written.channel(), Some(7));
    assert!(assigned.is_reported_in(&written, StatusSchema::FULL));
}

#[test]
fn a_domain_without_isolation_has_a_condition_until_it_is_admitted_otherwise() {
    let not_isolated = with_reported_status(finalized(), &Admission::NotIsolated);
    assert_eq!(not_isolated.channel(), Some(0));
    assert!(Report::from(Admission::NotIsolated).is_reported_in(&not_isolated, StatusSchema::FULL));
    assert!(!Report::from(Admission::Admitted).is_reported_in(&not_isolated, StatusSchema::FULL));
    let conditions = |admission: &Admission| {
        let patch = status_patch(
            &not_isolated,
            &admission.clone().into(),
            StatusSchema::FULL,
            now(),
        );
        patch["status"]["conditions"].clone()
    };
    let again = conditions(&Admission::NotIsolated);
    assert_eq!(again[1]["type"], "NotIsolated");
    assert_eq!(again[1]["lastTransitionTime"], "1970-01-01T00:00:00Z");
    assert_eq!(conditions(&Admission::Admitted)[1], Value::Null);
    let before = with_reported_status(finalized(), &Admission::Admitted);
    assert!(!Report::from(Admission::NotIsolated).is_reported_in(&before, StatusSchema::FULL));
}
