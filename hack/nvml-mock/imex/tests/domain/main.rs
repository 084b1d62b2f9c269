//! Tests with several daemons on loopback addresses, each with its own hosts file, as in pods.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test ends where its expectation fails"
)]

mod node;
mod tls;

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use node::{HOSTS, Node, next_port};

/// Three nodes that are ready.
fn mk_nodes() -> [Node; 3] {
    let port = next_port();
    HOSTS.map(|(address, _)| {
        let mut node = Node::new(port, address, &HOSTS);
        node.start();
        node.until("ready", |node| node.state() == "READY\n");
        node
    })
}

#[test]
fn nodes_with_the_same_list_connect_and_notice_when_one_ends() {
    let [a, mut b, c] = mk_nodes();
    assert!(
        b.log().contains("Identified this node as ID 1,"),
        "{}",
        b.log()
    );
    for (node, others) in [(&a, ["1", "2"]), (&c, ["0", "1"])] {
        for other in others {
            node.until("connected", |node| node.link(other) == "CONNECTED");
        }
    }
    b.signal(Signal::SIGTERM);
    assert_eq!(b.wait(), 0);
    a.until("recovering", |a| a.link("1") == "RECOVERING");
    assert_eq!(a.link("2"), "CONNECTED");
    assert_eq!(b.ctl(&["-q"]).status.code(), Some(1));
    b.start();
    a.until("connected again", |a| a.link("1") == "CONNECTED");
}

#[test]
fn nodes_with_different_lists_refuse_each_other() {
    let [a, _, mut c] = mk_nodes();
    c.signal(Signal::SIGTERM);
    c.wait();
    c.write_list(&["a", "b", "c", "d"]);
    c.start();
    c.until("refused", |c| c.link("0") == "INVALID");
    a.until("refuses", |a| a.link("2") == "INVALID");
    assert!(c.log().contains("node map mismatch"), "{}", c.log());
}

#[test]
fn after_sigusr1_a_name_is_dialled_at_its_new_address_and_a_second_signal_is_ignored() {
    let port = next_port();
    let elsewhere = [HOSTS[0], ("127.0.1.9", "b"), HOSTS[2]];
    let mut a = Node::new(port, "127.0.1.1", &HOSTS);
    let mut old = Node::new(port, "127.0.1.2", &HOSTS);
    a.start();
    old.start();
    a.until("connected", |a| a.link("1") == "CONNECTED");
    let mut new = Node::new(port, "127.0.1.9", &elsewhere);
    new.start();
    new.until("ready", |new| new.state() == "READY\n");
    a.write_hosts(&elsewhere);
    a.signal(Signal::SIGUSR1);
    let host = |a: &Node| {
        let answer: Value = serde_json::from_slice(&a.ctl(&["-N", "-j"]).stdout).unwrap();
        answer["nodes"]["0"]["connections"]["1"]["host"].clone()
    };
    a.until("redialled", |a| host(a) == "127.0.1.9");
    a.signal(Signal::SIGUSR1);
    a.until("ignored", |a| a.log().contains("SIGUSR1 ignored"));
    a.signal(Signal::SIGHUP);
    a.until("still ready", |a| a.state() == "READY\n");
}

#[test]
fn a_node_that_is_not_in_its_list_or_has_a_driver_in_use_exits() {
    let port = next_port();
    let mut node = Node::new(port, "127.0.1.7", &HOSTS);
    node.start();
    assert_eq!(node.wait(), 1);
    assert!(
        node.log().contains("address of this node"),
        "{}",
        node.log()
    );
    let mut node = Node::new(port, "127.0.1.1", &HOSTS);
    node.break_with("IN_USE=1\n");
    node.start();
    assert_eq!(node.wait(), 1);
    assert!(node.log().contains("NV_ERR_IN_USE"), "{}", node.log());
}

#[test]
fn faults_have_their_effects() {
    let port = next_port();
    let mut node = Node::new(port, "127.0.1.1", &HOSTS);
    node.break_with("WRONG_ID=1\nCRASH_AFTER_MS=1\n");
    node.start();
    assert_eq!(node.wait(), 1);
    assert!(node.log().contains("as ID 1,"), "{}", node.log());
    node.break_with("START_DELAY_MS=3600000\n");
    node.start();
    node.until("initializing", |node| node.state() == "INITIALIZING\n");
    node.break_with("STUCK=WAITING_FOR_PEERS\n");
    assert_eq!(node.state(), "WAITING_FOR_PEERS\n");
    for fault in ["HANG=1\n", "CTL_HANG=1\n"] {
        node.break_with(fault);
        assert!(hangs(&node), "{fault}");
    }
}

/// Whether `nvidia-imex-ctl -q` hangs.
fn hangs(node: &Node) -> bool {
    let mut asking = Command::new(env!("CARGO_BIN_EXE_nvidia-imex-ctl"))
        .arg0(node.path("usr/bin/nvidia-imex-ctl"))
        .arg(format!("--u={}", node.path("imex.sock").display()))
        .arg("-q")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_millis(300));
    let hangs = asking.try_wait().unwrap().is_none();
    let _ = asking.kill();
    asking.wait().unwrap();
    hangs
}

#[test]
fn imex_state_in_the_root_sets_the_tools_answer() {
    let node = Node::new(next_port(), "127.0.1.1", &HOSTS);
    let socket = format!("--u={}", node.path("imex.sock").display());
    for (state, code, answer) in [
        ("INIT_GPU\n\n", 0, "INIT_GPU\n"),
        ("FAIL\n\n", 1, ""),
        ("READY\n/elsewhere\n", 1, ""),
    ] {
        fs::write(node.path("imex-state"), state).unwrap();
        let output = node.ctl(&[&socket, "-q"]);
        assert_eq!(output.status.code(), Some(code), "{state}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), answer);
    }
}
