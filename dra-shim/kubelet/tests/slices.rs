//! The `ResourceSlice` publisher against an API server in memory.

use dra_kubelet::{DesiredPool, Publication};
use k8s_openapi::api::resource::v1::{Device, DeviceTaint};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::support::api::ApiServer;
use crate::support::{Claims, DRIVER, Running, Script, notify, soon, start_with, until};

const NAME: &str = "00000-test.example.com-n1";

#[cfg(test)]
fn mk_devices(names: &[&str]) -> DesiredPool {
    let device = |name: &&str| Device {
        name: (*name).to_owned(),
        ..Default::default()
    };
    DesiredPool::Devices(names.iter().map(device).collect())
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
fn publish(server: &ApiServer, desired: DesiredPool) -> (Running, watch::Sender<DesiredPool>) {
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
fn published(names: &[&str], generation: i64) -> Publication {
    Publication::Published {
        slices: names.iter().map(|name| (*name).to_owned()).collect(),
        generation,
        dropped: Vec::new(),
    }
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
    let state = publication(&running, |p| matches!(p, Publication::Published { .. })).await;
    assert_eq!(state, published(&[NAME], 1));
    let slice = &server.slices()[0];
    assert_eq!(devices(slice), ["a"]);
    assert_eq!(slice["metadata"]["ownerReferences"][0]["uid"], "node-uid");

    desired.send_replace(mk_devices(&["a", "b"]));
    until("the change", || devices(&server.slices()[0]) == ["a", "b"]).await;
    assert_eq!(server.slices()[0]["spec"]["pool"]["generation"], 1);

    desired.send_replace(DesiredPool::Withdrawn);
    publication(&running, |p| *p == Publication::Withdrawn).await;
    assert!(server.slices().is_empty());
}

// req: KUBELET-44
#[tokio::test]
async fn a_slice_keeps_another_name_if_its_first_name_is_taken() {
    let server = ApiServer::default();
    server.put_node("n1", "node-uid");
    let second = format!("{NAME}-2");
    let third = format!("{NAME}-3");
    server.put_foreign_slice(NAME);
    server.put_foreign_slice(&second);
    let (running, desired) = publish(&server, mk_devices(&["a"]));
    let state = publication(&running, |p| matches!(p, Publication::Published { .. })).await;
    assert_eq!(state, published(&[&third], 1));

    desired.send_replace(mk_devices(&["a", "b"]));
    until("the change", || devices(&server.slices()[0]) == ["a", "b"]).await;
    // Two attempts for each foreign name: the first list may be stale.
    assert!(server.writes().len() <= 5, "{:?}", server.writes());

    server.delete_slice(&third);
    until("the slice is back", || server.slices().len() == 1).await;
    assert_eq!(server.slices()[0]["metadata"]["name"], third);
}

// req: KUBELET-38
#[tokio::test]
async fn a_slice_deleted_by_hand_is_published_again() {
    let server = ApiServer::default();
    server.put_node("n1", "node-uid");
    let (running, _desired) = publish(&server, mk_devices(&["a"]));
    publication(&running, |p| matches!(p, Publication::Published { .. })).await;
    server.delete_slice(NAME);
    until("the slice is back", || server.slices().len() == 1).await;
}

#[tokio::test]
async fn the_last_devices_remain_published_after_the_sender_is_dropped() {
    let server = ApiServer::default();
    server.put_node("n1", "node-uid");
    let (running, desired) = publish(&server, mk_devices(&["a"]));
    publication(&running, |p| matches!(p, Publication::Published { .. })).await;
    drop(desired);
    server.delete_slice(NAME);
    until("the slice is back", || server.slices().len() == 1).await;
    assert_eq!(devices(&server.slices()[0]), ["a"]);
}

// req: KUBELET-44
#[tokio::test]
async fn a_slice_of_another_implementation_is_adopted_without_a_write() {
    let server = ApiServer::default();
    server.put_node("n1", "node-uid");
    let name = "00000-test.example.com-n1-x7k2p";
    let mut slice = mk_slice(name, 3, "a");
    slice["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "node-uid", "controller": true}
    ]);
    server.put_slice(slice);
    let (running, desired) = publish(&server, mk_devices(&["a"]));
    publication(&running, |p| *p == published(&[name], 3)).await;
    assert_eq!(server.writes(), Vec::<String>::new());

    desired.send_replace(mk_devices(&["b"]));
    until("the change", || devices(&server.slices()[0]) == ["b"]).await;
    assert_eq!(server.slices().len(), 1);
}

#[tokio::test]
async fn undecided_changes_nothing() {
    let server = ApiServer::default();
    server.put_node("n1", "node-uid");
    server.put_slice(mk_slice(NAME, 1, "old"));
    let (running, desired) = publish(&server, DesiredPool::Undecided);
    notify(&running.registration_socket()).await;
    desired.send_replace(mk_devices(&["new"]));
    until("the decision", || devices(&server.slices()[0]) == ["new"]).await;
    let path = format!("PUT /apis/resource.k8s.io/v1/resourceslices/{NAME}");
    assert_eq!(server.writes(), [path]);
}

// req: KUBELET-6, KUBELET-48
#[tokio::test]
async fn an_unavailable_api_server_delays_only_publishing() {
    let server = ApiServer::default();
    server.put_node("n1", "node-uid");
    server.set_down(true);
    let (running, _desired) = publish(&server, mk_devices(&["a"]));
    let failing = publication(&running, |p| matches!(p, Publication::Failing { .. })).await;
    assert!(
        format!("{failing:?}").contains("the server is down"),
        "{failing:?}"
    );
    notify(&running.registration_socket()).await;
    assert!(running.plugin.registration().borrow().is_registered());

    server.set_down(false);
    publication(&running, |p| matches!(p, Publication::Published { .. })).await;
    assert_eq!(server.slices().len(), 1);
}

#[tokio::test]
async fn a_missing_node_is_reported_and_retried() {
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

// req: KUBELET-43
#[tokio::test]
async fn a_recreated_node_becomes_the_owner_of_new_slices() {
    let server = ApiServer::default();
    server.put_node("n1", "first");
    let (running, _desired) = publish(&server, mk_devices(&["a"]));
    publication(&running, |p| matches!(p, Publication::Published { .. })).await;

    // The garbage collector deletes the slice of a deleted owner.
    server.delete_node("n1");
    server.delete_slice(NAME);
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
    server.put_node("n1", "second");
    publication(&running, |p| *p == published(&[NAME], 1)).await;
    let owner = &server.slices()[0]["metadata"]["ownerReferences"][0];
    assert_eq!(owner["uid"], "second");
}

#[cfg(test)]
fn mk_numbered(count: usize) -> Vec<Device> {
    let device = |number| Device {
        name: format!("d{number}"),
        ..Default::default()
    };
    (0..count).map(device).collect()
}

#[cfg(test)]
fn mk_tainted(device: &Device) -> Device {
    let taint = DeviceTaint {
        key: "hot".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Default::default()
    };
    Device {
        taints: Some(vec![taint]),
        ..device.clone()
    }
}

// req: KUBELET-41
#[tokio::test]
async fn many_devices_are_split_into_slices_and_a_taint_is_one_write() {
    let server = ApiServer::default();
    server.put_node("n1", "node-uid");
    let mut devices = mk_numbered(200);
    let (running, desired) = publish(&server, DesiredPool::Devices(devices.clone()));
    let names: Vec<_> = (0..4)
        .map(|index| format!("{index:05x}-test.example.com-n1"))
        .collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    publication(&running, |p| *p == published(&names, 1)).await;
    let sizes: Vec<_> = server
        .slices()
        .iter()
        .map(|s| self::devices(s).len())
        .collect();
    assert_eq!(sizes, [64, 64, 64, 8]);

    let before = server.writes().len();
    devices[100] = mk_tainted(&devices[100]);
    desired.send_replace(DesiredPool::Devices(devices));
    let taints = || server.slices()[1]["spec"]["devices"][36]["taints"].clone();
    until("the taint", || taints()[0]["key"] == "hot").await;
    assert_eq!(server.writes().len(), before + 1);
    let generation = |slice: &Value| slice["spec"]["pool"]["generation"] == 1;
    assert!(server.slices().iter().all(generation));
}

#[tokio::test]
async fn a_wipe_of_several_slices_is_one_change() {
    let server = ApiServer::default();
    server.put_node("n1", "node-uid");
    let (running, _desired) = publish(&server, DesiredPool::Devices(mk_numbered(200)));
    publication(&running, |p| matches!(p, Publication::Published { .. })).await;
    let before = server.writes().len();
    for slice in server.slices() {
        server.delete_slice(slice["metadata"]["name"].as_str().unwrap());
    }
    until("the slices are back", || server.slices().len() == 4).await;
    assert_eq!(server.writes().len(), before + 4);
}

// req: KUBELET-45
#[tokio::test]
async fn a_dropped_field_is_reported_once_and_not_sent_again() {
    let server = ApiServer::default();
    server.put_node("n1", "node-uid");
    server.drop_fields(&["taints"]);
    let devices = vec![mk_tainted(&mk_numbered(1)[0])];
    let (running, desired) = publish(&server, DesiredPool::Devices(devices.clone()));
    let lists_dropped = |p: &Publication| match p {
        Publication::Published { dropped, .. } => {
            assert_eq!(dropped.len(), 1, "{dropped:?}");
            assert_eq!(dropped[0].field, "taints");
            assert_eq!(dropped[0].devices, ["d0"]);
            assert_eq!(dropped[0].gate, Some("DRADeviceTaints"));
            true
        }
        _ => false,
    };
    publication(&running, lists_dropped).await;
    let before = server.writes();
    // A new comparison of the slice: a foreign change elsewhere, then the same devices.
    server.put_slice(mk_slice("misnamed", 0, "x"));
    until("the foreign slice is deleted", || {
        server.slices().len() == 1
    })
    .await;
    desired.send_replace(DesiredPool::Devices(devices));
    server.put_slice(mk_slice("misnamed", 0, "x"));
    until("the foreign slice is deleted", || {
        server.slices().len() == 1
    })
    .await;
    let deletion = "DELETE /apis/resource.k8s.io/v1/resourceslices/misnamed";
    assert_eq!(server.writes()[before.len()..], [deletion, deletion]);

    // A driver's reaction: it removes the device.
    desired.send_replace(DesiredPool::Devices(Vec::new()));
    publication(&running, |p| *p == published(&[NAME], 1)).await;
}

// req: KUBELET-55
#[tokio::test]
async fn a_refused_effect_of_a_taint_costs_neither_the_slice_nor_other_taints() {
    let server = ApiServer::default();
    server.put_node("n1", "node-uid");
    server.refuse_none(true);
    let taint = |effect: &str| DeviceTaint {
        key: "d.example.com/hot".to_owned(),
        effect: effect.to_owned(),
        ..Default::default()
    };
    let mk_pool = |size: i64| {
        let device = |name: &str, effect| Device {
            name: name.to_owned(),
            taints: Some(vec![taint(effect)]),
            ..Default::default()
        };
        let mut devices = vec![device("a", "None"), device("b", "NoSchedule")];
        devices.truncate(size.try_into().unwrap());
        DesiredPool::Devices(devices)
    };
    let stored = || {
        let slices = server.slices();
        let devices = slices.first()?["spec"]["devices"].as_array()?.clone();
        let effects = devices.iter().map(|it| it["taints"][0]["effect"].clone());
        Some(effects.collect::<Vec<_>>())
    };
    let (running, desired) = publish(&server, mk_pool(2));
    let state = publication(&running, |p| matches!(p, Publication::Published { .. })).await;
    let Publication::Published { dropped, .. } = state else {
        unreachable!()
    };
    assert_eq!(dropped[0].field, "taints.effect");
    assert_eq!(dropped[0].devices, ["a"]);
    assert_eq!(stored(), Some(vec![Value::Null, json!("NoSchedule")]));
    assert_eq!(server.writes().len(), 2, "refused once, then without");

    // It is not tried again with each change.
    desired.send_replace(mk_pool(1));
    until("the change", || stored() == Some(vec![Value::Null])).await;
    assert_eq!(server.writes().len(), 3);

    // After an update of the API server it is.
    server.refuse_none(false);
    server.break_watches();
    until("the taint is stored", || {
        desired.send_modify(|_| {});
        stored() == Some(vec![json!("None")])
    })
    .await;
    publication(&running, |p| *p == published(&[NAME], 1)).await;
}

// req: KUBELET-42
#[tokio::test]
async fn invalid_devices_are_refused_once_and_not_sent() {
    let server = ApiServer::default();
    server.put_node("n1", "node-uid");
    let (running, desired) = publish(&server, mk_devices(&["a", "a"]));
    let refused = |p: &Publication| matches!(p, Publication::Failing { code: "invalid-devices", reason } if reason.contains("`a`"));
    publication(&running, refused).await;
    assert_eq!(server.writes(), Vec::<String>::new());
    desired.send_replace(mk_devices(&["a", "b"]));
    publication(&running, |p| *p == published(&[NAME], 1)).await;
}

#[tokio::test]
async fn an_older_kubernetes_is_reported_and_checked_again() {
    let server = ApiServer::default();
    server.put_node("n1", "node-uid");
    server.set_old(true);
    let (running, _desired) = publish(&server, mk_devices(&["a"]));
    let too_old = |p: &Publication| match p {
        Publication::Failing { code, reason } => {
            assert_eq!(*code, "kubernetes-too-old", "{reason}");
            assert!(
                reason.contains("v1.33.9") && reason.contains("1.34"),
                "{reason}"
            );
            true
        }
        _ => false,
    };
    publication(&running, too_old).await;
    server.set_old(false);
    publication(&running, |p| *p == published(&[NAME], 1)).await;
}
