//! Every device that another reader finds in a spec is known here.
//!
//! Each text of `fixtures/yaml/verdicts.jsonl` is a spec file. For every device that CDI's Go
//! library finds in it, in any version that runtimes use, either the nodes are known, or the device
//! is reported as unknown.
//!
//! | library | used by |
//! |---|---|
//! | 0.8.1 | containerd 1.7 (2.0 has 0.8.0) |
//! | 1.1.0 | containerd 2.3 (2.1 and 2.2 have 1.0.1, which reads as this one) |
//! | 1.1.1 | NVIDIA's container toolkit 1.20.1 |
//!
//! `fixtures/yaml/others.jsonl` has the results of the first and the last version where they differ
//! from 1.1.0.
#![cfg(feature = "inject")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed unwrap outside a test function fails the test too"
)]

#[path = "support/go_tool.rs"]
mod go_tool;
#[path = "support/verdicts.rs"]
mod verdicts;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use imex_cdi::{DefinedNodes, DeviceNode, QualifiedName, Registry, UnresolvedNames};
use serde_json::{Value, json};

use crate::go_tool::Go;
use crate::verdicts::{Case, VERDICTS, cases, mutants, questions, read_cases};

/// The library's other versions, and the modules of the program.
const OTHERS: [(&str, &str); 2] = [("0.8.1", "cdi-0.8.1.mod"), ("1.1.1", "cdi-1.1.1.mod")];
const OTHERS_FILE: &str = "tests/fixtures/yaml/others.jsonl";

/// A node, as far as it matters for channels.
type Node = (String, Option<String>, Option<String>, i64, i64);
/// The nodes of each device that a spec defines.
type Devices = BTreeMap<String, BTreeSet<Node>>;

/// The devices that Go reads.
fn devices_of(spec: &Value) -> Devices {
    let nodes = |edits: &Value| -> Vec<Node> {
        let nodes = edits["deviceNodes"].as_array().into_iter().flatten();
        nodes.map(node_of).collect()
    };
    let common = nodes(&spec["containerEdits"]);
    let devices = spec["devices"].as_array().into_iter().flatten();
    devices
        .map(|device| {
            let kind = spec["kind"].as_str().unwrap();
            let name = format!("{kind}={}", device["name"].as_str().unwrap());
            let own = nodes(&device["containerEdits"]).into_iter();
            (name, own.chain(common.clone()).collect())
        })
        .collect()
}

fn node_of(node: &Value) -> Node {
    let text = |field: &str| node[field].as_str().map(str::to_owned);
    let number = |field: &str| device_number(node[field].as_i64());
    (
        text("path").unwrap_or_default(),
        text("hostPath"),
        text("type"),
        number("major"),
        number("minor"),
    )
}

/// All invalid numbers are equal.
fn device_number(number: Option<i64>) -> i64 {
    let number = number.filter(|number| u32::try_from(*number).is_ok());
    number.unwrap_or_default()
}

fn our_node(node: &DeviceNode) -> Node {
    let device_type = serde_json::to_value(node.device_type).unwrap();
    (
        node.path.clone(),
        node.host_path.clone(),
        device_type.as_str().map(str::to_owned),
        device_number(node.major),
        device_number(node.minor),
    )
}

/// Those of `devices` with nodes that are not found, if `text` is a spec file of the host.
fn unknown_devices(dir: &Path, text: &[u8], devices: &Devices) -> Vec<String> {
    fs::write(dir.join("spec.yaml"), text).unwrap();
    let registry = Registry::load(&[dir]);
    let is_unknown = |(name, nodes): &(&String, &BTreeSet<Node>)| {
        // Go reads this name from a file, but no container can request it.
        let Ok(name) = name.parse::<QualifiedName>() else {
            return false;
        };
        let mut names = UnresolvedNames::default();
        names.add(&name);
        let found = DefinedNodes::read(&registry, &names);
        let known = found.nodes(&name).unwrap_or_default();
        let known: BTreeSet<Node> = known.iter().map(our_node).collect();
        found.open(&names).is_none() && !nodes.is_subset(&known)
    };
    let unknown = devices.iter().filter(is_unknown);
    unknown.map(|(name, _)| name.clone()).collect()
}

/// The version, the case's name and the version's result, for all cases that other versions read
/// differently.
fn others() -> Vec<(String, String, Value)> {
    let text = fs::read_to_string(format!("{}/{OTHERS_FILE}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = |field: &str| line[field].as_str().unwrap().to_owned();
        (text("library"), text("name"), line["go"].clone())
    };
    text.lines().map(line).collect()
}

// req: NRI-21
#[test]
fn devices_that_any_library_version_reads_are_known_or_reported_as_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    let mut devices = 0;
    let mut look = |library: &str, case: &Case, go: &Value| {
        let read = devices_of(go);
        devices += read.len();
        for name in unknown_devices(dir.path(), &case.bytes(), &read) {
            wrong.push(format!("{library}, {}: {name}", case.name));
        }
    };
    let cases = cases();
    for case in &cases {
        if let Some(go) = &case.go {
            look("1.1.0", case, go);
        }
    }
    for (library, name, go) in others() {
        let case = cases.iter().find(|case| case.name == name).unwrap();
        look(&library, case, &go);
    }
    assert!(devices > 500, "{devices}");
    assert!(
        wrong.is_empty(),
        "{} are not seen:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Names of one kind being open leaves other kinds closed: a bad file affects no other vendor.
// req: NRI-21
#[test]
fn a_file_that_others_may_read_opens_only_the_kinds_in_its_text() {
    let dir = tempfile::tempdir().unwrap();
    let open = |text: &str, name: &str| {
        fs::write(dir.path().join("spec.yaml"), text).unwrap();
        let mut names = UnresolvedNames::default();
        names.add(&name.parse().unwrap());
        let found = DefinedNodes::read(&Registry::load(&[dir.path()]), &names);
        found.open(&names).map(str::to_owned)
    };
    let spec =
        "cdiVersion: 0.5.0\nkind: a.com/b\ndevices:\n- name: x\n  containerEdits: {env: [A=B]}\n";
    assert_eq!(open(spec, "a.com/b=x"), None);
    let cut_off = &spec[..spec.len() - 3];
    for (text, expected) in [
        (cut_off.to_owned(), "is not valid"),
        (spec.replace("name: x", "name: 0x10"), "line 4, column 9"),
        (spec.replace("kind", "Kind: a.com/b\nkind"), "unknown field"),
        (spec.replace("[A=B]", "&e [A=B]"), "anchor"),
        (format!("# \u{2028}\n{spec}"), "U+2028"),
    ] {
        let reason = open(&text, "a.com/b=0x10").unwrap();
        assert!(
            reason.contains(expected) && reason.contains("spec.yaml"),
            "{reason}"
        );
        assert_eq!(open(&text, "c.com/d=0x10"), None, "{text}");
    }
    // As some write them, and all read them.
    for text in [
        spec.replace("name: x", "name: \"0x10\""),
        spec.replace("name: x", "name: 16"),
        spec.replace(
            "env: [A=B]",
            "deviceNodes: [{path: /dev/x, fileMode: 0666}]",
        ),
        spec.replace("env: [A=B]", "env: [A=yes]")
            .replace("0.5.0", "0.6.0")
            + "annotations: {a: 'yes', b: 550.54, c: 7}\n",
    ] {
        assert_eq!(open(&text, "a.com/b=x"), None, "{text}");
    }
}

/// The answers of these modules' library to cases, as JSON lines.
fn ask(go: &Go, modules: &str, cases: &str) -> Vec<Case> {
    let modules = format!("-modfile={modules}");
    read_cases(&go.ask("oracle", &[&modules, "./verdict"], cases))
}

/// Skipped where there is no Go. `UPDATE_OTHERS=1` writes the file.
// req: NRI-21
#[test]
fn the_recorded_results_of_other_versions_match_go() {
    let Some(go) = Go::find("no text was shown to the other versions of the Go library") else {
        return;
    };
    let mut found = String::new();
    for (library, modules) in OTHERS {
        let answers = ask(&go, modules, VERDICTS);
        assert_eq!(answers.len(), cases().len());
        for (case, answer) in cases().into_iter().zip(answers) {
            let Some(held) = answer.go else { continue };
            let known = case.go.as_ref().map(devices_of).unwrap_or_default();
            if devices_of(&held) != known {
                let line = json!({"go": held, "library": library, "name": case.name});
                writeln!(found, "{line}").unwrap();
            }
        }
    }
    let path = format!("{}/{OTHERS_FILE}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_OTHERS").is_some() {
        fs::write(&path, &found).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap();
    let (kept, found): (BTreeSet<_>, BTreeSet<_>) =
        (kept.lines().collect(), found.lines().collect());
    let changed: Vec<_> = kept.symmetric_difference(&found).collect();
    assert!(changed.is_empty(), "{changed:#?}");
}

/// How many texts are made of the cases.
const MUTANTS: usize = 2_000;

/// Skipped where there is no Go.
// req: NRI-21
#[test]
fn devices_in_damaged_and_mixed_texts_are_known_or_reported_as_unknown() {
    let Some(go) = Go::find("no damaged text was shown to the Go library") else {
        return;
    };
    let texts = mutants(MUTANTS, |_| true);
    let questions_text = questions(&texts);
    let dir = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    let mut read = 0;
    for modules in ["go.mod", "cdi-1.1.1.mod"] {
        for (text, answer) in texts.iter().zip(ask(&go, modules, &questions_text)) {
            let devices = answer.go.as_ref().map(devices_of).unwrap_or_default();
            read += usize::from(!devices.is_empty());
            for name in unknown_devices(dir.path(), text, &devices) {
                let text = String::from_utf8_lossy(text);
                wrong.push(format!("{modules}: {name} in {text:?}"));
            }
        }
    }
    // Texts that no version reads would prove nothing.
    assert!(read > MUTANTS / 4, "{read} were read");
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}
