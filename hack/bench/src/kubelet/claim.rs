//! The benchmark's claims and calls.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;

use crate::dra_caller::Caller;
use crate::dra_proto as proto;

/// The number of concurrent calls, each for another claim: a node full of pods.
pub(super) const AT_ONCE: usize = 200;

/// Prepares the claim with this number.
pub(super) async fn prepare(caller: &Caller, number: usize) -> anyhow::Result<()> {
    let uid = format!("11111111-2222-3333-4444-{number:012}");
    let claim = proto::Claim {
        namespace: "ns".to_owned(),
        name: uid.clone(),
        uid,
    };
    caller.prepare(&[claim]).await
}

/// Prepares [`AT_ONCE`] claims from `first` on concurrently; returns the time of each.
pub(super) async fn at_once(caller: &Caller, first: usize) -> anyhow::Result<Vec<Duration>> {
    let calls = (first..first + AT_ONCE).map(|number| async move {
        let began = Instant::now();
        prepare(caller, number).await?;
        anyhow::Ok(began.elapsed())
    });
    try_join_all(calls).await
}

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
