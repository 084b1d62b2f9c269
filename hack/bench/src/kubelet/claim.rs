//! The claim that every call of the benchmark prepares.

/// One claim with one device, as the API server sends it.
pub(super) fn claim_json(driver: &str, name: &str, uid: &str) -> String {
    serde_json::json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": "1"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": driver}}]}},
        "status": {
            "allocation": {
                "devices": {
                    "results": [{"request": "r", "driver": driver, "pool": "node-1", "device": "d-0"}],
                    "config": [],
                },
            },
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "pod-uid"}],
        },
    })
    .to_string()
}
