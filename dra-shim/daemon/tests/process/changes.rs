//! Changes by the controller.

use nix::sys::signal::Signal;
use serde_json::json;

use crate::node::Node;
use crate::{CLIQUE, driver, entry, ready_node};

// req: DAEMON-4
#[test]
fn a_peer_that_joins_is_connected_after_one_signal_and_no_restart() {
    let (network, api, first) = ready_node();
    let mut second = Node::new(&network, &api, 2, &driver());
    second.start();
    api.put(CLIQUE, &[entry(&first, 0), entry(&second, 1)]);
    second.until_ready();
    first.until("connected", |node| node.link(0, 1) == "CONNECTED");
    second.until("connected", |node| node.link(1, 0) == "CONNECTED");
    first.until("signalled", |node| {
        node.metric("imex_dra_imex_signals_total") == 1
    });
    let log = first.log();
    assert!(
        log.contains("SIGUSR1: all names are resolved again"),
        "{log}"
    );
    // It leaves and returns as another pod with another address.
    second.signal(Signal::SIGTERM);
    second.wait();
    let mut third = Node::new(&network, &api, 3, &driver());
    third.start();
    api.put(CLIQUE, &[entry(&first, 0), entry(&third, 1)]);
    third.until_ready();
    first.until("connected", |node| node.link(0, 1) == "CONNECTED");
    let log = first.log();
    assert_eq!(first.imex_pids().len(), 1, "{log}");
    assert!(!log.contains("SIGUSR1 ignored"), "{log}");
}

// req: DAEMON-3
#[test]
fn a_new_index_is_applied_at_once_if_nvidia_imex_has_exited() {
    let (_network, api, node) = ready_node();
    api.put(CLIQUE, &[entry(&node, 2)]);
    node.signal_imex(Signal::SIGKILL);
    node.until("moved", |node| {
        node.state()["index"] == 2 && node.phase() == "ready"
    });
    let log = node.log();
    assert!(
        log.contains("nvidia-imex: Identified this node as ID 2,"),
        "{log}"
    );
    assert_eq!(node.imex_pids().len(), 2);
}

// req: DAEMON-10
#[test]
fn a_pod_that_is_about_to_be_replaced_reports_draining_and_stays_ready() {
    let (_network, api, node) = ready_node();
    let mut own = entry(&node, 0);
    own["draining"] = json!("the pod before");
    api.put(CLIQUE, std::slice::from_ref(&own));
    own["draining"] = json!(node.pod_uid());
    api.put(CLIQUE, &[own]);
    node.until("draining", |node| node.phase() == "draining");
    assert_eq!(node.get("/readyz").0, 200);
    api.put(CLIQUE, &[entry(&node, 0)]);
    node.until_ready();
    assert_eq!(node.imex_pids().len(), 1);
}

// req: DAEMON-1
#[test]
fn a_node_in_a_new_clique_joins_that_clique() {
    let (_network, api, node) = ready_node();
    let other = "6ba7b810-9dad-11d1-80b4-00c04fd430c8.7";
    api.put(other, &[entry(&node, 3)]);
    let mut options = driver();
    options[1] = other;
    node.lay_out(&options);
    // NVML is read when nvidia-imex exits, and otherwise every five minutes.
    node.signal_imex(Signal::SIGKILL);
    node.until("moved", |node| {
        node.state()["clique"] == other && node.state()["index"] == 3 && node.phase() == "ready"
    });
}

#[test]
fn an_unreachable_api_server_changes_nothing() {
    let (_network, api, node) = ready_node();
    api.set_down(true);
    node.signal_imex(Signal::SIGKILL);
    node.until("back", |node| node.imex_pids().len() == 2);
    node.until_ready();
    // Changes are seen once it is back.
    api.set_down(false);
    let mut own = entry(&node, 0);
    own["draining"] = json!(node.pod_uid());
    api.put(CLIQUE, &[own]);
    node.until("draining", |node| node.phase() == "draining");
}
