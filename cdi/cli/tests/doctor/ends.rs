//! How commands end: missing rights, full disks; no control characters from files.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use super::host::{Host, KUBELET, PLUGIN, SPEC};
use super::{stderr, stdout};

// req: DOCTOR-9
#[test]
fn a_full_disk_behind_stdout_is_reported() {
    let host = Host::healthy();
    for words in ["doctor", "doctor --json"] {
        let mut full = fs::OpenOptions::new();
        let full = full.write(true).open("/dev/full").unwrap();
        let output = host.command(words).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{words}");
        let message = stderr(&output);
        assert!(
            message.contains("cannot write to stdout"),
            "{words}: {message}"
        );
    }
}

// req: DOCTOR-6
#[test]
fn a_host_cannot_send_commands_to_the_terminal() {
    let host = Host::healthy();
    host.write("etc/cdi/a\u{1b}[2J\u{202e}.json", "{");
    host.write("run/cdi/\u{1b}[2J.tmp", "");
    host.write("proc/700/comm", "nvidia\u{1b}[2J\n");
    for words in ["doctor", "doctor --json"] {
        let output = host.run(words);
        let printed = stdout(&output) + &stderr(&output);
        assert!(
            printed
                .chars()
                .all(|c| c == '\n' || c == ' ' || c.is_ascii_graphic()),
            "{words}: {printed:?}"
        );
    }
}

// req: DOCTOR-4
#[test]
fn a_directory_that_cannot_be_listed_is_not_mistaken_for_an_empty_one() {
    let host = Host::healthy();
    let dir = "run/cdi";
    let (closed, open) = (0o000, 0o755);
    let set = |mode| fs::set_permissions(host.at(dir), fs::Permissions::from_mode(mode)).unwrap();
    set(closed);
    let ids = unprivileged_ids(&host);
    set(open);
    assert!(
        ids.iter().any(|id| id == "cdi-directory-unreadable"),
        "{ids:?}"
    );
    for of_absence in ["claim-without-spec", "checkpoint-absent"] {
        assert!(ids.iter().all(|id| id != of_absence), "{ids:?}");
    }
    host.remove(SPEC);
    let ids = unprivileged_ids(&host);
    assert_eq!(ids.first().map(String::as_str), Some("claim-without-spec"));
}

// req: DOCTOR-4
#[test]
fn a_checkpoint_that_cannot_be_read_is_not_mistaken_for_an_empty_one() {
    let host = Host::healthy();
    let checkpoint = format!("{PLUGIN}/checkpoint.json");
    let closed = fs::Permissions::from_mode(0o000);
    fs::set_permissions(host.at(&checkpoint), closed).unwrap();
    let ids = unprivileged_ids(&host);
    assert_eq!(ids, ["checkpoint-unreadable", "fabric-not-read"]);
}

/// The findings of `doctor` for an unprivileged user.
fn unprivileged_ids(host: &Host) -> Vec<String> {
    let output = host.run_unprivileged("doctor --json");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report.get("findings").and_then(Value::as_array).unwrap();
    let ids = findings
        .iter()
        .map(|it| it.get("id").and_then(Value::as_str));
    ids.map(|id| id.unwrap().to_owned()).collect()
}

// req: DOCTOR-4
#[test]
fn without_rights_an_unreadable_file_is_a_finding_and_the_rest_is_examined() {
    let host = Host::healthy();
    let checkpoint = format!("{PLUGIN}/checkpoint.json");
    for closed in [checkpoint.as_str(), KUBELET] {
        let mode = fs::Permissions::from_mode(0o000);
        fs::set_permissions(host.at(closed), mode).unwrap();
    }
    let output = host.run_unprivileged("doctor --json");
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
