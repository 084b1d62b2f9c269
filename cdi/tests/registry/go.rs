//! The registry, compared with the Go library on generated directories, including odd ones.
//!
//! `../oracle` has the program, which is built with the user's Go. Without Go
//! the test passes with a message, unless `IMEX_REQUIRE_GO` is set.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use imex_cdi::Registry;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::go_tool::Go;

const HOSTS: usize = 1_000;

/// An entry of a directory.
#[derive(Debug, Clone)]
enum Entry {
    Spec(&'static str, BTreeSet<&'static str>),
    LinkToSpec(&'static str, BTreeSet<&'static str>),
    Text(&'static str),
    LinkTo(&'static str),
    Directory,
}

/// The file at the path of a CDI directory.
#[derive(Debug, Clone, Copy)]
enum Shape {
    Directory,
    Link,
    Spec,
    Absent,
}

#[derive(Debug, Clone)]
struct Dir {
    shape: Shape,
    name_end: &'static str,
    /// Written after the path when it is given.
    slashes: &'static str,
    given_twice: bool,
    entries: BTreeMap<String, Entry>,
}

/// The answer of either implementation for some directories.
#[derive(Debug, PartialEq)]
struct Answer {
    /// Files that are bad or in conflict.
    bad_files: BTreeSet<PathBuf>,
    /// For each device that resolves, the file in which it does.
    devices: BTreeMap<String, String>,
}

fn entry() -> impl Strategy<Value = Entry> {
    // Go v1.1.0 panics at a vendor or class of one letter.
    let kind = proptest::sample::select(vec!["aa.com/xx", "aa.com/yy", "bb/xx"]);
    let devices = proptest::sample::select(vec!["a", "b", "B", "0"]);
    let devices = proptest::collection::btree_set(devices, 1..4);
    let texts = vec![
        "",
        "{",
        "[]",
        "null",
        "{\"cdiVersion\":\"0.3.0\",\"kind\":\"aa/bb\"}",
    ];
    let links = vec![
        "nowhere",
        ".",
        "..",
        "a.json",
        "/dev/null",
        "/proc/self/mem",
    ];
    prop_oneof![
        12 => (kind.clone(), devices.clone()).prop_map(|(kind, devices)| Entry::Spec(kind, devices)),
        2 => (kind, devices).prop_map(|(kind, devices)| Entry::LinkToSpec(kind, devices)),
        2 => proptest::sample::select(texts).prop_map(Entry::Text),
        2 => proptest::sample::select(links).prop_map(Entry::LinkTo),
        1 => Just(Entry::Directory),
    ]
}

fn dir() -> impl Strategy<Value = Dir> {
    let shape = prop_oneof![
        12 => Just(Shape::Directory),
        1 => Just(Shape::Link),
        1 => Just(Shape::Spec),
        1 => Just(Shape::Absent),
    ];
    let name_end = proptest::sample::select(vec!["", "", ".json", ".yaml", ".yml"]);
    let slashes = proptest::sample::select(vec!["", "", "/", "//", "/."]);
    let names =
        "[.]?[abAB](\\.json|\\.yaml|\\.json|\\.yaml|\\.yml|\\.JSON|\\.json\\.tmp|\\.x\\.json|)";
    let entries = proptest::collection::btree_map(names, entry(), 0..6);
    (
        shape,
        name_end,
        slashes,
        proptest::bool::weighted(0.1),
        entries,
    )
        .prop_map(|(shape, name_end, slashes, given_twice, entries)| Dir {
            shape,
            name_end,
            slashes,
            given_twice,
            entries,
        })
}

/// A spec whose devices have their file's path in a variable.
fn spec(kind: &str, devices: &BTreeSet<&str>, path: &Path) -> String {
    let device = |name: &&str| {
        let env = format!("{kind}#{name}={}", path.display());
        json!({"name": name, "containerEdits": {"env": [env]}})
    };
    let devices: Vec<_> = devices.iter().map(device).collect();
    json!({"cdiVersion": "0.6.0", "kind": kind, "devices": devices}).to_string()
}

/// Makes `dirs` below `root`; the paths as they are given to both.
fn make(root: &Path, dirs: &[Dir]) -> Vec<String> {
    let mut given = Vec::new();
    for (at, dir) in dirs.iter().enumerate() {
        let path = root.join(format!("{at}{}", dir.name_end));
        let files = match dir.shape {
            Shape::Link => root.join(format!("{at}-target")),
            _ => path.clone(),
        };
        match dir.shape {
            Shape::Directory | Shape::Link => make_entries(root, &files, &dir.entries),
            Shape::Spec => fs::write(&path, spec("aa.com/xx", &["a"].into(), &path)).unwrap(),
            Shape::Absent => (),
        }
        if matches!(dir.shape, Shape::Link) {
            symlink(&files, &path).unwrap();
        }
        given.push(format!("{}{}", path.display(), dir.slashes));
        if dir.given_twice {
            given.push(path.display().to_string());
        }
    }
    given
}

fn make_entries(root: &Path, dir: &Path, entries: &BTreeMap<String, Entry>) {
    fs::create_dir_all(dir).unwrap();
    for (name, entry) in entries {
        let path = dir.join(name);
        match entry {
            Entry::Spec(kind, devices) => fs::write(&path, spec(kind, devices, &path)).unwrap(),
            Entry::LinkToSpec(kind, devices) => {
                let target = tempfile::Builder::new().tempfile_in(root).unwrap();
                let (_, target) = target.keep().unwrap();
                fs::write(&target, spec(kind, devices, &path)).unwrap();
                symlink(target, path).unwrap();
            }
            Entry::Text(text) => fs::write(path, text).unwrap(),
            Entry::LinkTo(target) => symlink(target, path).unwrap(),
            Entry::Directory => {
                fs::create_dir(&path).unwrap();
                fs::write(path.join("a.json"), spec("aa.com/xx", &["a"].into(), &path)).unwrap();
            }
        }
    }
}

fn ours(registry: &Registry) -> Answer {
    let bad = registry.files().iter().filter(|file| file.spec.is_err());
    let conflicts: Vec<_> = registry.conflicts().flat_map(|c| c.files).collect();
    let device = |found: imex_cdi::Resolved<'_>| {
        let path = found.file.path.display().to_string();
        (found.name().to_string(), path)
    };
    Answer {
        bad_files: bad.chain(conflicts).map(|file| file.path.clone()).collect(),
        devices: registry.devices().map(device).collect(),
    }
}

/// Go's answer. The device's file is taken from its environment variable, because Go does not
/// report it.
fn gos(reply: &Value) -> Answer {
    let bad_files = reply["fileErrors"].as_object().unwrap();
    let env = reply["config"]["process"]["env"].as_array();
    let device = |variable: &Value| {
        let (name, path) = variable.as_str().unwrap().split_once('=').unwrap();
        (name.replace('#', "="), path.to_owned())
    };
    Answer {
        bad_files: bad_files.keys().map(PathBuf::from).collect(),
        devices: env.into_iter().flatten().map(device).collect(),
    }
}

fn ask(go: &Go, requests: &[Value]) -> Vec<Value> {
    let lines: Vec<String> = requests.iter().map(Value::to_string).collect();
    go.ask("oracle", &["."], &lines.join("\n"))
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

// req: CDI-26
#[test]
fn the_go_library_resolves_the_same_devices_of_the_same_directories() {
    let Some(go) = Go::find("no directory was shown to the Go library") else {
        return;
    };
    let scratch = tempfile::tempdir().unwrap();
    let mut runner = TestRunner::deterministic();
    let strategy = proptest::collection::vec(dir(), 1..5);
    let mut requests = Vec::new();
    let mut answers = Vec::new();
    for host in 0..HOSTS {
        let root = scratch.path().join(host.to_string());
        fs::create_dir(&root).unwrap();
        let dirs = make(&root, &strategy.new_tree(&mut runner).unwrap().current());
        let answer = ours(&Registry::load(&dirs));
        let names: Vec<_> = answer.devices.keys().collect();
        requests.push(json!({"dirs": dirs, "names": names, "config": {}}));
        answers.push(answer);
    }
    let replies = ask(&go, &requests);
    assert_eq!(replies.len(), HOSTS);
    for ((request, answer), reply) in requests.iter().zip(&answers).zip(&replies) {
        assert_eq!(*answer, gos(reply), "{request}\n{reply}");
        let listed = reply["devices"].as_array().map_or(0, Vec::len);
        assert_eq!(listed, answer.devices.len(), "{request}\n{reply}");
    }
    // A generator of only empty directories would never disagree.
    let (devices, bad): (Vec<_>, Vec<_>) = answers
        .iter()
        .map(|answer| (answer.devices.len(), answer.bad_files.len()))
        .unzip();
    let (devices, bad): (usize, usize) = (devices.iter().sum(), bad.iter().sum());
    assert!(
        devices > HOSTS && bad > HOSTS / 2,
        "{devices} devices, {bad} bad files"
    );
}
