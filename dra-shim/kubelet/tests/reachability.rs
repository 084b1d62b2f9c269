//! Plugins that start, end and return, as observed by kubelet: connections, rolling updates,
//! health and slices.

use std::fs;
use std::path::{Path, PathBuf};

use dra_kubelet::testing::{Event, FakeKubelet, Options, Phase, ServiceVersion};
use dra_kubelet::{DesiredPool, DeviceHealth, Health, Method};
use k8s_openapi::api::resource::v1::Device;
use tokio::sync::watch;

use crate::support::api::ApiServer;
use crate::support::node::{Node, claim_ref, claims, pod, reaches};
use crate::support::registrar::register;
use crate::support::{DRIVER, Script, files, soon, until};

/// Starts a plugin's service without registration, and returns its endpoint, which is new to
/// kubelet.
#[cfg(test)]
fn service_elsewhere(node: &Node) -> (dra_kubelet::Plugin, PathBuf) {
    let root = node.root().join("elsewhere");
    let plugin = node.start_with(DRIVER, Script::instant(), claims(&["a"]), |builder| {
        builder.kubelet_root(&root)
    });
    let service = files(&root.join("plugins").join(DRIVER)).remove(0);
    (plugin, service)
}

#[tokio::test]
async fn a_service_that_listens_only_after_its_registration_is_reached() {
    let node = Node::new();
    let endpoint = node.root().join("late.sock");
    let _registrar = register(&node, "late@reg.sock", &endpoint, &["v1.DRAPlugin"]);
    soon("the registration", node.kubelet.wait_registered(DRIVER)).await;
    // kubelet does not wait for a connection.
    let called = node.kubelet.prepare(DRIVER, &[claim_ref("a")]).await;
    assert!(called.is_err(), "{called:?}");

    let (_plugin, service) = service_elsewhere(&node);
    fs::hard_link(service, &endpoint).unwrap();
    let mut running = node.kubelet.run_pod(pod("p", &["a"]));
    reaches(&mut running, Phase::Running).await;
}

#[tokio::test]
async fn a_service_socket_in_the_registry_directory_is_probed_and_harmless() {
    let node = Node::new();
    let registry = node.kubelet.registry();
    let _plugin = node.start_with(DRIVER, Script::instant(), claims(&["a"]), |builder| {
        builder.data_dir(&registry)
    });
    soon("the registration", node.kubelet.wait_registered(DRIVER)).await;
    node.until("the probe", |events| {
        events.iter().any(|event| {
            matches!(event, Event::RegistrationFailed { socket, reason }
                if socket.to_str().unwrap().ends_with("@plugin.sock") && reason.contains("Unimplemented"))
        })
    })
    .await;
    node.prepares("a").await;
    assert_eq!(node.kubelet.endpoints(DRIVER).len(), 1);
}

#[tokio::test]
async fn a_registered_endpoint_cannot_be_taken_by_another_socket() {
    let node = Node::new();
    let _plugin = node.registered(Script::instant(), claims(&["a"])).await;
    let endpoint = node.kubelet.endpoints(DRIVER).remove(0);
    let mut registrar = register(&node, "thief@reg.sock", &endpoint, &["v1.DRAPlugin"]);
    let refused = registrar.verdicts.wait_for(|verdicts| !verdicts.is_empty());
    let refused = soon("the refusal", refused).await.unwrap()[0].clone();
    assert!(!refused.plugin_registered);
    assert!(refused.error.contains("already registered"), "{refused:?}");
    assert_eq!(node.kubelet.endpoints(DRIVER), [endpoint]);
}

#[tokio::test]
async fn a_plugin_without_a_known_version_gets_the_reason_for_its_refusal() {
    let node = Node::new();
    let versions = ["k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"];
    let mut registrar = register(&node, "odd@reg.sock", Path::new("/nowhere"), &versions);
    let refused = registrar.verdicts.wait_for(|verdicts| !verdicts.is_empty());
    let refused = soon("the refusal", refused).await.unwrap()[0].clone();
    assert!(
        !refused.plugin_registered && !refused.error.is_empty(),
        "{refused:?}"
    );
}

// req: KUBELET-14
#[tokio::test]
async fn the_plugins_first_known_version_is_used() {
    let node = Node::new();
    let only_old = |builder: dra_kubelet::PluginBuilder| builder.only_v1beta1();
    let new = node.registered(Script::instant(), claims(&["a"])).await;
    soon("the end", new.shutdown()).await;
    let _old = node.start_with(DRIVER, Script::instant(), claims(&["a"]), only_old);
    node.until("both versions", |events| {
        let versions = events.iter().filter_map(|event| match event {
            Event::Registered { service, .. } => Some(*service),
            _ => None,
        });
        versions.eq([ServiceVersion::V1, ServiceVersion::V1beta1])
    })
    .await;
    let claims = [claim_ref("a")];
    let answers = node.kubelet.prepare(DRIVER, &claims).await.unwrap();
    assert_eq!(answers["uid-a"].as_ref().unwrap()[0].device, "d0");
    assert!(node.kubelet.unprepare(DRIVER, &claims).await.unwrap()["uid-a"].is_ok());
}

// req: KUBELET-12
#[tokio::test]
async fn the_newest_instance_is_called_and_the_other_one_after_its_end() {
    let node = Node::new();
    let one = node.registered(Script::instant(), claims(&["a"])).await;
    let two = node.start(Script::instant(), claims(&["a"]));
    let is_registered = |event: &Event| matches!(event, Event::Registered { .. });
    node.until("both", |events| {
        count(events, is_connected) == 2 && count(events, is_registered) == 2
    })
    .await;
    let endpoints = node.kubelet.endpoints(DRIVER);
    let called = || {
        let called = |event: &Event| match event {
            Event::Called {
                endpoint,
                method: Method::Prepare,
                ..
            } => Some(endpoint.clone()),
            _ => None,
        };
        node.kubelet.events().iter().rev().find_map(called).unwrap()
    };
    node.kubelet
        .prepare(DRIVER, &[claim_ref("a")])
        .await
        .unwrap();
    assert_eq!(called(), endpoints[1]);

    // A failed update: the old instance still serves, without a gap.
    soon("the end", two.shutdown()).await;
    let mut running = node.kubelet.run_pod(pod("p", &["a"]));
    reaches(&mut running, Phase::Running).await;
    assert_eq!(called(), endpoints[0]);
    let failures = |event: &Event| matches!(event, Event::PrepareFailed { .. });
    assert!(!node.kubelet.events().iter().any(failures));
    drop(one);
}

#[cfg(test)]
fn mk_health(health: Health) -> Vec<DeviceHealth> {
    vec![DeviceHealth {
        pool: "n1".into(),
        device: "d0".into(),
        health,
        message: "as reported".into(),
    }]
}

#[tokio::test]
async fn health_follows_changes_and_is_unknown_while_the_plugin_is_down() {
    let node = Node::new();
    let (sender, health) = watch::channel(mk_health(Health::Healthy));
    let start = || {
        let health = health.clone();
        node.start_with(DRIVER, Script::instant(), claims(&["a"]), |builder| {
            builder.health(health)
        })
    };
    let seen = || node.kubelet.health(DRIVER, "n1", "d0").health;
    let plugin = start();
    for health in [Health::Healthy, Health::Unhealthy, Health::Healthy] {
        sender.send_replace(mk_health(health));
        until("the change", || seen() == health).await;
    }
    soon("the end", plugin.shutdown()).await;
    until("the health is unknown", || seen() == Health::Unknown).await;

    let _plugin = start();
    until("the report of the next", || seen() == Health::Healthy).await;
    node.kubelet.restart().await.unwrap();
    until("the report to the next kubelet", || {
        seen() == Health::Healthy
    })
    .await;
    node.prepares("a").await;
}

/// A node with the same API server for kubelet and plugin.
#[cfg(test)]
fn node_with_api(server: &ApiServer) -> Node {
    let root = tempfile::tempdir().unwrap();
    let client = server.client();
    let kubelet =
        FakeKubelet::start_with_api(root.path(), Options::default(), client, "n1").unwrap();
    Node { kubelet, root }
}

#[cfg(test)]
fn publishing(node: &Node, server: &ApiServer) -> dra_kubelet::Plugin {
    let device = Device {
        name: "d0".into(),
        ..Device::default()
    };
    let (_, desired) = watch::channel(DesiredPool::Devices(vec![device]));
    node.start_with(DRIVER, Script::instant(), claims(&["a"]), |builder| {
        builder.publish(server.client(), desired)
    })
}

fn count(events: &[Event], is: impl Fn(&Event) -> bool) -> usize {
    events.iter().filter(|event| is(event)).count()
}

fn is_connected(event: &Event) -> bool {
    matches!(event, Event::Connected { .. })
}

fn deleted(events: &[Event], of_driver: Option<&str>) -> usize {
    let is_deleted = |event: &Event| matches!(event, Event::SlicesDeleted { driver } if driver.as_deref() == of_driver);
    count(events, is_deleted)
}

// req: KUBELET-37
#[tokio::test]
async fn slices_are_deleted_with_the_service_and_restored_on_its_return() {
    let server = ApiServer::default();
    server.put_node("n1", "node-uid");
    let node = node_with_api(&server);
    let plugin = publishing(&node, &server);
    let mut running = node.kubelet.run_pod(pod("p", &["a"]));
    reaches(&mut running, Phase::Running).await;
    until("the slice", || server.slices().len() == 1).await;

    soon("the end", plugin.shutdown()).await;
    node.until("the wipe", |events| deleted(events, Some(DRIVER)) == 1)
        .await;
    assert_eq!(server.slices().len(), 0);
    node.kubelet.delete_pod("p");
    node.until_failed("p").await;

    let _plugin = publishing(&node, &server);
    reaches(&mut running, Phase::Gone).await;
    until("the slice again", || server.slices().len() == 1).await;
}

#[tokio::test]
async fn a_starting_kubelet_deletes_only_the_slices_of_its_node() {
    let server = ApiServer::default();
    for (name, driver, node) in [
        ("a", DRIVER, "n1"),
        ("b", "other.example.com", "n1"),
        ("c", DRIVER, "n2"),
    ] {
        server.put_slice(serde_json::json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
            "metadata": {"name": name},
            "spec": {"driver": driver, "nodeName": node, "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}},
        }));
    }
    // A failed deletion is retried.
    server.set_down(true);
    let node = node_with_api(&server);
    until("an attempt", || !server.writes().is_empty()).await;
    server.set_down(false);
    node.until("the wipe", |events| deleted(events, None) == 1)
        .await;
    let left = server.slices();
    assert_eq!((left.len(), &left[0]["metadata"]["name"]), (1, &"c".into()));
}

// req: KUBELET-37
#[tokio::test]
async fn a_slice_is_restored_after_the_wipe_of_a_starting_kubelet() {
    let server = ApiServer::default();
    server.put_node("n1", "node-uid");
    let node = node_with_api(&server);
    let _plugin = publishing(&node, &server);
    let uids = || -> Vec<_> {
        let uid = |slice: &serde_json::Value| slice["metadata"]["uid"].to_string();
        server.slices().iter().map(uid).collect()
    };
    until("the slice", || uids().len() == 1).await;
    let before = uids();
    node.kubelet.restart().await.unwrap();
    node.until("the wipe", |events| deleted(events, None) == 2)
        .await;
    until("a new slice", || uids().len() == 1 && uids() != before).await;
}

// req: KUBELET-10
#[tokio::test]
async fn slices_are_unchanged_if_the_service_returns_in_time() {
    let server = ApiServer::default();
    server.put_node("n1", "node-uid");
    let node = node_with_api(&server);
    let plugin = publishing(&node, &server);
    soon("the registration", node.kubelet.wait_registered(DRIVER)).await;
    until("the slice", || server.slices().len() == 1).await;
    let before = server.slices();
    // The next instance starts before this one ends.
    let _next = publishing(&node, &server);
    node.until("both", |events| count(events, is_connected) == 2)
        .await;
    soon("the end", plugin.shutdown()).await;
    node.until("unregistration", |events| {
        events
            .iter()
            .any(|event| matches!(event, Event::Unregistered { .. }))
    })
    .await;
    let wipe = dra_kubelet::testing::Times::fast().wipe;
    tokio::time::sleep(2 * wipe).await;
    assert_eq!(deleted(&node.kubelet.events(), Some(DRIVER)), 0);
    assert_eq!(server.slices(), before);
}
