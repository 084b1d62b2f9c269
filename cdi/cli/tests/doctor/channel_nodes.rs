//! Device nodes of the host, and the kernel's files that define them.

use std::fs;
use std::io::Write;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::host::{self, Host, text};

/// For giving up.
const GIVE_UP: Duration = Duration::from_secs(60);

const NODE: &str = "dev/nvidia-caps/nvidia-cap4323";
const CAPABILITY: &str = "proc/driver/nvidia/capabilities/fabric-imex-mgmt";

/// The finding of that id of a host that is not healthy.
fn finding(host: &Host, id: &str) -> Option<Value> {
    host::finding(&host.json("doctor --json", 1), id).cloned()
}

/// Creates the capability's node. Returns `false`, with a message, where this is not permitted.
pub(crate) fn mknod(host: &Host, kind: &str, major: u32, minor: u32) -> bool {
    let path = host.at(NODE);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut mknod = Command::new("mknod");
    mknod.arg(&path).arg(kind);
    mknod.args([major.to_string(), minor.to_string()]);
    let made = mknod.output().unwrap().status.success();
    if !made {
        let line = b"\nSKIPPED: no device node may be made here\n";
        std::io::stderr().write_all(line).unwrap();
    }
    made
}

#[test]
fn the_capabilitys_node_is_missed_where_no_daemon_runs() {
    let host = Host::healthy();
    host.remove("proc/700");
    let found = finding(&host, "imex-capability-node-missing").unwrap();
    assert_eq!(text(&found, "subject"), "/dev/nvidia-caps/nvidia-cap4323");
    assert_eq!(text(&found, "severity"), "warning");
    host.write("proc/700/comm", "nvidia-imex\n");
    host.out("doctor", 0);
}

#[test]
fn a_file_in_place_of_the_capabilitys_node_is_named() {
    let host = Host::healthy();
    host.write(NODE, "");
    let found = finding(&host, "imex-capability-node-wrong").unwrap();
    assert_eq!(text(&found, "subject"), "/dev/nvidia-caps/nvidia-cap4323");
    assert!(text(&found, "evidence").starts_with("this path is not a device node"));
    host.remove(NODE);
    host.out("doctor", 0);
}

#[test]
fn the_capabilitys_node_has_its_drivers_major_and_its_own_minor() {
    for (kind, major, minor, is) in [
        ("c", 234, 4323, None),
        ("c", 235, 4323, Some("this device node is c 235:4323, ")),
        ("c", 234, 0, Some("this device node is c 234:0, ")),
        ("b", 234, 4323, Some("this device node is b 234:4323, ")),
    ] {
        let host = Host::healthy();
        if !mknod(&host, kind, major, minor) {
            return;
        }
        let Some(is) = is else {
            host.out("doctor", 0);
            continue;
        };
        let found = finding(&host, "imex-capability-node-wrong").unwrap();
        let evidence = text(&found, "evidence");
        assert!(evidence.starts_with(is), "{evidence}");
        assert!(evidence.contains("imex-mgmt is c 234:4323"), "{evidence}");
    }
}

#[test]
fn without_its_drivers_major_the_expected_node_is_unknown() {
    let host = Host::healthy();
    host.write(
        "proc/devices",
        "Character devices:\n235 nvidia-caps-imex-channels\n",
    );
    host.write(NODE, "");
    let found = finding(&host, "nvidia-caps-major-missing").unwrap();
    assert_eq!(text(&found, "subject"), "/proc/devices");
    assert!(finding(&host, "imex-capability-node-wrong").is_none());
}

#[test]
fn a_pipe_in_place_of_a_kernels_file_is_named_and_not_waited_for() {
    for (path, id) in [
        ("proc/driver/nvidia/params", "driver-file-malformed"),
        (CAPABILITY, "driver-file-malformed"),
        ("proc/devices", "device-list-malformed"),
    ] {
        let host = Arc::new(Host::healthy());
        host.remove(path);
        let made = Command::new("mkfifo").arg(host.at(path)).status();
        assert!(made.unwrap().success());
        let (done, when_done) = mpsc::channel();
        let looked_at = Arc::clone(&host);
        thread::spawn(move || done.send(finding(&looked_at, id)));
        let found = when_done.recv_timeout(GIVE_UP);
        if found.is_err() {
            // Unblocks a program that waits for a writer.
            drop(
                fs::OpenOptions::new()
                    .read(true)
                    .write(true)
                    .open(host.at(path)),
            );
        }
        let found = found.unwrap().unwrap();
        assert_eq!(text(&found, "subject"), format!("/{path}"));
        let evidence = text(&found, "evidence");
        assert!(
            evidence.ends_with(&format!("/{path} is a named pipe, not a file")),
            "{evidence}"
        );
    }
}

#[test]
fn evidence_names_files_as_the_host_does() {
    let host = Host::healthy();
    host.write("proc/devices", "Character devices:\n234 nvidia-caps\n");
    host.write("proc/driver/nvidia/params", "ImexChannelCount: many\n");
    let report = host.json("doctor --json --imex-socket /run/imex.sock", 1);
    let here = host.at("").display().to_string();
    let here = here.trim_end_matches('/');
    for (id, path) in [
        ("imex-channel-major-missing", "list /proc/devices has"),
        ("driver-file-malformed", "/proc/driver/nvidia/params is"),
        ("imex-ctl-missing", "usual places below /"),
    ] {
        let found = host::finding(&report, id);
        let found = found.unwrap_or_else(|| panic!("no {id}: {report:#}"));
        let evidence = text(found, "evidence");
        assert!(evidence.contains(path), "{evidence}");
        assert!(!evidence.contains(here), "{evidence}");
    }
}
