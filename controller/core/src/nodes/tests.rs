use super::*;
use crate::fixtures::{finalized, merged, mk_domain};
use crate::{Admission, Rejection, Report, StatusSchema, status_patch};

const CLIQUE: &str = "aaaaaaaa-0000-0000-0000-000000000001.7";
const FULL: StatusSchema = StatusSchema::FULL;

fn node(name: &str, status: &str) -> ComputeDomainNode {
    serde_json::from_value(json!({
        "name": name, "ipAddress": "10.0.0.1", "cliqueID": CLIQUE, "index": 0, "status": status,
    }))
    .unwrap()
}

fn ready(names: &[&str]) -> Vec<ComputeDomainNode> {
    names.iter().map(|name| node(name, "Ready")).collect()
}

fn without_clique(name: &str) -> ComputeDomainNode {
    ComputeDomainNode {
        clique_id: String::new(),
        index: Some(-1),
        ..node(name, "Ready")
    }
}

/// A domain that needs this many nodes and has this status.
fn wants(num_nodes: i64, status: &Value) -> Domain {
    let patch = json!({ "spec": { "numNodes": num_nodes }, "status": status });
    mk_domain(merged(finalized(), patch))
}

fn report(admission: Admission, nodes: Vec<ComputeDomainNode>) -> Report {
    Report {
        nodes: Nodes::known(nodes),
        ..admission.into()
    }
}

fn admitted(nodes: Vec<ComputeDomainNode>) -> Report {
    report(Admission::Admitted, nodes)
}

fn rejected() -> Report {
    report(Admission::Rejected(Rejection::SpecMissing), ready(&["n1"]))
}

fn written(domain: &Domain, report: &Report) -> Value {
    status_patch(domain, report, FULL, Timestamp::UNIX_EPOCH)["status"].take()
}

fn condition(status: &Value) -> &Value {
    let mut conditions = status["conditions"].as_array().unwrap().iter();
    let found = conditions.find(|it| it["type"] == "NodesReady");
    found.unwrap_or(&Value::Null)
}

// req: MODE-22
#[test]
fn a_domain_is_ready_when_it_has_as_many_nodes_as_it_wants_and_all_are_ready() {
    let waiting = vec![node("n1", "Ready"), node("n2", "NotReady")];
    for (num_nodes, nodes, expected, reason) in [
        (0, vec![], "Ready", "NodesReady"),
        (0, ready(&["n1"]), "Ready", "NodesReady"),
        (0, waiting.clone(), "NotReady", "NodesNotReady"),
        (2, vec![], "NotReady", "NodesMissing"),
        (2, ready(&["n1"]), "NotReady", "NodesMissing"),
        (2, waiting.clone(), "NotReady", "NodesNotReady"),
        (3, waiting, "NotReady", "NodesMissing"),
        (2, ready(&["n1", "n2"]), "Ready", "NodesReady"),
        (2, ready(&["n1", "n2", "n3"]), "Ready", "NodesReady"),
        (1, vec![without_clique("n1")], "Ready", "NodesReady"),
        (i64::MAX, ready(&["n1"]), "NotReady", "NodesMissing"),
    ] {
        let status = written(&wants(num_nodes, &Value::Null), &admitted(nodes));
        assert_eq!(status["status"], expected, "{num_nodes} {status}");
        let found = condition(&status);
        assert_eq!(
            (&found["reason"], found["status"] == "True"),
            (&json!(reason), expected == "Ready")
        );
    }
}

// req: MODE-22
#[test]
fn a_domain_with_an_unsupported_allocation_mode_is_never_ready_and_has_the_reason() {
    let patch = json!({ "spec": { "channel": { "allocationMode": "All" } } });
    let domain = mk_domain(merged(finalized(), patch));
    for nodes in [vec![], ready(&["n1"])] {
        let report = admitted(nodes);
        let status = written(&domain, &report);
        assert_eq!(status["status"], "NotReady", "{status}");
        let found = condition(&status);
        assert_eq!(
            (&found["status"], &found["reason"]),
            (&json!("False"), &json!("AllocationModeUnsupported"))
        );
        let message = found["message"].as_str().unwrap();
        assert!(message.contains("allocationMode \"All\""), "{message}");
        // It is still admitted, so that claims are created: the pod's event says what to change.
        assert_eq!(status["conditions"][0]["reason"], "Admitted");
    }
}

// req: MODE-22
#[test]
fn a_rejected_clique_object_is_the_reason_why_its_nodes_are_not_ready() {
    let refused = CliqueRefusal {
        clique: CLIQUE.into(),
        message: "denied by policy".into(),
    };
    let report = Report {
        nodes: Nodes::Known {
            nodes: vec![node("n1", "NotReady")],
            refused: Some(refused),
        },
        ..Admission::Admitted.into()
    };
    let status = written(&wants(1, &Value::Null), &report);
    let ready = condition(&status);
    assert_eq!(
        (&ready["status"], &ready["reason"]),
        (&json!("False"), &json!("CliqueRefused"))
    );
    let message = ready["message"].as_str().unwrap();
    for part in [CLIQUE, "denied by policy"] {
        assert!(message.contains(part), "{message}");
    }
}

// req: MODE-22
#[test]
fn a_domain_without_spec_num_nodes_needs_no_nodes() {
    let absent = json!({ "spec": { "numNodes": null } });
    let domain = mk_domain(merged(finalized(), absent));
    assert_eq!(written(&domain, &admitted(vec![]))["status"], "Ready");
}

// req: MODE-22
#[test]
fn a_domain_that_lacks_nodes_reports_it_and_is_still_admitted() {
    let status = written(&wants(2, &Value::Null), &admitted(vec![]));
    assert_eq!(status["conditions"][0]["type"], "Ready");
    assert_eq!(status["conditions"][0]["status"], "True");
    assert_eq!(
        condition(&status)["message"],
        "nodes with allocated claims: 0 of 2 (spec.numNodes)"
    );
    let domain = wants(2, &status);
    assert!(domain.reported.as_ref().unwrap().was_admitted());
    assert!(!domain.wants_channel());
}

#[test]
fn a_rejected_domain_is_not_ready_and_has_no_condition_about_its_nodes() {
    let status = written(&wants(0, &Value::Null), &rejected());
    assert_eq!(
        (&status["status"], condition(&status)),
        (&json!("NotReady"), &Value::Null)
    );
    assert_eq!(status["nodes"][0]["name"], "n1");
}

#[test]
fn the_message_names_nodes_that_are_not_ready_or_have_no_clique() {
    let names: Vec<_> = (1..8).map(|number| format!("n{number}")).collect();
    let mut nodes: Vec<_> = names.iter().map(|name| node(name, "NotReady")).collect();
    nodes.push(without_clique("n8"));
    let status = written(&wants(0, &Value::Null), &admitted(nodes));
    assert_eq!(
        condition(&status)["message"],
        "nodes with allocated claims: 8; IMEX daemon not ready: n1, n2, n3, n4, n5 and 2 more; not in an NVLink clique, so their pods get no IMEX channel: n8"
    );
}

// req: MODE-21
#[test]
fn the_status_has_every_field_of_each_node_including_empty_ones() {
    let mut bare = without_clique("n1");
    bare.ip_address.clear();
    let status = written(
        &wants(0, &Value::Null),
        &admitted(vec![bare, node("n2", "NotReady")]),
    );
    assert_eq!(
        status["nodes"],
        json!([
            { "name": "n1", "ipAddress": "", "cliqueID": "", "index": -1, "status": "Ready" },
            { "name": "n2", "ipAddress": "10.0.0.1", "cliqueID": CLIQUE, "index": 0, "status": "NotReady" },
        ])
    );
}

#[test]
fn in_host_managed_mode_no_node_is_written_read_or_removed() {
    let theirs = json!({ "status": "Ready", "nodes": [node("n1", "NotReady")] });
    let domain = wants(2, &theirs);
    let report = Report::from(Admission::Admitted);
    let status = written(&domain, &report);
    assert_eq!(
        (&status["status"], &status["nodes"]),
        (&json!("Ready"), &Value::Null)
    );
    assert_eq!(condition(&status), &Value::Null);
    assert_eq!(without_stray_nodes(&domain, &report.nodes), None);
}

// req: MODE-24
#[test]
fn nodes_in_the_status_stay_until_the_nodes_are_known() {
    let before = written(&wants(2, &Value::Null), &admitted(ready(&["n1", "n2"])));
    let domain = wants(2, &before.clone());
    let report = Report {
        nodes: Nodes::Unknown,
        ..Admission::Admitted.into()
    };
    assert!(report.is_reported_in(&domain, FULL));
    assert_eq!(written(&domain, &report), before);
    assert_eq!(without_stray_nodes(&domain, &report.nodes), None);
}

#[test]
fn a_written_status_is_not_written_again_but_a_different_one_is() {
    for report in [admitted(vec![]), admitted(ready(&["n2", "n1"])), rejected()] {
        let domain = wants(2, &written(&wants(2, &Value::Null), &report));
        assert!(report.is_reported_in(&domain, FULL), "{report:?}");
        let mut other = report.clone();
        other.nodes = Nodes::known(ready(&["n1", "n3"]));
        assert!(!other.is_reported_in(&domain, FULL));
        assert!(
            other.is_admission_reported_in(&domain, FULL),
            "no further event"
        );
    }
}

#[test]
fn nodes_are_written_again_if_a_field_differs_but_not_if_the_order_does() {
    let report = admitted(vec![node("n1", "Ready"), node("n2", "Ready")]);
    let mut status = written(&wants(2, &Value::Null), &report);
    status["nodes"].as_array_mut().unwrap().reverse();
    assert!(report.is_reported_in(&wants(2, &status), FULL));
    for (field, value) in [
        ("ipAddress", json!("10.0.0.9")),
        ("cliqueID", json!("")),
        ("index", json!(4)),
    ] {
        let mut status = status.clone();
        status["nodes"][0][field] = value;
        assert!(!report.is_reported_in(&wants(2, &status), FULL), "{field}");
    }
    status["conditions"].as_array_mut().unwrap().pop();
    assert!(!report.is_reported_in(&wants(2, &status), FULL));
}

#[test]
fn the_condition_keeps_its_time_until_its_status_changes() {
    let domain = wants(2, &written(&wants(2, &Value::Null), &admitted(vec![])));
    let now = "2026-01-02T03:04:05Z".parse().unwrap();
    let since = |nodes| {
        let status = status_patch(&domain, &admitted(nodes), FULL, now)["status"].take();
        condition(&status)["lastTransitionTime"].clone()
    };
    assert_eq!(since(ready(&["n1"])), "1970-01-01T00:00:00Z");
    assert_eq!(since(ready(&["n1", "n2"])), "2026-01-02T03:04:05Z");
}

// req: MODE-21
#[test]
fn surplus_nodes_are_removed_one_by_one_and_only_if_they_are_at_the_same_position() {
    let nodes = [
        node("n9", "Ready"),
        node("n1", "Ready"),
        node("n8", "NotReady"),
    ];
    let domain = wants(0, &json!({ "status": "Ready", "nodes": nodes }));
    let known = |names: &[&str]| Nodes::known(ready(names));
    assert_eq!(
        without_stray_nodes(&domain, &known(&["n1"])),
        Some(json!([
            { "op": "test", "path": "/metadata/uid", "value": domain.uid().as_str() },
            { "op": "test", "path": "/status/nodes/2/name", "value": "n8" },
            { "op": "remove", "path": "/status/nodes/2" },
            { "op": "test", "path": "/status/nodes/0/name", "value": "n9" },
            { "op": "remove", "path": "/status/nodes/0" },
        ]))
    );
    assert_eq!(
        without_stray_nodes(&domain, &known(&["n1", "n8", "n9"])),
        None
    );
}
