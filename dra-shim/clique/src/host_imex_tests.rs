use std::error::Error as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

const TIMEOUT: Duration = Duration::from_secs(30);

/// Runs a script instead of the tool, in this machine's root.
fn ask(script: &str, timeout: Duration) -> Result<(), HostImexError> {
    let mut tool = Command::new("/bin/sh");
    tool.arg("-c").arg(script).arg("nvidia-imex-ctl");
    HostImex::new(DriverRoot::new("/"), "/run/imex.sock").query(tool, timeout)
}

// req: NODE-13
#[test]
fn only_the_exact_word_is_ready() {
    ask("echo READY", TIMEOUT).unwrap();
    for word in [
        "NOT READY",
        "NOT_READY",
        "READY READY",
        "ready",
        "READYISH",
        "",
    ] {
        let error = ask(&format!("echo '{word}'"), TIMEOUT).unwrap_err();
        assert_eq!(error.code(), "imex-not-ready", "{word}");
    }
}

#[test]
fn another_answer_is_in_the_error() {
    let error = ask("echo WAITING_FOR_PEERS", TIMEOUT).unwrap_err();
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
    let error = imex.query(tool, TIMEOUT).unwrap_err().to_string();
    assert!(
        error.contains("at /run/imex\\n.sock is not READY"),
        "{error}"
    );
}

#[test]
fn standard_error_does_not_decide_but_is_displayed() {
    ask("echo old config >&2; echo READY", TIMEOUT).unwrap();
    let error = ask("echo READY >&2; echo no socket >&2; exit 1", TIMEOUT).unwrap_err();
    assert_eq!(error.code(), "imex-ctl-failed");
    assert!(error.to_string().ends_with(": READY no socket"), "{error}");
}

#[test]
fn ready_from_a_program_that_failed_is_not_ready() {
    let error = ask("echo READY; exit 1", TIMEOUT).unwrap_err();
    assert_eq!(error.code(), "imex-ctl-failed");
}

#[test]
fn a_hanging_program_times_out() {
    let error = ask("sleep 1000", Duration::from_millis(100)).unwrap_err();
    assert_eq!(error.code(), "imex-ctl-timed-out");
    assert_eq!(
        error.to_string(),
        "nvidia-imex-ctl -q did not finish within 0.1 s"
    );
}

#[test]
fn a_missing_program_is_named_in_the_error() {
    let dir = tempfile::tempdir().unwrap();
    let imex = HostImex::new(DriverRoot::new(dir.path()), "/run/imex.sock");
    let error = imex.check_ready(TIMEOUT).unwrap_err();
    assert_eq!(error.code(), "imex-ctl-missing");
    let source = error.source().unwrap().to_string();
    assert!(source.contains("nvidia-imex-ctl"), "{source}");
}

/// A root with this machine's shell and its libraries.
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
fn the_program_runs_inside_the_hosts_root_and_gets_the_socket() {
    let root = root_with_a_shell(
        r#"[ "$1" = -q ] && [ "$2" = --u=/run/imex.sock ] && [ -f "$0" ] && [ ! -e /proc ] && echo READY"#,
    );
    let imex = HostImex::new(DriverRoot::new(root.path()), "/run/imex.sock");
    let answer = loop {
        match imex.check_ready(TIMEOUT) {
            // A parallel test forked while the script was being written, and holds it open
            // until its exec.
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

// req: DAEMON-2
#[test]
fn outside_of_its_root_the_program_gets_the_socket_and_needs_no_capability() {
    let root = root_with_a_shell("");
    // `true` prints nothing.
    fs::copy("/bin/true", root.path().join("usr/bin/nvidia-imex-ctl")).unwrap();
    let imex = HostImex::outside(DriverRoot::new(root.path()), "/run/imex.sock");
    let error = loop {
        match imex.check_ready(TIMEOUT).unwrap_err() {
            // As below: the copied file is still open in the child of a parallel test.
            HostImexError::Start { source, .. }
                if source.kind() == io::ErrorKind::ExecutableFileBusy => {}
            error => break error,
        }
    };
    assert_eq!(error.code(), "imex-not-ready", "{error}");
    assert_eq!(
        error.to_string(),
        "the host's nvidia-imex at /run/imex.sock is not READY: no output"
    );
    let nothing = tempfile::tempdir().unwrap();
    let imex = HostImex::outside(DriverRoot::new(nothing.path()), "/run/imex.sock");
    assert_eq!(
        imex.check_ready(TIMEOUT).unwrap_err().code(),
        "imex-ctl-missing"
    );
}

#[test]
fn the_answer_of_the_workspaces_mock_is_understood() {
    let mock = "../../hack/nvml-mock/bin/nvidia-imex-ctl";
    let mock = Path::new(env!("CARGO_MANIFEST_DIR")).join(mock);
    let error = ask(&format!(r#"exec /bin/sh {} "$@""#, mock.display()), TIMEOUT).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the host's nvidia-imex at /run/imex.sock is not READY: UNAVAILABLE"
    );
}
