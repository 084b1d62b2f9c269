//! Start, normal operation and shutdown.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::node::{KUBELETS_HOSTS, Node, is_alive};
use crate::{Api, CLIQUE, Network, driver, entry, ready_node};

// req: DAEMON-2, DAEMON-3, DAEMON-8, DAEMON-9
#[test]
fn a_member_is_ready_as_soon_as_nvidia_imex_is_and_costs_one_list_and_one_watch() {
    let (_network, api, node) = ready_node();
    let state = node.state();
    assert_eq!(
        (state["index"].as_i64(), state["clique"].as_str()),
        (Some(0), Some(CLIQUE))
    );
    assert_eq!(state["podUID"], node.pod_uid().as_str());
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert_eq!(state["bootId"], boot.trim());
    assert_eq!(node.check(), (0, "ok\n".to_owned()));
    assert_eq!(node.get("/livez").0, 200);
    // Its output is in the daemon's log.
    let log = node.log();
    assert!(
        log.contains("nvidia-imex: Identified this node as ID 0,"),
        "{log}"
    );
    // It runs with the loader of the driver root.
    let pid = *node.imex_pids().last().unwrap();
    let loader = fs::read_link(format!("/proc/{pid}/exe")).unwrap();
    assert!(loader.starts_with(node.path("driver")), "{loader:?}");
    let requests = ["list computedomaincliques", "watch computedomaincliques"];
    assert_eq!(api.requests(), requests);
    assert_eq!(
        node.metric("imex_dra_imex_starts_total{reason=\"first\"}"),
        1
    );
    assert_eq!(node.metric("imex_dra_imex_members"), 1);
}

// req: DAEMON-1
#[test]
fn a_node_without_a_clique_is_ready_and_a_non_member_reports_why_it_is_not() {
    let (network, api) = (Network::new(), Api::start());
    let mut options = driver();
    options.extend(["--state", "not-supported"]);
    let mut node = Node::new(&network, &api, 1, &options);
    node.start();
    node.until_ready();
    assert_eq!((node.imex_pids(), api.requests()), (vec![], vec![]));
    let mut node = Node::new(&network, &api, 2, &driver());
    node.start();
    node.until("reported", |node| {
        node.get("/readyz")
            .1
            .contains("does not exist in namespace")
    });
    let (code, printed) = node.check();
    assert_eq!(code, 1);
    assert!(printed.contains("the controller creates it"), "{printed}");
    api.put(CLIQUE, &[]);
    node.until("reported", |node| {
        node.state()["reason"]
            .as_str()
            .unwrap()
            .contains("node-2 is not in")
    });
    api.put(CLIQUE, &[entry(&node, 3)]);
    node.until_ready();
}

// req: DAEMON-7
#[test]
fn sigterm_ends_it_within_a_second_even_if_nvidia_imex_does_not_exit() {
    for stops in [false, true] {
        let (_network, _api, mut node) = ready_node();
        if stops {
            node.signal_imex(Signal::SIGSTOP);
        }
        let began = Instant::now();
        node.signal(Signal::SIGTERM);
        let status = node.wait();
        let took = began.elapsed();
        assert_eq!(status.code(), Some(0), "{}", node.log());
        // A second, plus the time that a busy machine needs to run the processes.
        assert!(took < Duration::from_secs(2), "{took:?}");
        assert!(!is_alive(*node.imex_pids().last().unwrap()));
        assert_eq!(node.phase(), "starting");
    }
}

// req: DAEMON-7
#[test]
fn nvidia_imex_dies_with_a_daemon_that_is_killed() {
    let (_network, _api, mut node) = ready_node();
    let pid = *node.imex_pids().last().unwrap();
    node.signal(Signal::SIGKILL);
    node.wait();
    node.until("dead", |_| !is_alive(pid));
    node.start();
    node.until_ready();
}

// req: DAEMON-7
#[test]
fn orphans_are_reaped() {
    let (_network, _api, node) = ready_node();
    // Replace the tool by a script that leaves a process behind, outside its process group.
    let tool = node.path("driver/usr/bin/nvidia-imex-ctl");
    let kept = fs::read(&tool).unwrap();
    let replace = |content: &[u8]| {
        fs::write(node.path("driver/new"), content).unwrap();
        fs::set_permissions(node.path("driver/new"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(node.path("driver/new"), &tool).unwrap();
    };
    replace(b"#!/bin/sh\n(setsid sleep 0.01 &)\necho READY\n");
    node.until("left alone", |node| zombies_of(node.pid()) > 0);
    replace(&kept);
    node.until("reaped", |node| zombies_of(node.pid()) == 0);
    assert_eq!(node.phase(), "ready");
}

fn zombies_of(pid: i32) -> usize {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let stats = entries.filter_map(|it| fs::read_to_string(it.path().join("stat")).ok());
    stats
        .filter(|stat| stat.contains(&format!(") Z {pid} ")))
        .count()
}

// req: DAEMON-4
#[test]
fn a_hosts_file_that_kubelet_has_rewritten_is_repaired() {
    let (_network, _api, node) = ready_node();
    let written = fs::read_to_string(node.path("hosts")).unwrap();
    assert!(written.starts_with(KUBELETS_HOSTS), "{written}");
    // Atomically: a partial file would be repaired, too, and counted twice.
    fs::write(node.path("new"), KUBELETS_HOSTS).unwrap();
    fs::rename(node.path("new"), node.path("hosts")).unwrap();
    node.until("repaired", |node| {
        fs::read_to_string(node.path("hosts")).unwrap() == written
    });
    assert_eq!(node.imex_pids().len(), 1);
    node.until("counted", |node| {
        node.metric("imex_dra_imex_hosts_writes_total") == 2
    });
}

// req: MODE-9
#[test]
fn a_missing_option_is_one_line_and_code_1() {
    let program = env!("CARGO_BIN_EXE_compute-domain-daemon");
    let output = std::process::Command::new(program)
        .env_clear()
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        printed.contains("--node-name") && printed.lines().count() == 1,
        "{printed}"
    );
}
