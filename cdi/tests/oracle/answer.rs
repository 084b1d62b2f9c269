//! The compared answers.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

/// An answer to a case.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    /// Qualified names of the devices that resolve, sorted.
    pub(crate) devices: Vec<String>,
    /// Files that cannot be read, are no spec, or have a conflict.
    pub(crate) bad_files: BTreeSet<PathBuf>,
    pub(crate) outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// The container's config with its devices.
    Config(Value),
    /// Names that do not resolve.
    Unresolved(BTreeSet<String>),
    /// There is no config for another reason.
    Refused,
    /// There is no answer at all, only a crash with this message.
    Panicked(String),
}

/// `config` without null, empty lists and empty objects, which Go leaves out.
pub(crate) fn pruned(config: Value) -> Value {
    match config {
        Value::Array(items) => items.into_iter().map(pruned).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(key, value)| (key, pruned(value)))
            .filter(|(_, value)| !is_empty(value))
            .collect(),
        other => other,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}
