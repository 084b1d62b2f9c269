//! The program in `main.go`, built once and asked once.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;
use serde_json::Value;

use crate::answer::{Answer, Outcome, pruned};

/// A Go tool chain.
pub(crate) struct Go;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reply {
    devices: Option<Vec<String>>,
    file_errors: Option<BTreeMap<PathBuf, Vec<String>>>,
    unresolved: Option<BTreeSet<String>>,
    error: String,
    panic: String,
    config: Option<Value>,
}

impl Go {
    pub(crate) fn find() -> Option<Self> {
        let version = Command::new("go").arg("version").output();
        version
            .is_ok_and(|out| out.status.success())
            .then_some(Self)
    }

    /// What the Go library answers to each of `requests`.
    #[expect(
        clippy::unused_self,
        reason = "there is one only if there is a tool chain"
    )]
    pub(crate) fn answers(&self, requests: &[Value]) -> Vec<Answer> {
        let mut program = Command::new(build())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = program.stdin.take().unwrap();
        let lines: Vec<String> = requests.iter().map(Value::to_string).collect();
        let lines = lines.join("\n");
        let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
        let out = program.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        assert!(
            out.status.success(),
            "the oracle failed; its message is above"
        );
        let text = String::from_utf8(out.stdout).unwrap();
        text.lines()
            .map(|line| answer(serde_json::from_str(line).unwrap()))
            .collect()
    }
}

/// Offline once the modules are in Go's cache, which is the user's.
fn build() -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cdi-oracle");
    let out = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle"))
        .env("GOFLAGS", "-mod=readonly -buildvcs=false")
        .env("GOTOOLCHAIN", "local")
        .env("CGO_ENABLED", "0")
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "the oracle did not build; the first build needs the network:\n{}",
        String::from_utf8_lossy(&out.stderr)
    );
    program
}

fn answer(reply: Reply) -> Answer {
    let outcome = match (reply.unresolved, reply.config) {
        _ if !reply.panic.is_empty() => Outcome::Panicked(reply.panic),
        (Some(names), _) if !names.is_empty() => Outcome::Unresolved(names),
        (_, Some(config)) => Outcome::Config(pruned(config)),
        _ => {
            assert!(!reply.error.is_empty());
            Outcome::Refused
        }
    };
    Answer {
        devices: reply.devices.unwrap_or_default(),
        bad_files: reply.file_errors.unwrap_or_default().into_keys().collect(),
        outcome,
    }
}
