//! `Spec::parse` beside what the CDI library in Go makes of the same text.
//!
//! `fixtures/yaml/verdicts.jsonl` has a case on each line: the text, and what
//! Go holds after reading it (`go`) or why it refuses it (`goRefuses`). Where we
//! differ on purpose the case says why (`differs`).
#![cfg(feature = "inject")]
#![expect(
    clippy::unwrap_used,
    reason = "a failed unwrap outside a test function fails the test too"
)]

use std::path::Path;
use std::process::Command;

use imex_cdi::{Spec, SpecError};
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    name: String,
    text: String,
    go: Option<Value>,
    go_refuses: Option<String>,
    differs: Option<String>,
}

const VERDICTS: &str = "tests/fixtures/yaml/verdicts.jsonl";

fn cases() -> Vec<Case> {
    read_cases(include_str!("fixtures/yaml/verdicts.jsonl"))
}

fn read_cases(text: &str) -> Vec<Case> {
    let cases = text.lines().map(|line| serde_json::from_str(line).unwrap());
    cases.collect()
}

/// Without what Go cannot tell from absent, and with our one spelling of
/// versions and permissions.
fn as_go_sees_it(mut value: Value) -> Value {
    strip(&mut value);
    if let Some(Value::String(version)) = value.get_mut("cdiVersion") {
        *version = version.trim_start_matches('v').to_owned();
    }
    value
}

fn strip(value: &mut Value) {
    match value {
        Value::Array(entries) => entries.iter_mut().for_each(strip),
        Value::Object(fields) => {
            fields.values_mut().for_each(strip);
            strip_fields(fields);
        }
        _ => {}
    }
}

fn strip_fields(fields: &mut Map<String, Value>) {
    fields.retain(|key, value| match key.as_str() {
        "major" | "minor" => *value != 0,
        // Go writes none of these when empty, but an empty struct.
        "schemata" => value.as_array().is_none_or(|lines| !lines.is_empty()),
        "containerEdits" => value.as_object().is_none_or(|edits| !edits.is_empty()),
        _ => true,
    });
    if let Some(Value::String(letters)) = fields.get_mut("permissions") {
        *letters = "rwm".chars().filter(|c| letters.contains(*c)).collect();
    }
}

fn ours(text: &str) -> Result<Value, SpecError> {
    let spec = Spec::parse(text.as_bytes())?;
    Ok(as_go_sees_it(
        serde_json::from_slice(&spec.to_json()).unwrap(),
    ))
}

#[test]
fn every_text_is_read_or_refused_as_go_does_or_the_case_says_why_not() {
    let mut wrong = Vec::new();
    let cases = cases();
    for case in &cases {
        assert_ne!(
            case.go.is_some(),
            case.go_refuses.is_some(),
            "{}",
            case.name
        );
        let go = case.go.clone().map(as_go_sees_it);
        let ours = ours(&case.text);
        let same = ours.as_ref().ok() == go.as_ref();
        if same == case.differs.is_some() {
            let go = go.map_or_else(|| case.go_refuses.clone().unwrap(), |go| go.to_string());
            let ours = ours.map_or_else(|error| error.to_string(), |ours| ours.to_string());
            wrong.push(format!("{}\n  go:   {go}\n  ours: {ours}", case.name));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

/// Skipped where there is no Go.
#[test]
fn the_verdicts_are_what_go_says() {
    if Command::new("go").arg("version").output().is_err() {
        eprintln!("skipped: no Go");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("go")
        .args(["run", "./verdict"])
        .current_dir(root.join("tests/oracle"))
        .env("GOFLAGS", "-mod=readonly -buildvcs=false")
        .env("GOTOOLCHAIN", "local")
        .env("CGO_ENABLED", "0")
        .stdin(std::fs::File::open(root.join(VERDICTS)).unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let now = read_cases(std::str::from_utf8(&output.stdout).unwrap());
    assert_eq!(now.len(), cases().len());
    for (now, kept) in now.into_iter().zip(cases()) {
        // Words of an error are those of the Go version.
        assert_eq!(now.go, kept.go, "{}: {:?}", kept.name, now.go_refuses);
    }
}
