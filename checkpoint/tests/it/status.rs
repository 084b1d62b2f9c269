//! Claim statuses as the API server sends them.

use dra_checkpoint::ClaimStatus;

fn status(json: &str) -> ClaimStatus {
    ClaimStatus::from_json(json).unwrap()
}

#[test]
fn what_the_driver_needs_can_be_read() {
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
        ("FromClaim", &["r".to_owned()][..])
    );
    let opaque = claim.opaque().unwrap();
    assert_eq!(opaque.driver(), "d");
    assert_eq!(opaque.parameters(), r#"{"b":1.0,"a":"\u003c","b":2}"#);
    assert!(class.opaque().is_none());
}

#[test]
fn the_pods_that_a_claim_is_reserved_for_have_a_name_and_a_uid_and_groups_of_pods_a_name() {
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
fn nulls_and_omissions_are_written_as_go_writes_them() {
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
fn another_consumer_or_another_device_is_another_version() {
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
fn what_is_no_status_is_one_clear_error() {
    let err = ClaimStatus::from_json(r#"{"allocation":7}"#).unwrap_err();
    assert_eq!(err.code(), "invalid-claim-status");
    assert!(std::error::Error::source(&err).is_some());
}

#[test]
fn an_array_is_no_object_wherever_the_api_has_one() {
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
