//! Failures of `nvidia-imex` and NVML.

use std::fs;

use nix::sys::signal::Signal;

use crate::node::Node;
use crate::{Api, CLIQUE, Network, driver, entry, ready_node};

// req: DAEMON-5
#[test]
fn nvidia_imex_that_was_killed_is_restarted_and_an_event_is_written() {
    let (_network, api, node) = ready_node();
    let before = *node.imex_pids().last().unwrap();
    node.signal_imex(Signal::SIGKILL);
    node.until("back", |node| node.imex_pids().len() == 2);
    node.until_ready();
    assert_ne!(*node.imex_pids().last().unwrap(), before);
    assert_eq!(node.metric("imex_dra_imex_exits_total{how=\"signal\"}"), 1);
    node.until("reported", |_| api.events() == ["ImexEnded"]);
    assert!(node.log().contains("killed by SIGKILL"), "{}", node.log());
}

// req: DAEMON-6
#[test]
fn nvidia_imex_that_hangs_is_not_ready_and_not_restarted() {
    let (_network, api, node) = ready_node();
    node.break_with("HANG=1\n");
    node.until("not ready", |node| node.get("/readyz").0 == 503);
    node.until("starting", |node| node.phase() == "starting");
    let reason = node.state()["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("has not responded for"), "{reason}");
    node.until("reported", |_| api.events() == ["ImexHangs"]);
    node.break_with("\n");
    node.until_ready();
    assert_eq!(node.imex_pids().len(), 1);
}

// req: DAEMON-6
#[test]
fn while_another_nvidia_imex_holds_the_session_it_waits_and_then_takes_over() {
    let (network, api) = (Network::new(), Api::start());
    let mut node = Node::new(&network, &api, 1, &driver());
    node.break_with("IN_USE=1\n");
    api.put(CLIQUE, &[entry(&node, 0)]);
    node.start();
    node.until("reported", |node| {
        node.get("/readyz").1.contains("NV_ERR_IN_USE")
    });
    node.until("reported", |_| api.events() == ["ImexSessionInUse"]);
    node.break_with("\n");
    node.until_ready();
    assert_eq!(node.metric("imex_dra_imex_exits_total{how=\"in-use\"}"), 1);
}

// req: DAEMON-5
#[test]
fn a_crash_loop_is_counted_and_ends_by_itself() {
    let (network, api) = (Network::new(), Api::start());
    let mut node = Node::new(&network, &api, 1, &driver());
    node.break_with("CRASH_AFTER_MS=1\n");
    api.put(CLIQUE, &[entry(&node, 0)]);
    node.start();
    node.until("counted", |node| {
        node.get("/readyz").0 == 503 && node.metric("imex_dra_imex_exits_total{how=\"code\"}") >= 3
    });
    node.break_with("\n");
    node.until_ready();
}

// req: DAEMON-2
#[test]
fn a_missing_nvidia_imex_is_reported_with_the_searched_paths_until_it_is_installed() {
    let (network, api) = (Network::new(), Api::start());
    let mut node = Node::new(&network, &api, 1, &driver());
    let program = node.path("driver/usr/bin/nvidia-imex");
    fs::rename(&program, node.path("kept")).unwrap();
    api.put(CLIQUE, &[entry(&node, 0)]);
    node.start();
    node.until("reported", |node| {
        node.get("/readyz")
            .1
            .contains("nvidia-imex was not found in the 8 usual places below")
    });
    node.until("reported", |_| api.events() == ["ImexNotStarted"]);
    fs::rename(node.path("kept"), &program).unwrap();
    node.until_ready();
}

// req: DAEMON-11
#[test]
fn nvidia_imex_of_a_driver_without_host_name_support_is_not_started_until_the_driver_is_newer() {
    let (network, api) = (Network::new(), Api::start());
    let with_driver = |version| [driver(), vec!["--driver-version", version]].concat();
    let mut node = Node::new(&network, &api, 1, &with_driver("550.163.01"));
    api.put(CLIQUE, &[entry(&node, 0)]);
    node.start();
    node.until("refused", |node| node.phase() == "driver-too-old");
    let (code, answer) = node.check();
    assert_eq!(code, 1);
    let reason = node.state()["reason"].as_str().unwrap().to_owned();
    for text in [&answer, &reason] {
        assert!(text.contains("driver 550.163.01 is too old"), "{text}");
        assert!(text.contains("570.158.01"), "{text}");
    }
    node.until("reported", |_| api.events() == ["ImexNotStarted"]);
    assert!(node.imex_pids().is_empty(), "{}", node.log());
    assert!(!node.path("imexd/nodes.cfg").exists());
    node.lay_out(&with_driver("570.158.01"));
    node.until_ready();
}

// req: DAEMON-1
#[test]
fn an_nvml_that_hangs_blocks_neither_health_nor_shutdown() {
    let (network, api) = (Network::new(), Api::start());
    let mut options = driver();
    options.extend(["--hang", "nvmlInitWithFlags"]);
    let mut node = Node::new(&network, &api, 1, &options);
    node.start();
    node.until("reported", |node| {
        node.phase() == "starting" && node.get("/livez").0 == 200
    });
    let (status, reason) = node.get("/readyz");
    assert_eq!(status, 503);
    assert!(
        reason.contains("the clique of this node is unknown"),
        "{reason}"
    );
    node.signal(Signal::SIGTERM);
    assert_eq!(node.wait().code(), Some(0));
}
