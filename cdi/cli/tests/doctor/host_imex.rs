//! The host's nvidia-imex: its configuration, and that no other instance runs.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use super::host::{self, Host, text};

const UNIT: &str = "usr/lib/systemd/system/nvidia-imex.service";
const POD: &str = "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-abc.scope\n";
const SERVICE: &str = "0::/system.slice/nvidia-imex.service\n";

/// The finding of that id.
fn finding(host: &Host, id: &str) -> Option<Value> {
    let output = host.run("doctor --json");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    host::finding(&report, id).cloned()
}

/// Sets the command line of process `pid`.
fn started(host: &Host, pid: u32, line: &str) {
    let line = line.replace(' ', "\0") + "\0";
    host.write(&format!("proc/{pid}/cmdline"), line);
}

/// A daemon beside the service's, in a container.
fn add_second(host: &Host) {
    host.write("proc/700/cgroup", SERVICE);
    host.write("proc/900/comm", "nvidia-imex\n");
    host.write("proc/900/cgroup", POD);
    started(host, 900, "nvidia-imex -c /imexd/imexd.cfg");
    host.write(
        "proc/900/root/imexd/imexd.cfg",
        "IMEX_NODE_CONFIG_FILE=/imexd/nodes.cfg\n",
    );
    host.write("proc/900/root/imexd/nodes.cfg", "10.0.0.1\n");
}

#[test]
fn a_daemon_is_judged_by_the_configuration_that_it_was_started_with() {
    let host = Host::healthy();
    started(&host, 700, "/usr/bin/nvidia-imex -c /etc/imex/own.cfg");
    host.write(
        "etc/imex/own.cfg",
        "LOG_LEVEL=4\nIMEX_NODE_CONFIG_FILE=/etc/imex/own_nodes\n",
    );
    host.write("etc/imex/own_nodes", "10.0.0.1\n");
    host.remove("etc/nvidia-imex");
    host.out("doctor", 0);

    host.write("etc/imex/own_nodes", "# 10.0.0.1\n");
    let found = finding(&host, "host-imex-no-nodes").unwrap();
    assert_eq!(text(&found, "subject"), "/etc/imex/own_nodes");
    let evidence = text(&found, "evidence");
    let expected = "configuration /etc/imex/own.cfg, from process 700";
    assert!(evidence.contains(expected), "{evidence}");
    host.remove("etc/imex/own_nodes");
    let found = finding(&host, "host-imex-no-nodes").unwrap();
    assert!(text(&found, "evidence").contains("the file does not exist"));
}

#[test]
fn a_finding_says_that_the_usual_configuration_was_read() {
    let host = Host::healthy();
    host.write("etc/nvidia-imex/nodes_config.cfg", "");
    let found = finding(&host, "host-imex-no-nodes").unwrap();
    let expected = "configuration /etc/nvidia-imex/config.cfg, the default";
    assert!(text(&found, "evidence").contains(expected), "{found}");
}

#[test]
fn a_configuration_that_cannot_be_read_is_not_guessed() {
    let host = Host::healthy();
    host.write("etc/nvidia-imex/nodes_config.cfg", "");
    for path in ["/etc/imex/gone.cfg", "relative.cfg", "/etc"] {
        started(&host, 700, &format!("nvidia-imex -c {path}"));
        let found = finding(&host, "host-imex-config-unreadable").unwrap();
        assert_eq!(text(&found, "subject"), path);
        assert!(text(&found, "evidence").contains("from process 700"));
        assert!(finding(&host, "host-imex-no-nodes").is_none(), "{path}");
    }
    host.write("etc/imex/gone.cfg", "IMEX_NODE_CONFIG_FILE=/etc/imex\n");
    started(&host, 700, "nvidia-imex -c /etc/imex/gone.cfg");
    let found = finding(&host, "host-imex-config-unreadable").unwrap();
    assert_eq!(text(&found, "subject"), "/etc/imex");
}

#[test]
fn a_stopped_daemon_is_checked_by_its_units_configuration() {
    let host = Host::healthy();
    host.remove("proc/700");
    host.remove("etc/nvidia-imex");
    let command = "[Service]\nType=forking\nExecStart=/usr/bin/nvidia-imex -c /etc/a.cfg\n";
    host.write(UNIT, command);
    host.write("etc/a.cfg", "IMEX_NODE_CONFIG_FILE=/etc/a\n");
    host.write("etc/a", "10.0.0.1\n");
    assert!(finding(&host, "host-imex-not-running").is_some());
    assert!(finding(&host, "host-imex-no-nodes").is_none());

    let drop_in = "etc/systemd/system/nvidia-imex.service.d/own.conf";
    host.write(
        drop_in,
        "[Service]\nExecStart=\nExecStart=-/usr/bin/nvidia-imex \\\n  -c \"/etc/b.cfg\"\n",
    );
    host.write("etc/b.cfg", "IMEX_NODE_CONFIG_FILE=/etc/b\n");
    host.write("etc/b", "");
    let found = finding(&host, "host-imex-no-nodes").unwrap();
    assert_eq!(text(&found, "subject"), "/etc/b");
    let expected = "configuration /etc/b.cfg, from ExecStart of nvidia-imex.service";
    assert!(text(&found, "evidence").contains(expected), "{found}");

    host.write(
        drop_in,
        "[Service]\nExecStart=/usr/bin/nvidia-imex -c ${CONFIG}\n",
    );
    let found = finding(&host, "host-imex-config-unreadable").unwrap();
    assert_eq!(text(&found, "subject"), "${CONFIG}");

    host.write(drop_in, "[Service]\nExecStart=/bin/sh -c /etc/start.sh\n");
    let found = finding(&host, "host-imex-config-unreadable").unwrap();
    assert!(text(&found, "evidence").contains("does not run nvidia-imex"));
}

#[test]
fn a_second_daemon_in_a_pod_is_named_first() {
    let host = Host::healthy();
    add_second(&host);
    let ids = host.ids(1);
    assert_eq!(ids.first().unwrap(), "host-imex-two-daemons", "{ids:?}");
    let found = finding(&host, "host-imex-two-daemons").unwrap();
    assert_eq!(text(&found, "severity"), "error");
    let evidence = text(&found, "evidence");
    for expected in [
        "process 700 (cgroup /system.slice/nvidia-imex.service)",
        "process 900 (cgroup /kubepods.slice/",
        "NV_ERR_IN_USE",
    ] {
        assert!(evidence.contains(expected), "{evidence}");
    }
    assert!(text(&found, "fix").contains("driverManaged"), "{found}");
    host.remove("proc/900");
    host.out("doctor", 0);
}

#[test]
fn daemons_in_namespaces_of_their_own_are_two() {
    let host = Host::healthy();
    for (pid, namespace) in [(700, "pid:[1]"), (900, "pid:[2]")] {
        host.write(&format!("proc/{pid}/comm"), "nvidia-imex\n");
        host.write(&format!("proc/{pid}/cgroup"), "0::/\n");
        fs::create_dir_all(host.at(&format!("proc/{pid}/ns"))).unwrap();
        symlink(namespace, host.at(&format!("proc/{pid}/ns/pid"))).unwrap();
    }
    assert!(finding(&host, "host-imex-two-daemons").is_some());
    host.remove("proc/900/ns/pid");
    symlink("pid:[1]", host.at("proc/900/ns/pid")).unwrap();
    host.out("doctor", 0);
}

#[test]
fn a_process_without_the_driver_is_no_second_daemon() {
    // A child of the service's, one that has ended, and one without a GPU.
    let host = Host::healthy();
    add_second(&host);
    host.write("proc/900/cgroup", SERVICE);
    host.out("doctor", 0);
    host.write("proc/900/cgroup", POD);
    host.write("proc/900/cmdline", "");
    host.out("doctor", 0);
    started(&host, 900, "nvidia-imex -c /imexd/imexd.cfg --nogpu");
    host.out("doctor", 0);
    started(&host, 900, "nvidia-imex -c /imexd/imexd.cfg");
    host.out("doctor", 1);
}

#[test]
fn a_containers_daemon_is_judged_by_the_containers_files() {
    let host = Host::healthy();
    add_second(&host);
    host.remove("proc/700");
    host.remove("etc/nvidia-imex");
    let text_of_all = host.out("doctor", 0);
    assert!(
        text_of_all.contains("running in a container"),
        "{text_of_all}"
    );

    host.write("proc/900/root/imexd/nodes.cfg", "");
    let found = finding(&host, "host-imex-no-nodes").unwrap();
    assert_eq!(text(&found, "subject"), "/imexd/nodes.cfg");
    let evidence = text(&found, "evidence");
    assert!(evidence.contains("as seen by process 900"), "{evidence}");

    // As for a process that cannot be inspected.
    host.remove("proc/900/root");
    host.write(
        "imexd/imexd.cfg",
        "IMEX_NODE_CONFIG_FILE=/imexd/nodes.cfg\n",
    );
    host.write("imexd/nodes.cfg", "");
    let found = finding(&host, "host-imex-config-unreadable").unwrap();
    assert_eq!(text(&found, "subject"), "/imexd/imexd.cfg");
    assert!(finding(&host, "host-imex-no-nodes").is_none());
}
