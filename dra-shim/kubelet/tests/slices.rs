//! The `ResourceSlice` publisher against an API server in memory.
#![allow(missing_docs, reason = "a test")]

#[cfg(test)]
mod support;

use std::time::{Duration, Instant};

use dra_kubelet::{Desired, Publication};
use k8s_openapi::api::resource::v1::Device;
use serde_json::{Value, json};
use support::api::ApiServer;
use support::proto::registration::RegistrationStatus;
use support::{Claims, DRIVER, Running, Script, soon, start_with, until};
use tokio::sync::watch;

const NAME: &str = "00000-test.example.com-n1";

#[cfg(test)]
fn mk_devices(names: &[&str]) -> Desired {
    let device = |name: &&str| Device {
        name: (*name).to_owned(),
        ..Default::default()
    };
    Desired::Devices(names.iter().map(device).collect())
}

#[cfg(test)]
fn mk_slice(name: &str, generation: i64, device: &str) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": DRIVER, "nodeName": "n1",
            "pool": {"name": "n1", "generation": generation, "resourceSliceCount": 1},
            "devices": [{"name": device}],
        },
    })
}

#[cfg(test)]
fn publish(server: &ApiServer, desired: Desired) -> (Running, watch::Sender<Desired>) {
    let (sender, receiver) = watch::channel(desired);
    let running = start_with(Script::instant(), Claims::default(), |builder| {
        builder.publish(server.client(), receiver)
    });
    (running, sender)
}

#[cfg(test)]
async fn publication(running: &Running, wanted: impl FnMut(&Publication) -> bool) -> Publication {
    let mut state = running.plugin.publication().unwrap();
    soon("the publication", state.wait_for(wanted))
        .await
        .unwrap()
        .clone()
}

#[cfg(test)]
fn devices(slice: &Value) -> Vec<&str> {
    let devices = slice["spec"]["devices"].as_array().unwrap();
    devices
        .iter()
        .map(|device| device["name"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn devices_are_published_changed_and_withdrawn() {
    let server = ApiServer::default();
    server.put_node("n1", "node-uid");
    let (running, desired) = publish(&server, mk_devices(&["a"]));
    let published = publication(&running, |p| matches!(p, Publication::Published { .. })).await;
    assert_eq!(published, Publication::Published { slice: NAME.into() });
    let slice = &server.slices()[0];
    assert_eq!(devices(slice), ["a"]);
    assert_eq!(slice["metadata"]["ownerReferences"][0]["uid"], "node-uid");

    desired.send_replace(mk_devices(&["a", "b"]));
    until("the change", || devices(&server.slices()[0]) == ["a", "b"]).await;
    assert_eq!(server.slices()[0]["spec"]["pool"]["generation"], 1);

    desired.send_replace(Desired::Withdrawn);
    publication(&running, |p| *p == Publication::Withdrawn).await;
    assert!(server.slices().is_empty());
}

#[tokio::test]
async fn a_slice_deleted_by_hand_is_back_within_a_second() {
    let server = ApiServer::default();
    server.put_node("n1", "node-uid");
    let (running, _desired) = publish(&server, mk_devices(&["a"]));
    publication(&running, |p| matches!(p, Publication::Published { .. })).await;
    let began = Instant::now();
    server.delete_slice(NAME);
    until("the slice is back", || server.slices().len() == 1).await;
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn a_dropped_sender_leaves_its_last_devices_published() {
    let server = ApiServer::default();
    server.put_node("n1", "node-uid");
    let (running, desired) = publish(&server, mk_devices(&["a"]));
    publication(&running, |p| matches!(p, Publication::Published { .. })).await;
    drop(desired);
    server.delete_slice(NAME);
    until("the slice is back", || server.slices().len() == 1).await;
    assert_eq!(devices(&server.slices()[0]), ["a"]);
}

#[tokio::test]
async fn another_makers_slice_is_adopted_without_a_write() {
    let server = ApiServer::default();
    server.put_node("n1", "node-uid");
    let name = "00000-test.example.com-n1-x7k2p";
    let mut slice = mk_slice(name, 3, "a");
    slice["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "node-uid", "controller": true}
    ]);
    server.put_slice(slice);
    let (running, desired) = publish(&server, mk_devices(&["a"]));
    publication(&running, |p| {
        *p == Publication::Published { slice: name.into() }
    })
    .await;
    assert_eq!(server.writes(), Vec::<String>::new());

    desired.send_replace(mk_devices(&["b"]));
    until("the change", || devices(&server.slices()[0]) == ["b"]).await;
    assert_eq!(server.slices().len(), 1);
}

#[tokio::test]
async fn undecided_leaves_what_is_there() {
    let server = ApiServer::default();
    server.put_node("n1", "node-uid");
    server.put_slice(mk_slice(NAME, 1, "old"));
    let (running, desired) = publish(&server, Desired::Undecided);
    let notify = RegistrationStatus {
        plugin_registered: true,
        error: String::new(),
    };
    running
        .registration()
        .await
        .notify_registration_status(notify)
        .await
        .unwrap();
    desired.send_replace(mk_devices(&["new"]));
    until("the decision", || devices(&server.slices()[0]) == ["new"]).await;
    let path = format!("PUT /apis/resource.k8s.io/v1/resourceslices/{NAME}");
    assert_eq!(server.writes(), [path]);
}

#[tokio::test]
async fn an_api_server_that_is_down_delays_publishing_and_nothing_else() {
    let server = ApiServer::default();
    server.put_node("n1", "node-uid");
    server.set_down(true);
    let (running, _desired) = publish(&server, mk_devices(&["a"]));
    let failing = publication(&running, |p| matches!(p, Publication::Failing { .. })).await;
    assert!(
        format!("{failing:?}").contains("the server is down"),
        "{failing:?}"
    );
    let notify = RegistrationStatus {
        plugin_registered: true,
        error: String::new(),
    };
    running
        .registration()
        .await
        .notify_registration_status(notify)
        .await
        .unwrap();
    assert!(running.plugin.registration().borrow().is_registered());

    server.set_down(false);
    publication(&running, |p| matches!(p, Publication::Published { .. })).await;
    assert_eq!(server.slices().len(), 1);
}

#[tokio::test]
async fn a_missing_node_is_named_and_waited_for() {
    let server = ApiServer::default();
    let (running, _desired) = publish(&server, mk_devices(&["a"]));
    let missing = |p: &Publication| {
        matches!(
            p,
            Publication::Failing {
                code: "no-node",
                ..
            }
        )
    };
    publication(&running, missing).await;
    server.put_node("n1", "node-uid");
    publication(&running, |p| matches!(p, Publication::Published { .. })).await;
}
