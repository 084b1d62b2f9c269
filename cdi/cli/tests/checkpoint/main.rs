//! End-to-end tests of `cdi-gen checkpoint`, on files that the Go driver wrote.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where its expectation fails"
)]

mod damage;
mod inputs;
#[path = "../support/output.rs"]
mod output;
mod readme;
#[path = "../support/schema.rs"]
mod schema;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use dra_checkpoint::BootId;
use serde_json::Value;
use tempfile::TempDir;

use output::{stderr, stdout};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../checkpoint/tests/fixtures")
        .join(name)
}

fn cdi_gen() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cdi-gen"));
    command.arg("checkpoint").stdin(Stdio::null());
    command
}

fn run(subcommand: &str, files: &[&Path]) -> Output {
    let words = subcommand.split_whitespace();
    cdi_gen().args(words).args(files).output().unwrap()
}

/// A fixture with one text replaced, in its own directory.
fn changed(name: &str, from: &str, to: &str) -> (TempDir, PathBuf) {
    let text = fs::read_to_string(fixture(name)).unwrap();
    assert!(text.contains(from), "{from} is not in {name}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("checkpoint.json");
    fs::write(&path, text.replacen(from, to, 1)).unwrap();
    (dir, path)
}

/// A text with its right checksums, which the verdict prints.
fn sealed(text: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("checkpoint.json");
    fs::write(&path, text).unwrap();
    let verdict = stdout(&run("verify", &[&path]));
    verdict
        .split("checksum is ")
        .skip(1)
        .fold(text.to_owned(), |text, mismatch| {
            let (stored, rest) = mismatch
                .split_once(", but the checksum of the content is ")
                .unwrap();
            let computed = rest.trim_end().split(';').next().unwrap();
            text.replace(stored, computed)
        })
}

const GO_REWRITES_IDENTICALLY: [&str; 8] = [
    "01-empty.json",
    "02-channel-completed.json",
    "03-channel-started.json",
    "04-channel-aborted.json",
    "05-daemon-completed.json",
    "06-unicode-html.json",
    "08-channel-completed-no-clique.json",
    "10-v2-no-bootid-25.8-to-25.12.json",
];
const OTHER_FIXTURES: [&str; 4] = [
    "09-v1-only-25.3.x.json",
    "11-v1-only-empty.json",
    "12-legacy-25.3.0-rc.2.json",
    "13-unknown-top-level-key.json",
];

// === verify ===

#[test]
fn every_file_of_the_go_driver_verifies() {
    let names = GO_REWRITES_IDENTICALLY.iter().chain(&OTHER_FIXTURES);
    let files: Vec<PathBuf> = names.map(|name| fixture(name)).collect();
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let output = run("verify", &files);
    assert_eq!(output.status.code(), Some(0));
    let expected: Vec<String> = files
        .iter()
        .map(|file| format!("{}: OK", file.display()))
        .collect();
    assert!(stdout(&output).lines().eq(expected));
    assert_eq!(stderr(&output), "");
}

#[test]
fn the_checksum_that_does_not_match_is_named_with_both_numbers() {
    let name = "02-channel-completed.json";
    let text = fs::read_to_string(fixture(name)).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    let (v1, v2) = (&file["checksum"], &file["v2"]["checksum"]);
    for (part, stored) in [("V1", v1), ("V2", v2)] {
        // The content is intact, so the right number is known.
        let (_dir, path) = changed(name, &format!(r#""checksum":{stored}"#), r#""checksum":17"#);
        let output = run("verify", &[&path]);
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(
            stdout(&output),
            format!(
                "{}: CORRUPT: the {part} part does not match its checksum; \
                 {part} checksum is 17, but the checksum of the content is {stored}\n",
                path.display()
            )
        );
    }
}

#[test]
fn a_change_in_either_part_is_found_in_that_part() {
    // V1 comes first in the file; only V2 has names.
    for (part, from, to) in [
        ("V1", "worker-0", "worker-9"),
        ("V2", r#""namespace":"default""#, r#""namespace":"defaulT""#),
    ] {
        let (_dir, path) = changed("02-channel-completed.json", from, to);
        let output = run("verify", &[&path]);
        assert_eq!(output.status.code(), Some(1));
        let line = stdout(&output);
        assert!(line.contains(&format!("{part} checksum is ")), "{line}");
        assert_eq!(line.matches(" checksum is ").count(), 1, "{line}");
    }
}

#[test]
fn all_files_are_checked_and_one_that_cannot_be_read_is_reported_on_stderr() {
    let (dir, corrupt) = changed("01-empty.json", "{", "");
    let missing = dir.path().join("missing.json");
    let whole = fixture("01-empty.json");
    let output = run("verify", &[&corrupt, &missing, dir.path(), &whole]);
    assert_eq!(output.status.code(), Some(3));
    let lines = stdout(&output);
    assert!(lines.contains("CORRUPT: the file is not JSON; "), "{lines}");
    assert!(lines.ends_with(": OK\n"), "{lines}");
    assert_eq!(lines.lines().count(), 2);
    let message = stderr(&output);
    assert!(
        message.contains("cannot read") && message.contains("missing.json"),
        "{message}"
    );
    assert!(
        message.ends_with("cdi-gen: 2 of 4 files cannot be read\n"),
        "{message}"
    );
}

// === verify --canonical ===

#[test]
fn the_canonical_bytes_are_those_that_go_would_write() {
    for name in GO_REWRITES_IDENTICALLY {
        let output = run("verify --canonical", &[&fixture(name)]);
        assert_eq!(output.status.code(), Some(0), "{name}");
        assert!(output.stdout == fs::read(fixture(name)).unwrap(), "{name}");
        assert_eq!(stderr(&output), "", "{name}");
    }
}

#[test]
fn the_canonical_bytes_have_a_key_that_go_would_lose() {
    let name = "13-unknown-top-level-key.json";
    let output = run("verify --canonical", &[&fixture(name)]);
    assert!(output.stdout == fs::read(fixture(name)).unwrap());
}

#[test]
fn the_canonical_bytes_of_an_old_file_have_the_current_layout() {
    for name in OTHER_FIXTURES {
        let output = run("verify --canonical", &[&fixture(name)]);
        assert_eq!(output.status.code(), Some(0), "{name}");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("checkpoint.json");
        fs::write(&path, &output.stdout).unwrap();
        assert_eq!(run("verify", &[&path]).status.code(), Some(0), "{name}");
        let again = run("verify --canonical", &[&path]);
        assert!(again.stdout == output.stdout, "{name}");
    }
}

#[test]
fn canonical_bytes_are_of_one_file() {
    let path = fixture(GO_REWRITES_IDENTICALLY[0]);
    let output = run("verify --canonical", &[&path, &path]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stdout(&output), "");
    assert_eq!(
        stderr(&output),
        "cdi-gen: --canonical takes one file, not 2; pass one file, or --driver\n"
    );
}

#[test]
fn a_damaged_file_has_no_canonical_bytes() {
    let (_dir, path) = changed("02-channel-completed.json", "worker-0", "worker-9");
    let output = run("verify --canonical", &[&path]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "");
    let message = stderr(&output);
    assert!(message.contains("V1 checksum is "), "{message}");
    assert!(message.contains("checkpoint show"), "the way on: {message}");
    assert_eq!(message.lines().count(), 1, "{message}");
}

// === show ===

#[test]
fn show_prints_a_table() {
    for (name, golden) in [
        ("02-channel-completed.json", "completed.txt"),
        ("03-channel-started.json", "started.txt"),
        ("04-channel-aborted.json", "aborted.txt"),
        ("05-daemon-completed.json", "daemon.txt"),
        ("09-v1-only-25.3.x.json", "v1.txt"),
        ("01-empty.json", "empty.txt"),
    ] {
        let output = cdi_gen()
            .current_dir(fixture(""))
            .args(["show", name])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{name}");
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden")
            .join(golden);
        let expected = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(stdout(&output), expected, "{}", path.display());
    }
}

#[test]
fn the_json_has_the_same_data_and_names_its_schema() {
    let output = cdi_gen()
        .args(["show", "--json"])
        .arg(fixture("02-channel-completed.json"))
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["schema"], "cdi-gen/checkpoint-show/v1");
    assert_eq!(report["layout"], "v2");
    assert_eq!(report["boot"], "other");
    assert_eq!(report["damage"], Value::Null);
    let claim = &report["claims"][0];
    assert_eq!(claim["uid"], "11111111-aaaa-4bbb-8ccc-000000000001");
    assert_eq!(claim["state"], "completed");
    assert_eq!(claim["namespace"], "default");
    assert_eq!(claim["abortedAt"], Value::Null);
    let device = &claim["devices"][0];
    assert_eq!(device["device"], "channel-0");
    assert_eq!(device["pool"], "node-a");
    assert_eq!(
        device["cdiDeviceIds"][0],
        "k8s.compute-domain.nvidia.com/claim=11111111-aaaa-4bbb-8ccc-000000000001-channel-0"
    );
    assert_eq!(claim["allocated"][0]["request"], "channel");
}

#[test]
fn a_file_of_this_boot_is_distinguished_from_others() {
    let text = fs::read_to_string(fixture("03-channel-started.json")).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    let recorded = file["v2"]["nodeBootID"].as_str().unwrap();
    let this = BootId::current().unwrap();
    let (_dir, path) = changed("03-channel-started.json", recorded, this.as_str());
    let changed = fs::read_to_string(&path).unwrap();
    fs::write(&path, sealed(&changed)).unwrap();
    let output = run("show", &[&path]);
    assert_eq!(output.status.code(), Some(0));
    let line = format!("boot id   {} (this host's current boot)\n", this.as_str());
    assert!(stdout(&output).contains(&line), "{}", stdout(&output));
}

#[test]
fn show_prints_the_readable_claims_of_a_damaged_file() {
    let (_dir, path) = changed(
        "02-channel-completed.json",
        r#""namespace":"default""#,
        r#""namespace":"defaulT""#,
    );
    let output = run("show", &[&path]);
    assert_eq!(output.status.code(), Some(1));
    let table = stdout(&output);
    assert!(table.contains("damaged   the V2 part"), "{table}");
    assert!(
        table.contains("; claims may be missing from the list below\n"),
        "{table}"
    );
    assert!(
        table.contains("11111111-aaaa-4bbb-8ccc-000000000001  Completed"),
        "{table}"
    );
    let json = cdi_gen()
        .args(["show", "--json"])
        .arg(&path)
        .output()
        .unwrap();
    assert_eq!(json.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(report["damage"]["code"], "v2-checksum");
    assert_eq!(report["damage"]["survivors"], "some");
    assert_eq!(report["damage"]["checksums"][0]["part"], "v2");
    assert_eq!(report["boot"], "lost");
    assert_eq!(report["layout"], Value::Null);
}

#[test]
fn show_prints_the_damage_and_the_fix_of_every_damaged_file() {
    let name = "03-channel-started.json";
    let whole = fs::read_to_string(fixture(name)).unwrap();
    let unknown = whole.replace("PrepareStarted", "Paused\u{202e}");
    let in_v2 = whole.replace("defaul", "Defaul");
    let lost = "boot id   - (lost because of the damage)";
    for (content, wrong, boot) in [
        ("", "the file is empty", lost),
        ("[]", "JSON but not a checkpoint", lost),
        (
            &whole[..700],
            "the file is not JSON; EOF while parsing a string at line 1 column 700",
            lost,
        ),
        (&in_v2, "V2 checksum is ", lost),
        (
            &sealed(&unknown),
            r"claim 22222222-aaaa-4bbb-8ccc-000000000002 is in the unknown state",
            "boot id   6f1c",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        fs::write(&path, content).unwrap();
        let output = run("show", &[&path]);
        assert_eq!(output.status.code(), Some(1));
        let table = stdout(&output);
        let lines: Vec<&str> = table.lines().collect();
        assert!(
            lines[1].starts_with("damaged   ") && lines[1].contains(wrong),
            "{table}"
        );
        assert!(
            lines[2].starts_with("fix       ") && lines[2].len() > 20,
            "{table}"
        );
        assert!(lines[3].starts_with(boot), "{table}");
        assert!(!table.contains('\u{202e}'), "{table}");
        assert!(!stdout(&run("verify", &[&path])).contains('\u{202e}'));
    }
}

#[test]
fn claims_are_sorted_by_uid() {
    let text = fs::read_to_string(fixture("09-v1-only-25.3.x.json")).unwrap();
    let swapped = text
        .replace("11111111-aaaa", "99999999-aaaa")
        .replace("44444444-aaaa", "00000000-aaaa");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("checkpoint.json");
    fs::write(&path, sealed(&swapped)).unwrap();
    let table = stdout(&run("show", &[&path]));
    let at = |uid: &str| {
        table
            .lines()
            .position(|line| line.starts_with(uid))
            .unwrap()
    };
    assert!(at("00000000-aaaa") < at("99999999-aaaa"), "{table}");
}

#[test]
fn a_file_cannot_send_commands_to_the_terminal() {
    let (_dir, path) = changed("01-empty.json", "{", "");
    let evil = path.with_file_name("a\u{1b}[2J\nb: OK\u{202e}\u{200b}\u{9b}");
    fs::rename(&path, &evil).unwrap();
    for arguments in [
        &["verify"][..],
        &["show"],
        &["show", "--json"],
        &["verify", "--canonical"],
    ] {
        let output = cdi_gen().args(arguments).arg(&evil).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let printed = stdout(&output) + &stderr(&output);
        assert!(!printed.contains("\nb: OK"), "{printed:?}");
        assert!(
            printed
                .chars()
                .all(|c| c == '\n' || c.is_ascii_graphic() || c == ' '),
            "{printed:?}"
        );
    }
}

#[test]
fn a_string_in_a_file_cannot_send_commands_to_the_terminal() {
    let (_dir, path) = changed(
        "09-v1-only-25.3.x.json",
        r#""PoolName":"node-a"#,
        "\"PoolName\":\"node\u{202e}a\u{7f}",
    );
    let changed = fs::read_to_string(&path).unwrap();
    fs::write(&path, sealed(&changed)).unwrap();
    let table = run("show", &[&path]);
    assert_eq!(table.status.code(), Some(0));
    assert!(
        stdout(&table).contains(r"node\u{202e}a\u{7f}"),
        "{}",
        stdout(&table)
    );
    let json = cdi_gen()
        .args(["show", "--json"])
        .arg(&path)
        .output()
        .unwrap();
    assert!(
        stdout(&json).contains(r"node\u202ea\u007f"),
        "{}",
        stdout(&json)
    );
}

// === how it ends ===

#[test]
fn a_reader_that_closes_the_pipe_early_is_no_error() {
    // More than a pipe holds, so that the program is still writing.
    let whole = fixture("02-channel-completed.json");
    let (_dir, corrupt) = changed("02-channel-completed.json", "worker-0", "worker-9");
    let mut child = cdi_gen()
        .arg("verify")
        .args(std::iter::repeat_n(&whole, 2000))
        .arg(&corrupt)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(stderr(&output), "");
    assert_eq!(output.status.code(), Some(1), "still true of the last file");
}

#[test]
fn a_full_disk_behind_stdout_is_reported() {
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = cdi_gen()
        .args(["verify", "--canonical"])
        .arg(fixture("02-channel-completed.json"))
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(
        stderr(&output).contains("cannot write to stdout"),
        "{}",
        stderr(&output)
    );
}
