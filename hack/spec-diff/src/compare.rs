//! The differences between two JSON values.

use serde_json::{Map, Value};

#[derive(Debug)]
pub(crate) struct Difference {
    /// `devices[channel-0].containerEdits.env[NAME]`.
    pub(crate) path: String,
    pub(crate) change: Change,
    pub(crate) old: Option<Value>,
    pub(crate) new: Option<Value>,
}

#[derive(Debug)]
pub(crate) enum Change {
    Added,
    Removed,
    Changed,
}

pub(super) fn differences(old: &Value, new: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare("", Some(old), Some(new), &mut found);
    found
}

fn compare(path: &str, old: Option<&Value>, new: Option<&Value>, found: &mut Vec<Difference>) {
    match (old, new) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            for (key, before) in old {
                compare(&join(path, key), Some(before), new.get(key), found);
            }
            for (key, after) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
                compare(&join(path, key), None, Some(after), found);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => lists(path, old, new, found),
        // A list that is absent and an empty one are the same to a runtime.
        (Some(Value::Object(elements)), None) if are_elements(elements) => {
            for (key, before) in elements {
                compare(&join(path, key), Some(before), None, found);
            }
        }
        (None, Some(Value::Object(elements))) if are_elements(elements) => {
            for (key, after) in elements {
                compare(&join(path, key), None, Some(after), found);
            }
        }
        (old, new) if old == new => {}
        (old, new) => found.push(Difference {
            path: path.to_owned(),
            change: match (old, new) {
                (None, _) => Change::Added,
                (_, None) => Change::Removed,
                _ => Change::Changed,
            },
            old: old.map(unbracketed),
            new: new.map(unbracketed),
        }),
    }
}

/// Compares lists whose order matters: leaves out their common beginning and end.
fn lists(path: &str, old: &[Value], new: &[Value], found: &mut Vec<Difference>) {
    let shorter = old.len().min(new.len());
    let pairs = old.iter().zip(new);
    let head = pairs.take_while(|(old, new)| old == new).count();
    let pairs = old.iter().rev().zip(new.iter().rev());
    let tail = pairs.take_while(|(old, new)| old == new).count();
    let tail = tail.min(shorter - head);
    let old = old.get(head..old.len() - tail).unwrap_or_default();
    let new = new.get(head..new.len() - tail).unwrap_or_default();
    for at in 0..old.len().max(new.len()) {
        let path = format!("{path}[{}]", head + at);
        compare(&path, old.get(at), new.get(at), found);
    }
}

/// Whether the object was a list with named elements.
fn are_elements(members: &Map<String, Value>) -> bool {
    !members.is_empty() && members.keys().all(|key| key.starts_with('['))
}

/// For output: `[name]` of a former list becomes `name`.
fn unbracketed(value: &Value) -> Value {
    let bare = |key: &str| {
        let inner = key.strip_prefix('[').and_then(|key| key.strip_suffix(']'));
        inner.unwrap_or(key).to_owned()
    };
    match value {
        Value::Object(members) => members
            .iter()
            .map(|(key, member)| (bare(key), unbracketed(member)))
            .collect(),
        Value::Array(items) => items.iter().map(unbracketed).collect(),
        scalar => scalar.clone(),
    }
}

/// The path of a member; a key in brackets is a list element's.
fn join(path: &str, key: &str) -> String {
    if path.is_empty() || key.starts_with('[') {
        format!("{path}{key}")
    } else {
        format!("{path}.{key}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(old: &Value, new: &Value) -> Vec<String> {
        differences(old, new)
            .into_iter()
            .map(|it| format!("{} {:?}", it.path, it.change))
            .collect()
    }

    #[test]
    fn members_are_compared_by_name_and_lists_without_their_common_ends() {
        assert_eq!(
            found(&json!({"a": 1, "b": 2}), &json!({"b": 2, "a": 1})),
            [""; 0]
        );
        assert_eq!(
            found(
                &json!({"a": {"x": 1}, "b": 1}),
                &json!({"a": {"x": 2}, "c": 1})
            ),
            ["a.x Changed", "b Removed", "c Added"]
        );
        assert_eq!(
            found(&json!([1, 2, 3]), &json!([1, 9, 2, 3])),
            ["[1] Added"]
        );
        assert_eq!(found(&json!([1, 1]), &json!([1])), ["[1] Removed"]);
        assert_eq!(
            found(&json!({"d": {"[x]": 1}}), &json!({"d": {}})),
            ["d[x] Removed"]
        );
        assert_eq!(found(&json!({}), &json!({"d": {"[x]": 1}})), ["d[x] Added"]);
        assert_eq!(found(&json!([]), &json!({})), [" Changed"]);
    }
}
