//! The table of the JSON of `checkpoint show`, and the README's example, match the program.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::schema::{Found, assert_documented, collect};
use super::{cdi_gen, changed, fixture};

fn beside_cargo_toml(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

fn shown(file: &Path) -> Value {
    let output = cdi_gen().args(["show", "--json"]).arg(file).output();
    serde_json::from_slice(&output.unwrap().stdout).unwrap()
}

#[test]
fn the_page_names_every_field_of_the_json_with_its_types_and_no_other() {
    let (_dir, damaged) = changed(
        "02-channel-completed.json",
        r#""namespace":"default""#,
        r#""namespace":"defaulT""#,
    );
    let mut found = Found::new();
    for file in [
        fixture("02-channel-completed.json"),
        fixture("04-channel-aborted.json"),
        fixture("09-v1-only-25.3.x.json"),
        damaged,
    ] {
        collect(&shown(&file), &[], &mut found);
    }
    assert_documented("cdi-gen/checkpoint-show/v1", &found);
}

#[test]
fn the_readme_shows_a_table_as_it_is_printed() {
    let golden = beside_cargo_toml("tests/golden/started.txt");
    let (_file, rest) = golden.split_once('\n').unwrap();
    assert!(beside_cargo_toml("README.md").contains(rest));
}
