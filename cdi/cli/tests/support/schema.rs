//! Scripts rely on the tables of the fields of JSON documents in `docs/reference`: they must
//! match the documents.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

const PAGE: &str = "../../docs/reference/cdi-gen-json.md";

/// Fields and the types that they had.
pub(crate) type Found = BTreeMap<String, BTreeSet<&'static str>>;

/// Fails unless the page names every field of `found`, with its types, and
/// no other.
pub(crate) fn assert_documented(schema: &str, found: &Found) {
    let documented = documented(schema);
    assert!(
        found.keys().eq(documented.keys()),
        "{schema} has {:#?}\nthe page {:#?}",
        found.keys(),
        documented.keys()
    );
    for (path, kinds) in found {
        let row = documented.get(path).unwrap();
        for kind in kinds {
            assert!(
                row.split(" or ")
                    .any(|known| known == "any" || known.starts_with(kind)),
                "{path} of {schema} is {kind}, the page says {row}"
            );
        }
    }
}

/// Collects every member, as `claims[].uid`, with its types; skips the contents of `opaque`
/// members, which another standard describes.
pub(crate) fn collect(value: &Value, opaque: &[&str], found: &mut Found) {
    below(value, "", opaque, found);
}

/// The fields of a document: path, then type. Objects that several documents contain have
/// a table of their own, to which the type links: `[node](#node)`.
fn documented(schema: &str) -> BTreeMap<String, String> {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE)).unwrap();
    let mut documented = BTreeMap::from([("schema".to_owned(), "string".to_owned())]);
    for (path, kind) in rows(&page, schema) {
        let shared = kind
            .split_once("](#")
            .and_then(|(_, it)| it.split_once(')'));
        if let Some((name, _)) = shared {
            let element = if kind.starts_with("array") { "[]" } else { "" };
            documented.extend(
                rows(&page, name)
                    .map(|(member, kind)| (format!("{path}{element}.{member}"), kind.to_owned())),
            );
        }
        documented.insert(path.to_owned(), kind.to_owned());
    }
    documented
}

/// The table under a heading: a path and its type, also for each of the paths that share a row.
fn rows<'a>(page: &'a str, heading: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let (_, section) = page.split_once(&format!("\n## `{heading}`\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.flat_map(|row| {
        let (paths, rest) = row.split_once("` | ").unwrap();
        let (kind, _) = rest.split_once(" |").unwrap();
        paths.split("`, `").map(move |path| (path, kind))
    })
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
