//! Checks that the documentation's table has exactly the reasons that events can have.
//!
//! Reasons also reach the API server through variables. So this module searches the sources of
//! programs that write events for string literals of two or more capitalized words. Other strings
//! of this form are listed here.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// The page with the table: one row for each reason, in its first cell.
pub(crate) const TABLE: &str = "docs/events.md";

/// Sources of the programs that write events, and of a reason that two of them share. Paths that do
/// not exist are skipped.
const PROGRAMS: [&str; 8] = [
    "controller/api/src/names.rs",
    "controller/src",
    "controller/core/src",
    "dra-shim/compute-domain/src",
    "dra-shim/compute-domain/node/src",
    "dra-shim/daemon/src",
    "dra-shim/gpu/src",
    "dra-shim/plugin/src",
];

/// Strings that are not reasons: kinds of objects, words of other APIs, and condition types without
/// an event.
const NO_REASONS: [&str; 35] = [
    "AllocationModeUnsupported",
    "CDIDeviceIDs",
    "CaUsedAsEndEntity",
    "ClaimWaits",
    "ComputeDomain",
    "ComputeDomainChannelConfig",
    "ComputeDomainClique",
    "ComputeDomainCliques",
    "ComputeDomains",
    "CreateContainer",
    "DaemonSet",
    "DaemonSets",
    "DeviceName",
    "FieldManagerConflict",
    "FromClaim",
    "FromClass",
    "NamespaceTerminating",
    "NoSchedule",
    "NodesMissing",
    "NodesNotReady",
    "NodesReady",
    "NotFound",
    "NotIn",
    "NotIsolated",
    "NotReady",
    "PascalCase",
    "PoolName",
    "ReadyBeforeIsolation",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "ResourceClaimTemplates",
    "ResourceClaims",
    "ResourceSlices",
    "ShareID",
    "StartContainer",
];

/// Files and folders of tests.
const LEFT_OUT: [&str; 4] = ["tests", "testing", "fake_api", "simulation"];

/// One line for each difference between table and sources.
pub(crate) fn findings(root: &Path) -> Result<Vec<String>, Error> {
    let mut written = BTreeSet::new();
    let mut all = String::new();
    for folder in PROGRAMS.map(|folder| root.join(folder)) {
        if folder.exists() {
            for path in sources(&folder)? {
                let text = read(&path)?;
                let code = text.split("#[cfg(test)]").next().unwrap_or_default();
                written.extend(reasons(code));
                all.push_str(code);
            }
        }
    }
    Ok(differences(
        &written,
        &all,
        &rows(&read(&root.join(TABLE))?),
    ))
}

fn differences(written: &BTreeSet<String>, code: &str, rows: &[String]) -> Vec<String> {
    let missing = written.iter().filter(|reason| !rows.contains(reason));
    let missing = missing.map(|reason| {
        format!("{TABLE} has no row for the event {reason}; if it is not an event, add it to NO_REASONS in hack/architecture/src/events.rs")
    });
    // Reasons of one word are not searched in the code: "Ready" has many meanings.
    let stale = rows
        .iter()
        .filter(|row| !code.contains(&format!("\"{row}\"")));
    let stale =
        stale.map(|row| format!("{TABLE} has a row for the event {row}, which no program writes"));
    missing.chain(stale).collect()
}

/// The code in the first cells of a table's rows.
fn rows(page: &str) -> Vec<String> {
    let cell = |line: &str| {
        let (reason, _) = line.strip_prefix("| `")?.split_once('`')?;
        Some(reason.to_owned())
    };
    page.lines().filter_map(cell).collect()
}

/// String literals that consist of two or more capitalized words.
fn reasons(code: &str) -> impl Iterator<Item = String> {
    code.split('"')
        .filter(|text| is_reason(text))
        .filter(|text| !NO_REASONS.contains(text))
        .map(str::to_owned)
}

fn is_reason(text: &str) -> bool {
    let starts = text.starts_with(|letter: char| letter.is_ascii_uppercase());
    let is_word = text.bytes().all(|byte| byte.is_ascii_alphabetic());
    let inner = text.as_bytes().windows(2);
    let mut joints = inner.filter(|pair| {
        matches!(pair, [before, after] if before.is_ascii_lowercase() && after.is_ascii_uppercase())
    });
    starts && is_word && joints.next().is_some()
}

/// Sources other than tests: the file, or those in the folder.
fn sources(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    if folder.is_file() {
        return Ok(vec![folder.to_owned()]);
    }
    let unreadable = |source| Error::Read {
        path: folder.to_owned(),
        source,
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        if LEFT_OUT.contains(&&*stem) || stem.ends_with("_tests") || stem == "test_objects" {
            continue;
        }
        if path.is_dir() {
            files.extend(sources(&path)?);
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
    Ok(files)
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_a_string_of_words_with_capitals() {
        let code = r#"warn("IMEXChannelsMissing"); let kind = "ResourceClaim"; tell("Ready", "Some note", "NoClique")"#;
        let found: Vec<_> = reasons(code).collect();
        assert_eq!(found, ["IMEXChannelsMissing", "NoClique"]);
    }

    #[test]
    fn an_event_without_a_row_and_a_row_without_an_event_are_reported() {
        let code = r#"("ClaimsInUse", "Admitted")"#;
        let written = reasons(code).collect();
        let rows = rows("| reason | about |\n|---|---|\n| `Admitted` | x |\n| `LongGone` | x |\n");
        let found = differences(&written, code, &rows);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("no row for the event ClaimsInUse"));
        assert!(found[1].contains("LongGone, which no program writes"));
    }

    #[test]
    fn tests_of_programs_write_no_events() {
        let root = tempfile::tempdir().unwrap();
        for file in [
            "a.rs",
            "tests.rs",
            "b_tests.rs",
            "tests/c.rs",
            "d/e.rs",
            "f.md",
        ] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let mut found = sources(root.path()).unwrap();
        found.sort();
        assert_eq!(
            found,
            [root.path().join("a.rs"), root.path().join("d/e.rs")]
        );
    }
}
