//! Claims of pod groups: a channel of a clique, for pods on many nodes.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::api_server::{ApiServer, DOMAIN};
use super::node::TestNode;

/// The clique of the test's node.
const OWN: &str = "07070707-0707-0707-0707-070707070707.0";
const OTHER: &str = "07070707-0707-0707-0707-070707070707.1";
const REPORT: &str = "patch resourceclaims/status";

/// Allocates this channel of a clique's pool to the claim of a `PodGroup`.
fn allocate(claim: &mut Value, clique: &str, device: &str) {
    let allocation = &mut claim["status"]["allocation"];
    let result = &mut allocation["devices"]["results"][0];
    result["pool"] = json!(format!("clique-{clique}"));
    result["device"] = json!(device);
    allocation["nodeSelector"] = json!({"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "nvidia.com/gpu.clique", "operator": "In", "values": [clique]},
    ]}]});
    claim["status"]["reservedFor"] = json!([
        {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": "of-the-group"},
    ]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_a_podgroup_is_prepared_and_kept_without_a_report() {
    let server = ApiServer::default();
    server.put_domain("ns", "train", DOMAIN);
    let node = TestNode::start(&server);
    server.put_claim("ns", "gang");
    server.change_claim("ns", "gang", |claim| allocate(claim, OWN, "channel-3"));
    let devices = node.prepare("ns", "gang").await.unwrap();
    assert_eq!(devices[0].device, "channel-3");
    assert_eq!(devices[0].pool, format!("clique-{OWN}"));

    let stop = CancellationToken::new();
    tokio::spawn(node.reconciler().run(stop.clone()));
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(
        node.recorded(),
        ["gang"],
        "the claim is present, though not only for this node"
    );
    assert!(!server.requests().iter().any(|it| it == REPORT));
    stop.cancel();

    // A claim of the node's device is reported.
    server.put_claim("ns", "pod");
    server.change_claim("ns", "pod", |claim| {
        claim["status"]["devices"] = Value::Null;
    });
    node.prepare("ns", "pod").await.unwrap();
    sleep(Duration::from_secs(60)).await;
    assert!(server.requests().iter().any(|it| it == REPORT));
    server.change_claim("ns", "pod", |claim| {
        let data = json!({"computeDomain": DOMAIN, "clique": OWN, "channel": 0});
        assert_eq!(claim["status"]["devices"][0]["data"], data);
    });
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_another_clique_is_refused_with_both_names() {
    let server = ApiServer::default();
    server.put_domain("ns", "train", DOMAIN);
    let node = TestNode::start(&server);
    server.put_claim("ns", "gang");
    server.change_claim("ns", "gang", |claim| allocate(claim, OTHER, "channel-3"));
    let refused = node.prepare("ns", "gang").await.unwrap_err();
    assert!(
        refused.contains(OWN) && refused.contains(OTHER),
        "{refused}"
    );
    assert_eq!(node.recorded(), [""; 0]);
}
