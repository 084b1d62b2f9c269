//! The README's table of the JSON's fields is what scripts are written by: it
//! must be the JSON's. So must its example be the program's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{cdi_gen, changed, fixture};

fn beside_cargo_toml(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// The rows under the schema's heading: path, then type.
fn documented() -> BTreeMap<String, String> {
    let readme = beside_cargo_toml("README.md");
    let (_, section) = readme
        .split_once("## `cdi-gen/checkpoint-show/v1`\n")
        .unwrap();
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

/// Every member in it, as `claims[].uid`, with the types that it has.
fn collect(value: &Value, path: &str, found: &mut BTreeMap<String, BTreeSet<&'static str>>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                found.entry(path.clone()).or_default().insert(kind(member));
                collect(member, &path, found);
            }
        }
        Value::Array(items) => {
            for item in items {
                collect(item, &format!("{path}[]"), found);
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

fn shown(file: &Path) -> Value {
    let output = cdi_gen().args(["show", "--json"]).arg(file).output();
    serde_json::from_slice(&output.unwrap().stdout).unwrap()
}

#[test]
fn the_readme_names_every_field_of_the_json_with_its_types_and_no_other() {
    let (_dir, damaged) = changed(
        "02-channel-completed.json",
        r#""namespace":"default""#,
        r#""namespace":"defaulT""#,
    );
    let mut found = BTreeMap::new();
    for file in [
        fixture("02-channel-completed.json"),
        fixture("04-channel-aborted.json"),
        fixture("09-v1-only-25.3.x.json"),
        damaged,
    ] {
        collect(&shown(&file), "", &mut found);
    }
    let documented = documented();
    assert!(
        found.keys().eq(documented.keys()),
        "the JSON has {:#?}\nthe README {:#?}",
        found.keys(),
        documented.keys()
    );
    for (path, kinds) in found {
        let row = &documented[&path];
        for kind in kinds {
            assert!(
                row.split(" or ").any(|known| known.starts_with(kind)),
                "{path} is {kind}, the README says {row}"
            );
        }
    }
}

#[test]
fn the_readme_shows_a_table_as_it_is_printed() {
    let golden = beside_cargo_toml("tests/golden/started.txt");
    let (_file, rest) = golden.split_once('\n').unwrap();
    assert!(beside_cargo_toml("README.md").contains(rest));
}
