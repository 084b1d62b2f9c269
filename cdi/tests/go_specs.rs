//! Our specs beside those that NVIDIA's Go driver wrote for the same claims.
#![expect(
    clippy::unwrap_used,
    reason = "a failed unwrap outside a test function fails the test too"
)]

use imex_cdi::{ChannelId, Device, Kind, Major, Spec, channel_edits};
use serde_json::{Value, json};

fn from_yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

fn parse(value: &Value) -> Spec {
    Spec::from_json(value.to_string().as_bytes()).unwrap()
}

const ONE_CHANNEL: &str = include_str!(
    "fixtures/k8s.compute-domain.nvidia.com-claim_11111111-aaaa-4bbb-8ccc-000000000001.yaml"
);
const THREE_CHANNELS: &str = include_str!(
    "fixtures/k8s.compute-domain.nvidia.com-claim_22222222-aaaa-4bbb-8ccc-000000000002.yaml"
);
const DAEMON_BASE: &str = include_str!("fixtures/k8s.compute-domain.nvidia.com-device_base.yaml");

#[test]
fn every_spec_of_go_is_read_and_written_back_with_nothing_lost() {
    for text in [ONE_CHANNEL, THREE_CHANNELS, DAEMON_BASE] {
        let go = from_yaml(text);
        let ours: Value = serde_json::from_slice(&parse(&go).to_json()).unwrap();
        assert_eq!(ours, go);
    }
}

/// The three differences, each on purpose: no host path, so that no host node is inspected; the
/// minor also when it is 0; and `rw` where Go's absent permissions mean `rwm`.
// req: CDI-3
#[test]
fn our_spec_of_a_claim_is_gos_but_for_host_path_minor_0_and_mknod() {
    let go = from_yaml(ONE_CHANNEL);
    let go_device = parse(&go).devices()[0].clone();
    let channel = ChannelId::new(0).unwrap();
    let edits = channel_edits(channel, Major::new(235).unwrap());
    let device = Device {
        name: go_device.name,
        annotations: std::collections::BTreeMap::new(),
        container_edits: edits,
    };
    let ours = Spec::new(Kind::compute_domain_claim(), vec![device]).unwrap();

    let mut expected = go;
    let node = expected
        .pointer_mut("/devices/0/containerEdits/deviceNodes/0")
        .and_then(Value::as_object_mut)
        .unwrap();
    assert!(node.remove("hostPath").is_some());
    assert!(node.insert("minor".to_owned(), json!(0)).is_none());
    assert!(node.insert("permissions".to_owned(), json!("rw")).is_none());
    let ours: Value = serde_json::from_slice(&ours.to_json()).unwrap();
    assert_eq!(ours, expected);
}
