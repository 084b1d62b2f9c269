//! How commands end: closed pipes, full disks, missing rights; no colour off a
//! terminal, no control characters from files.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Stdio;

use super::unprivileged::unprivileged;
use super::{Place, stderr, stdout};

#[test]
fn a_reader_that_closes_the_pipe_early_is_no_error() {
    let place = Place::new();
    // More than a pipe holds, so that the program is still writing.
    let mut child = place
        .command("generate --root host --channels all")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), stderr(&output).as_str()),
        (Some(0), "")
    );
}

#[test]
fn data_comes_before_errors_where_both_go_to_one_file() {
    let place = Place::new();
    for (words, last) in [
        (
            "list --root host",
            "load the driver that creates the device node",
        ),
        (
            "show nvidia.com/gpu=0 --root host",
            "load the driver that creates the device node",
        ),
        (
            "validate host/etc/cdi none.json",
            "1 of 6 files cannot be read",
        ),
    ] {
        let both = fs::File::create(place.at("both")).unwrap();
        place
            .command(words)
            .stdout(both.try_clone().unwrap())
            .stderr(both)
            .status()
            .unwrap();
        let text = place.read("both");
        let line = text.lines().last().unwrap();
        assert!(
            line.starts_with("cdi-gen: ") && line.contains(last),
            "{text}"
        );
    }
}

#[test]
fn a_full_disk_behind_stdout_is_reported() {
    let place = Place::new();
    for words in [
        "list --root host",
        "show --root host nvidia.com/imex-channel=0",
        "validate --root host",
        "why --root host nvidia.com/imex-channel=0",
        "generate --root host --channels 0",
    ] {
        let full = fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let output = place.command(words).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{words}");
        assert!(
            stderr(&output).contains("cannot write to stdout"),
            "{words}"
        );
    }
}

#[test]
fn without_rights_the_rest_is_printed_and_unreadable_files_are_reported() {
    let place = Place::new();
    let closed = place.at("host/etc/cdi/nvidia.com-gpu.yaml");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let output = run_unprivileged(&place, "list --root host");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).contains("nvidia.com/imex-channel=0 "));
    let message = stderr(&output);
    assert!(
        message.contains("nvidia.com-gpu.yaml: Permission denied"),
        "{message}"
    );
    assert!(message.contains("give the file mode 0644"), "{message}");
    let output = run_unprivileged(&place, "why nvidia.com/gpu=0 --root host");
    assert_eq!(output.status.code(), Some(3));
    assert!(stdout(&output).starts_with("cannot determine whether nvidia.com/gpu=0 resolves: "));
    assert!(stdout(&output).contains("  fix       run cdi-gen as root"));
    assert!(
        stdout(&output).contains("Permission denied"),
        "{}",
        stdout(&output)
    );
    for words in [
        "list nvidia.com/gpu --root host",
        "list --json gpu=* --root host",
    ] {
        let output = run_unprivileged(&place, words);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{words}: {message}");
        assert!(
            message.contains("cdi-gen: cannot determine whether a CDI device matches ")
                && message.contains(": cannot read CDI spec host/etc/cdi/nvidia.com-gpu.yaml: ")
                && message.contains("; run cdi-gen as root"),
            "{words}: {message}"
        );
    }
    for words in ["validate --root host", "validate host/etc/cdi host/run/cdi"] {
        let output = run_unprivileged(&place, words);
        assert_eq!(output.status.code(), Some(3), "{words}");
        assert!(stdout(&output).contains("[cdi-spec-unreadable]"), "{words}");
        assert_eq!(
            stderr(&output),
            "cdi-gen: 1 of 7 files cannot be read\n",
            "{words}"
        );
    }
    let output = run_unprivileged(&place, "generate --root host --channels 0");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn a_link_that_leads_nowhere_is_a_file_that_cannot_be_read() {
    let place = Place::new();
    fs::create_dir(place.at("specs")).unwrap();
    symlink("loop.json", place.at("specs/loop.json")).unwrap();
    let output = place.run("validate specs");
    assert_eq!(output.status.code(), Some(3));
    assert!(stdout(&output).contains("error: cannot read CDI spec specs/loop.json: "));
    assert_eq!(stderr(&output), "cdi-gen: 1 of 1 files cannot be read\n");
}

/// The program, run by an unprivileged user.
fn run_unprivileged(place: &Place, words: &str) -> std::process::Output {
    unprivileged(&place.at("."))
        .args(words.split_whitespace())
        .current_dir(place.at("."))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn there_is_no_colour_off_a_terminal() {
    let place = Place::new();
    let mut command = place.command("validate --root host");
    let output = command.env("TERM", "xterm").output().unwrap();
    assert!(!stdout(&output).contains('\u{1b}'));
}

// req: DOCTOR-6
#[test]
fn a_spec_cannot_send_commands_to_the_terminal() {
    let place = Place::new();
    let evil = "A=\\u001b[2J\\u202e";
    place.write(
        "host/etc/cdi/evil.json",
        &format!(
            r#"{{"cdiVersion":"0.6.0","kind":"a/b","annotations":{{"x":"{evil}"}},"devices":[{{"name":"c","containerEdits":{{"env":["{evil}"]}}}}]}}"#
        ),
    );
    place.write("host/etc/cdi/a\u{1b}[2J\u{202e}.json", "{");
    for words in [
        "list --root host",
        "list --json --root host",
        "show a/b=c --root host",
        "show --json a/b=c --root host",
        "validate --root host",
        "validate --json --root host",
        "why a/b=c --root host",
        "why a/b=d --root host",
    ] {
        let output = place.run(words);
        let printed = stdout(&output) + &stderr(&output);
        assert!(
            printed
                .chars()
                .all(|c| c == '\n' || c == ' ' || c.is_ascii_graphic()),
            "{words}: {printed:?}"
        );
    }
}
