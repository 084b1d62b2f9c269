//! Scripts rely on the table of findings in `docs/reference`: it must have the ids that are in
//! the sources, each in its area.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Ids by area.
type Ids = BTreeMap<String, BTreeSet<String>>;

/// Where the ids are: a module for each area.
const CHECKS: &str = "../../dra-shim/doctor/src/checks";

const PAGE: &str = "../../docs/reference/doctor-findings.md";

// req: DOCTOR-3
#[test]
fn the_page_has_every_id_of_the_sources_in_its_area_and_no_other() {
    let mut in_sources = Ids::new();
    collect(&beside_cargo_toml(CHECKS), None, &mut in_sources);
    in_sources.retain(|_, ids| !ids.is_empty());
    let in_page = of_page();
    assert_eq!(in_page.len(), 11, "{in_page:#?}");
    assert_eq!(in_page, in_sources);
}

/// The rows of the table, without the column of libraries' codes.
fn of_page() -> Ids {
    let page = fs::read_to_string(beside_cargo_toml(PAGE)).unwrap();
    let (_, section) = page.split_once("\n## Findings\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| {
        let (area, ids) = row.split_once("` | ").unwrap();
        let own = ids.split(" | ").next().unwrap();
        (area.to_owned(), quoted(own, '`'))
    })
    .collect()
}

/// Collects the ids in the files below `dir`; each area has its own module.
fn collect(dir: &Path, area: Option<&str>, found: &mut Ids) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let module = path.file_stem().unwrap().to_str().unwrap();
        let area = area.unwrap_or(match module {
            "watchers" => "watching",
            module => module,
        });
        if path.is_dir() {
            collect(&path, Some(area), found);
            continue;
        }
        // Codes of libraries are in facts that tests make.
        if module == "tests" {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap();
        let ids = found.entry(area.to_owned()).or_default();
        ids.extend(quoted(text, '"'));
    }
}

/// Words in kebab case within `quotes`.
fn quoted(text: &str, quotes: char) -> BTreeSet<String> {
    let is_part = |part: &str| {
        let mut letters = part.bytes();
        !part.is_empty() && letters.all(|it| it.is_ascii_lowercase() || it.is_ascii_digit())
    };
    let is_id = |word: &&str| word.contains('-') && word.split('-').all(is_part);
    text.split(quotes)
        .filter(is_id)
        .map(str::to_owned)
        .collect()
}

fn beside_cargo_toml(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}
