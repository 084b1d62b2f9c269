//! The output of the program in `main.go`, as an answer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

use crate::answer::{Answer, Outcome, pruned};
use crate::go_tool::Go;

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

/// What the Go library answers to each of `requests`.
pub(crate) fn answers(go: &Go, requests: &[Value]) -> Vec<Answer> {
    let lines: Vec<String> = requests.iter().map(Value::to_string).collect();
    go.ask("oracle", &["."], &lines.join("\n"))
        .lines()
        .map(|line| answer(serde_json::from_str(line).unwrap()))
        .collect()
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
