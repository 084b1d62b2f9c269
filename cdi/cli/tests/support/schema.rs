//! Scripts rely on the README's tables of the fields of JSON documents: they must
//! match the documents.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

/// Fields and the types that they had.
pub(crate) type Found = BTreeMap<String, BTreeSet<&'static str>>;

/// Fails unless the README names every field of `found`, with its types, and
/// no other.
pub(crate) fn assert_documented(schema: &str, found: &Found) {
    let documented = documented(schema);
    assert!(
        found.keys().eq(documented.keys()),
        "{schema} has {:#?}\nthe README {:#?}",
        found.keys(),
        documented.keys()
    );
    for (path, kinds) in found {
        let row = documented.get(path).unwrap();
        for kind in kinds {
            assert!(
                row.split(" or ")
                    .any(|known| known == "any" || known.starts_with(kind)),
                "{path} of {schema} is {kind}, the README says {row}"
            );
        }
    }
}

/// Every member in it, as `claims[].uid`, with the types that it has; but not
/// what is in those named `opaque`, which another standard describes.
pub(crate) fn collect(value: &Value, opaque: &[&str], found: &mut Found) {
    below(value, "", opaque, found);
}

/// The rows under the schema's heading: path, then type.
fn documented(schema: &str) -> BTreeMap<String, String> {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = fs::read_to_string(readme).unwrap();
    let (_, section) = readme.split_once(&format!("## `{schema}`\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    section
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .map(|row| {
            let (path, rest) = row.split_once("` | ").unwrap();
            let (kind, _) = rest.split_once(" |").unwrap();
            (path.to_owned(), kind.to_owned())
        })
        .collect()
}

fn below(value: &Value, path: &str, opaque: &[&str], found: &mut Found) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                found.entry(path.clone()).or_default().insert(kind(member));
                if !opaque.contains(&name.as_str()) {
                    below(member, &path, opaque, found);
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                below(item, &format!("{path}[]"), opaque, found);
            }
        }
        _ => {}
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Object(_) => "object",
        Value::Array(items) => match items.first() {
            None => "array",
            Some(Value::String(_)) => "array of strings",
            Some(_) => "array of objects",
        },
    }
}
