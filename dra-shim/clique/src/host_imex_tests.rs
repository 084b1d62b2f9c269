use std::error::Error as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

const LIMIT: Duration = Duration::from_secs(30);

/// The answer of a script in the tool's place, in this machine's own root.
fn ask(script: &str, limit: Duration) -> Result<(), HostImexError> {
    let mut tool = Command::new("/bin/sh");
    tool.arg("-c").arg(script).arg("nvidia-imex-ctl");
    HostImex::new(DriverRoot::new("/"), "/run/imex.sock").judge(tool, limit)
}

#[test]
fn only_the_exact_word_is_ready() {
    ask("echo READY", LIMIT).unwrap();
    for word in [
        "NOT READY",
        "NOT_READY",
        "READY READY",
        "ready",
        "READYISH",
        "",
    ] {
        let error = ask(&format!("echo '{word}'"), LIMIT).unwrap_err();
        assert_eq!(error.code(), "imex-not-ready", "{word}");
    }
}

#[test]
fn the_wrong_word_is_in_the_error() {
    let error = ask("echo WAITING_FOR_PEERS", LIMIT).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the host's nvidia-imex at /run/imex.sock is not READY: WAITING_FOR_PEERS"
    );
}

#[test]
fn a_socket_with_control_characters_stays_on_one_line() {
    let mut tool = Command::new("/bin/sh");
    tool.arg("-c").arg("echo WAITING_FOR_PEERS");
    let imex = HostImex::new(DriverRoot::new("/"), "/run/imex\n.sock");
    let error = imex.judge(tool, LIMIT).unwrap_err().to_string();
    assert!(
        error.contains("at /run/imex\\n.sock is not READY"),
        "{error}"
    );
}

#[test]
fn complaints_do_not_decide_but_are_shown() {
    ask("echo old config >&2; echo READY", LIMIT).unwrap();
    let error = ask("echo READY >&2; echo no socket >&2; exit 1", LIMIT).unwrap_err();
    assert_eq!(error.code(), "imex-ctl-failed");
    assert!(error.to_string().ends_with(": READY no socket"), "{error}");
}

#[test]
fn ready_from_a_program_that_failed_is_not_ready() {
    let error = ask("echo READY; exit 1", LIMIT).unwrap_err();
    assert_eq!(error.code(), "imex-ctl-failed");
}

#[test]
fn a_program_that_hangs_is_a_time_out() {
    let error = ask("sleep 1000", Duration::from_millis(100)).unwrap_err();
    assert_eq!(error.code(), "imex-ctl-timed-out");
    assert_eq!(
        error.to_string(),
        "nvidia-imex-ctl -q did not answer within 0.1 s"
    );
}

#[test]
fn a_host_without_the_program_is_told_what_to_install() {
    let dir = tempfile::tempdir().unwrap();
    let imex = HostImex::new(DriverRoot::new(dir.path()), "/run/imex.sock");
    let error = imex.ready(LIMIT).unwrap_err();
    assert_eq!(error.code(), "imex-ctl-missing");
    let source = error.source().unwrap().to_string();
    assert!(source.contains("nvidia-imex-ctl"), "{source}");
}

/// A root with a shell in it, made of this machine's own and its libraries.
fn root_with_a_shell(script: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let ldd = Command::new("ldd").arg("/bin/sh").output().unwrap();
    let listed = String::from_utf8(ldd.stdout).unwrap();
    let files = listed.split_whitespace().filter(|it| it.starts_with('/'));
    for file in files.chain(["/bin/sh"]) {
        let to = dir.path().join(file.trim_start_matches('/'));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(file, to).unwrap();
    }
    let tool = dir.path().join("usr/bin/nvidia-imex-ctl");
    fs::create_dir_all(tool.parent().unwrap()).unwrap();
    fs::write(&tool, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

/// `CAP_SYS_CHROOT` (18) among the effective capabilities.
fn may_chroot() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|it| it.strip_prefix("CapEff:"));
    u64::from_str_radix(effective.unwrap().trim(), 16).unwrap() >> 18 & 1 == 1
}

#[test]
fn the_program_runs_inside_the_hosts_root_and_is_told_the_socket() {
    let root = root_with_a_shell(
        r#"[ "$1" = -q ] && [ "$2" = --u=/run/imex.sock ] && [ -f "$0" ] && [ ! -e /proc ] && echo READY"#,
    );
    let imex = HostImex::new(DriverRoot::new(root.path()), "/run/imex.sock");
    let answer = loop {
        match imex.ready(LIMIT) {
            // A sibling test forked while the script was being written, and
            // holds it open until its exec.
            Err(HostImexError::Start { source, .. })
                if source.kind() == io::ErrorKind::ExecutableFileBusy => {}
            answer => break answer,
        }
    };
    if may_chroot() {
        answer.unwrap();
    } else {
        let error = answer.unwrap_err();
        assert_eq!(error.code(), "imex-ctl-not-started");
        assert!(error.hint().contains("CAP_SYS_CHROOT"), "{error}");
    }
}

fn connections(script: &str, own: &[&str]) -> Result<ImexNode, HostImexError> {
    let mut tool = Command::new("/bin/sh");
    tool.arg("-c").arg(script).arg("nvidia-imex-ctl");
    HostImex::new(DriverRoot::new("/"), "/run/imex.sock").own_entry(tool, own, LIMIT)
}

#[test]
fn the_domain_is_asked_for_as_json_and_the_own_entry_comes_back() {
    let node = connections(
        r#"[ "$*" = "-N -j --u=/run/imex.sock" ] &&
            echo '{"nodes": {"0": {"host": "10.0.0.1", "connections": {"0": {"status": "CONNECTED"}}}}}'"#,
        &["10.0.0.1"],
    );
    assert_eq!(node.unwrap().index, "0");
}

#[test]
fn a_domain_without_this_node_names_those_that_it_lists() {
    let error = connections(
        r#"echo '{"nodes": {"0": {"host": "10.0.0.1"}, "1": {"host": "n2"}}}'"#,
        &["10.0.0.9"],
    );
    assert_eq!(
        error.unwrap_err().to_string(),
        "the IMEX domain at /run/imex.sock lists this node under none of its own names; it lists 10.0.0.1, n2"
    );
}

#[test]
fn a_node_that_is_listed_and_was_not_measured_is_told_so() {
    let error = connections(r#"echo '{"nodes": {"0": {"host": "n1"}}}'"#, &["n1"]).unwrap_err();
    assert_eq!(error.code(), "imex-node-not-measured");
    assert_eq!(
        error.to_string(),
        "the IMEX domain at /run/imex.sock lists this node as n1 and tells none of its connections"
    );
}

#[test]
fn an_answer_that_is_no_domain_is_refused_with_its_place() {
    for script in [
        "echo READY",
        "echo '{\"nodes\": 3}'",
        ":",
        "echo '{\"nodes\": {'",
    ] {
        let error = connections(script, &["n1"]).unwrap_err();
        assert_eq!(error.code(), "imex-ctl-bad-answer", "{script}");
        assert!(error.source().unwrap().to_string().contains("line"));
    }
    let failed = connections("echo Failed to read node configuration file; exit 255", &[]);
    assert_eq!(
        failed.unwrap_err().to_string(),
        "nvidia-imex-ctl -N -j for /run/imex.sock failed (exit status: 255): \
         Failed to read node configuration file"
    );
}

#[test]
fn the_workspaces_mock_of_the_tool_prints_what_is_understood() {
    let mock = "../../hack/nvml-mock/bin/nvidia-imex-ctl";
    let mock = Path::new(env!("CARGO_MANIFEST_DIR")).join(mock);
    let script = format!(r#"exec /bin/sh {} "$@""#, mock.display());
    let node = connections(&script, &["127.0.0.1"]).unwrap();
    assert_eq!(node.connections.len(), 1);
    assert_eq!(node.broken().count(), 0);
}
