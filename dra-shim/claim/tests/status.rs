//! Claim statuses from the API server.
#![expect(clippy::unwrap_used, reason = "a test helper")]

use dra_claim::{ClaimStatus, ConfigSource, DeviceConfig};
use serde_json::{Value, json};

fn status(json: &str) -> ClaimStatus {
    ClaimStatus::from_json(json).unwrap()
}

#[test]
fn results_and_configs_can_be_read() {
    let status = status(
        r#"{"allocation": {"devices": {
            "results": [{"request": "r/sub", "driver": "d", "pool": "p", "device": "x",
                         "adminAccess": true, "shareID": "s"}],
            "config": [{"source": "FromClaim", "requests": ["r"],
                        "opaque": {"driver": "d", "parameters": {"b": 1.0, "a": "<", "b": 2}}},
                       {"source": "FromClass"}]}}}"#,
    );
    let [result] = status.results() else {
        panic!("one result")
    };
    assert_eq!((result.request(), result.driver()), ("r/sub", "d"));
    assert_eq!((result.pool(), result.device()), ("p", "x"));
    assert_eq!(
        (result.admin_access(), result.share_id()),
        (true, Some("s"))
    );
    let [claim, class] = status.configs() else {
        panic!("two configs")
    };
    assert_eq!(
        (claim.source(), claim.requests()),
        (Ok(ConfigSource::Claim), &["r".to_owned()][..])
    );
    assert_eq!(claim.driver(), Some("d"));
    assert_eq!(claim.parameters(), r#"{"b":1.0,"a":"\u003c","b":2}"#);
    assert_eq!(class.source(), Ok(ConfigSource::Class));
    assert_eq!((class.driver(), class.parameters()), (None, "null"));
}

#[test]
fn a_consumer_has_a_name_and_if_it_is_a_pod_a_uid() {
    let status = status(
        r#"{"reservedFor": [{"resource": "pods", "name": "worker-0", "uid": "u"},
            {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "group", "uid": "g"},
            {"apiGroup": "other.example.com", "resource": "pods", "name": "other", "uid": "o"}]}"#,
    );
    let consumers = status.reserved_for().iter();
    let read: Vec<_> = consumers.map(|it| (it.name(), it.pod_uid())).collect();
    let expected = [("worker-0", Some("u")), ("group", None), ("other", None)];
    assert_eq!(read, expected);
}

#[test]
fn fields_that_go_does_not_know_are_dropped() {
    let newer = status(r#"{"new": 1, "allocation": {"new": [], "devices": {"new": {}}}}"#);
    assert_eq!(newer.to_json(), r#"{"allocation":{"devices":{}}}"#);
}

#[test]
fn nulls_and_omissions_are_written_like_in_go() {
    for (given, written) in [
        ("null", "{}"),
        ("{}", "{}"),
        (
            r#"{"allocation":null,"reservedFor":null,"devices":[]}"#,
            "{}",
        ),
        (r#"{"allocation":{}}"#, r#"{"allocation":{"devices":{}}}"#),
        (
            r#"{"allocation":{"devices":{"config":[{"opaque":{"driver":"d","parameters":null}}]}}}"#,
            r#"{"allocation":{"devices":{"config":[{"source":"","opaque":{"driver":"d","parameters":null}}]}}}"#,
        ),
        (
            r#"{"allocation":{"nodeSelector":{},"allocationTimestamp":"2026-08-07T12:34:56.789+02:00"}}"#,
            r#"{"allocation":{"devices":{},"nodeSelector":{"nodeSelectorTerms":null},"allocationTimestamp":"2026-08-07T10:34:56Z"}}"#,
        ),
        (
            r#"{"allocation":{"devices":{"results":[{"adminAccess":false,"request":null,"consumedCapacity":{"b":"1","a":"1Gi"}}]}}}"#,
            r#"{"allocation":{"devices":{"results":[{"request":"","driver":"","pool":"","device":"","adminAccess":false,"consumedCapacity":{"a":"1Gi","b":"1"}}]}}}"#,
        ),
        (
            r#"{"devices":[{"conditions":[{"observedGeneration":0,"lastTransitionTime":"0001-01-01T00:00:00Z"}],"data":null}]}"#,
            r#"{"devices":[{"driver":"","pool":"","device":"","conditions":[{"type":"","status":"","lastTransitionTime":null,"reason":"","message":""}]}]}"#,
        ),
    ] {
        assert_eq!(status(given).to_json(), written);
        assert_eq!(
            status(written).to_json(),
            written,
            "reading it back changes nothing"
        );
    }
}

// req: CKPT-17
#[test]
fn equal_means_semantically_equal() {
    for (left, right) in [
        (r#"{"reservedFor":[]}"#, r#"{"reservedFor":null}"#),
        (
            r#"{"devices":[{"conditions":null}]}"#,
            r#"{"devices":[{"conditions":[]}]}"#,
        ),
        (
            r#"{"allocation":{"devices":{"results":[{"consumedCapacity":{"m":"1Gi"}}]}}}"#,
            r#"{"allocation":{"devices":{"results":[{"consumedCapacity":{"m":"1024Mi"}}]}}}"#,
        ),
        (
            r#"{"allocation":{"allocationTimestamp":"2026-08-07T10:34:56Z"}}"#,
            r#"{"allocation":{"allocationTimestamp":"2026-08-07T12:34:56+02:00"}}"#,
        ),
        (
            r#"{"devices":[{"data":{"a": 1}}]}"#,
            r#"{"devices":[{"data":{"a":1}}]}"#,
        ),
    ] {
        assert_eq!(status(left), status(right));
    }
}

// req: CKPT-17
#[test]
fn another_consumer_or_another_device_is_another_status() {
    for (left, right) in [
        (
            r#"{"reservedFor":[{"uid":"a"}]}"#,
            r#"{"reservedFor":[{"uid":"b"}]}"#,
        ),
        (r#"{"allocation":{}}"#, "{}"),
        (
            r#"{"allocation":{"devices":{"results":[{"device":"channel-0"}]}}}"#,
            r#"{"allocation":{"devices":{"results":[{"device":"channel-1"}]}}}"#,
        ),
        (
            r#"{"allocation":{"devices":{"results":[{"adminAccess":false}]}}}"#,
            r#"{"allocation":{"devices":{"results":[{}]}}}"#,
        ),
        (
            r#"{"devices":[{"data":{"a":1}}]}"#,
            r#"{"devices":[{"data":{"a":1.0}}]}"#,
        ),
    ] {
        assert_ne!(status(left), status(right));
    }
}

#[test]
fn a_text_that_is_not_a_status_is_an_error_with_a_source() {
    let err = ClaimStatus::from_json(r#"{"allocation":7}"#).unwrap_err();
    assert_eq!(err.code(), "invalid-claim-status");
    assert!(std::error::Error::source(&err).is_some());
}

#[test]
fn an_array_in_place_of_any_object_is_an_error() {
    for (path, in_a_list) in [
        ("", false),
        ("allocation", false),
        ("reservedFor", true),
        ("devices", true),
        ("devices.[].conditions", true),
        ("devices.[].networkData", false),
        ("allocation.devices", false),
        ("allocation.devices.results", true),
        ("allocation.devices.results.[].tolerations", true),
        ("allocation.devices.config", true),
        ("allocation.devices.config.[].opaque", false),
        ("allocation.nodeSelector", false),
        ("allocation.nodeSelector.nodeSelectorTerms", true),
        (
            "allocation.nodeSelector.nodeSelectorTerms.[].matchExpressions",
            true,
        ),
        (
            "allocation.nodeSelector.nodeSelectorTerms.[].matchFields",
            true,
        ),
    ] {
        for (value, fits) in [("{}", true), ("[]", false), ("[{}]", false)] {
            let innermost = if in_a_list {
                format!("[{value}]")
            } else {
                value.to_owned()
            };
            let text = path.rsplit('.').fold(innermost, |inner, part| match part {
                "" => inner,
                "[]" => format!("[{inner}]"),
                member => format!(r#"{{"{member}":{inner}}}"#),
            });
            assert_eq!(ClaimStatus::from_json(&text).is_ok(), fits, "{text}");
        }
    }
}

#[test]
fn a_whole_claim_is_a_status_without_an_allocation() {
    let claim = r#"{"kind":"ResourceClaim","metadata":{},"status":{"allocation":{}}}"#;
    assert_eq!(status(claim), ClaimStatus::default());
    assert!(!status(claim).is_allocated());
}

// req: KUBELET-20
#[test]
fn a_config_applies_to_all_requests_or_to_the_base_name_or_the_exact_one() {
    let status = status(
        r#"{"allocation": {"devices": {
            "results": [{"request": "a/fast", "driver": "d"}, {"request": "c", "driver": "d"}],
            "config": [{"source": "FromClass"}, {"source": "FromClaim", "requests": ["a"]},
                       {"source": "FromClaim", "requests": ["a/fast"]}]}}}"#,
    );
    let [fast, other] = status.results() else {
        panic!("two results")
    };
    assert_eq!((fast.base_request(), other.base_request()), ("a", "c"));
    let applies = |result| status.configs().iter().map(move |it| it.applies_to(result));
    assert!(applies(fast).eq([true, true, true]));
    assert!(applies(other).eq([true, false, false]));
}

#[test]
fn a_drivers_configs_come_from_the_class_first_and_then_from_the_claim() {
    let config = |source, driver, n| {
        format!(
            r#"{{"source": "{source}", "opaque": {{"driver": "{driver}", "parameters": {n}}}}}"#
        )
    };
    let configs = [
        config("FromClaim", "d", 2),
        config("FromClass", "other", 0),
        config("FromClass", "d", 1),
        config("FromTheFuture", "d", 0),
        config("FromClaim", "d", 3),
    ];
    let status = status(&format!(
        r#"{{"allocation": {{"devices": {{"config": [{}]}}}}}}"#,
        configs.join(",")
    ));
    let found = status.configs_of("d").map(DeviceConfig::parameters);
    assert!(found.eq(["1", "2", "3"]));
    assert_eq!(status.configs()[3].source(), Err("FromTheFuture"));
}

fn name_is(operator: &str, node: &str) -> Value {
    json!({"matchFields": [{"key": "metadata.name", "operator": operator, "values": [node]}]})
}

#[test]
fn a_selector_excludes_a_node_only_if_every_term_names_other_nodes() {
    let may_be_for_n1 = |selector: &Value| {
        let json = json!({"allocation": {"nodeSelector": selector}});
        status(&json.to_string()).may_be_for_node("n1")
    };
    let label = json!({"matchExpressions": [
        {"key": "zone", "operator": "In", "values": ["elsewhere"]},
    ]});
    let other_field = json!({"matchFields": [
        {"key": "metadata.uid", "operator": "In", "values": ["x"]},
    ]});
    let terms = |terms: &[Value]| json!({ "nodeSelectorTerms": terms });
    let here = [
        Value::Null,
        json!({}),
        terms(&[]),
        terms(&[json!({})]),
        terms(&[name_is("In", "n1")]),
        terms(&[name_is("NotIn", "n2")]),
        terms(&[name_is("Likes", "n2")]),
        terms(std::slice::from_ref(&label)),
        terms(&[other_field]),
        terms(&[name_is("In", "n2"), name_is("In", "n1")]),
        terms(&[name_is("In", "n2"), label.clone()]),
    ];
    for selector in here {
        assert!(may_be_for_n1(&selector), "{selector}");
    }
    let mut both = label;
    both["matchFields"] = name_is("In", "n2")["matchFields"].clone();
    let elsewhere = [
        terms(&[name_is("In", "n2")]),
        terms(&[name_is("NotIn", "n1")]),
        terms(&[name_is("In", "n2"), name_is("In", "n3")]),
        terms(&[both]),
    ];
    for selector in elsewhere {
        assert!(!may_be_for_n1(&selector), "{selector}");
    }
}

#[test]
fn a_report_matches_the_result_by_driver_pool_device_and_share() {
    let status = status(
        r#"{"allocation": {"devices": {"results": [
                {"request": "r", "driver": "d", "pool": "p", "device": "x", "shareID": "s"}]}},
            "devices": [{"driver": "d", "pool": "p", "device": "x", "shareID": "s"},
                        {"driver": "e", "pool": "p", "device": "x", "shareID": "s"},
                        {"driver": "d", "pool": "q", "device": "x", "shareID": "s"},
                        {"driver": "d", "pool": "p", "device": "y", "shareID": "s"},
                        {"driver": "d", "pool": "p", "device": "x"}]}"#,
    );
    let result = &status.results()[0];
    let found = status.devices().iter().map(|device| device.is_of(result));
    assert!(found.eq([true, false, false, false, false]));
}
