//! How the commands end: no rights, a full disk, texts that a terminal would
//! obey.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::host::{Host, KUBELET, PLUGIN};
use super::{stderr, stdout};

#[test]
fn a_full_disk_behind_stdout_is_told() {
    let host = Host::healthy();
    for words in ["doctor", "doctor --json", "gc", "watch --once"] {
        let mut full = fs::OpenOptions::new();
        let full = full.write(true).open("/dev/full").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_cdi-gen"))
            .args(words.split_whitespace())
            .arg("--root")
            .arg(host.at(""))
            .stdin(Stdio::null())
            .stdout(full)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(3), "{words}");
        let told = stderr(&output);
        assert!(told.contains("cannot write to stdout"), "{words}: {told}");
    }
}

#[test]
fn a_host_cannot_send_commands_to_the_terminal() {
    let host = Host::healthy();
    host.write("etc/cdi/a\u{1b}[2J\u{202e}.json", "{");
    host.write("run/cdi/\u{1b}[2J.tmp", "");
    host.write("proc/700/comm", "nvidia\u{1b}[2J\n");
    for words in ["doctor", "doctor --json", "watch --once"] {
        let output = host.run(words);
        let said = stdout(&output) + &stderr(&output);
        assert!(
            said.chars()
                .all(|c| c == '\n' || c == ' ' || c.is_ascii_graphic()),
            "{words}: {said:?}"
        );
    }
}

#[test]
fn without_rights_what_is_closed_is_a_finding_and_the_rest_is_looked_at() {
    let host = Host::healthy();
    let checkpoint = format!("{PLUGIN}/checkpoint.json");
    for closed in [checkpoint.as_str(), KUBELET] {
        let mode = fs::Permissions::from_mode(0o000);
        fs::set_permissions(host.at(closed), mode).unwrap();
    }
    let output = unprivileged(&host);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report.get("findings").and_then(Value::as_array).unwrap();
    let ids: Vec<&str> = findings
        .iter()
        .map(|finding| finding.get("id").and_then(Value::as_str).unwrap())
        .filter(|id| *id != "fabric-not-read")
        .collect();
    assert_eq!(ids, ["checkpoint-unreadable", "kubelet-state-unreadable"]);
}

/// `doctor --json` as a user who may do nothing special.
fn unprivileged(host: &Host) -> std::process::Output {
    let closed = host.at(KUBELET);
    if fs::File::open(closed).is_err() {
        return host.run("doctor --json");
    }
    // This is root, who may read everything; where the program was built may be
    // closed to others. Another process copies it: a child that another test
    // starts meanwhile would hold a file that is written here open, and what is
    // open for writing cannot be run.
    let program = host.at("cdi-gen");
    let mut copy = Command::new("cp");
    copy.arg(env!("CARGO_BIN_EXE_cdi-gen")).arg(&program);
    assert!(copy.status().unwrap().success());
    for open in [host.at(""), program.clone()] {
        fs::set_permissions(open, fs::Permissions::from_mode(0o755)).unwrap();
    }
    Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(program)
        .args(["doctor", "--json", "--root"])
        .arg(host.at(""))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}
