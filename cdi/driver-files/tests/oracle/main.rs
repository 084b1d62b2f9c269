//! The edits, compared with those of NVIDIA's generator.
//!
//! `main.go` here answers for each driver root with `github.com/NVIDIA/nvidia-container-toolkit` (version in
//! `go.mod`) in mode `nvml`, whose files are those of mode `management` and graphics. NVML is a stand-in that
//! only has the driver's version. The edits must be the same, but for the differences in `divergences.json`, each with
//! its reason. A root is a function of its number, so a failure names all that is needed to repeat it.
//!
//! Without Go the test passes with a message, unless `IMEX_REQUIRE_GO` is set.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed unwrap outside a test function fails the test too"
)]
#![allow(dead_code, reason = "each test program uses a part of the support")]

mod case;
mod divergences;
mod edits;
mod go;
mod rules;
#[path = "../support/mod.rs"]
mod support;
mod tree_content;
mod trees;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use nvidia_driver_files::{DriverFiles, DriverVersion, RuntimePaths};
use nvml_session::DriverRoot;

use crate::case::Case;
use crate::divergences::Table;
use crate::support::{VERSION, elf};
use crate::trees::Tree;

/// How many roots are generated.
const TREES: u64 = 200;

/// Differences that do not depend on the root.
const IN_EVERY_SPEC: [&str; 2] = ["application-profile", "void-mount"];

/// Past libtest's capture: the counts are this test's result.
fn say(text: &str) {
    std::io::stderr().write_all(text.as_bytes()).unwrap();
}

/// A directory with a library outside of every root.
fn outside() -> tempfile::TempDir {
    let outside = tempfile::tempdir().unwrap();
    let library = elf::library(elf::X86_64, Some("libcuda.so.1"));
    std::fs::write(outside.path().join("lib.so"), library).unwrap();
    outside
}

#[test]
fn generated_roots_give_existing_files_of_the_version_in_a_fixed_order() {
    let outside = outside();
    for number in 0..TREES {
        let tree = Tree::new(number, outside.path());
        let files = tree.root.find();
        assert_eq!(files, tree.root.find(), "root {number}");
        let paths: BTreeSet<_> = files.files.iter().map(|it| &it.container_path).collect();
        assert_eq!(paths.len(), files.files.len(), "root {number}");
        for link in &files.links {
            assert!(!paths.contains(&link.path), "root {number}: {link:?}");
        }
        for file in &files.files {
            let canonical = tree.root.path().canonicalize().unwrap();
            let path = canonical.join(&file.host_path[1..]);
            assert_eq!(
                path.canonicalize().unwrap(),
                path,
                "root {number}: {file:?}"
            );
            assert!(
                !path.is_dir() && !file.host_path.contains(".so.570"),
                "root {number}: {file:?}"
            );
        }
    }
}

#[test]
fn generated_roots_give_nvidias_edits_except_for_the_listed_differences() {
    let outside = outside();
    let trees: Vec<Tree> = (0..TREES)
        .map(|number| Tree::new(number, outside.path()))
        .collect();
    let roots: Vec<_> = trees
        .iter()
        .map(|tree| (tree.root.path(), VERSION))
        .collect();
    let Some(answers) = go::answers(&roots) else {
        return;
    };
    let table = Table::read();
    let mut tally = Tally::default();
    for (number, (tree, answer)) in trees.iter().zip(&answers).enumerate() {
        let version = VERSION.parse().unwrap();
        let edits = answer.edits.as_ref();
        let case = Case::new(tree.root.path(), &version, edits, &tree.absolute_links);
        tally.add(&format!("root {number}"), &case, answer, &table);
    }
    say(&tally.report());
    assert!(tally.unknown.is_empty(), "{}", tally.unknown.join("\n"));
    table.check(&tally.counts);
    // A generator of roots without a driver, or of hostile ones only, would show nothing.
    assert!(tally.equal > 5, "{} were equal", tally.equal);
    assert!(
        tally.answered > TREES / 2,
        "{} were answered",
        tally.answered
    );
}

/// `IMEX_DRIVER_ROOTS` has roots with their versions, `ROOT=VERSION`, in lines. hack/driver-files.sh sets it.
#[test]
#[ignore = "needs driver roots: run hack/driver-files.sh"]
fn installed_drivers_give_nvidias_edits_except_for_the_listed_differences() {
    let list = std::env::var("IMEX_DRIVER_ROOTS").unwrap();
    let roots: Vec<(PathBuf, &str)> = list
        .lines()
        .map(|line| {
            let (root, version) = line.rsplit_once('=').unwrap();
            (PathBuf::from(root), version)
        })
        .collect();
    let requests: Vec<_> = roots
        .iter()
        .map(|(root, version)| (root.as_path(), *version))
        .collect();
    let answers = go::answers(&requests).unwrap();
    let table = Table::read();
    let mut tally = Tally::default();
    for ((root, version), answer) in requests.iter().zip(&answers) {
        let version: DriverVersion = version.parse().unwrap();
        let case = Case::new(root, &version, answer.edits.as_ref(), &[]);
        tally.add(&root.display().to_string(), &case, answer, &table);
        let theirs = answer.microseconds;
        let ours = microseconds(root, &version);
        say(&format!(
            "\n{}: {} files, {} links, {} problems; {ours} us, NVIDIA's generator {theirs} us\n",
            root.display(),
            case.files.files.len(),
            case.files.links.len(),
            case.files.problems.len(),
        ));
    }
    say(&tally.report());
    assert!(tally.unknown.is_empty(), "{}", tally.unknown.join("\n"));
}

/// The time of one run after another one, as for NVIDIA's.
fn microseconds(root: &Path, version: &DriverVersion) -> u128 {
    let run = || {
        let paths = RuntimePaths {
            driver_root: "/",
            hook: "/hook",
        };
        DriverFiles::find(&DriverRoot::new(root), version).container_edits(&paths)
    };
    run();
    let start = Instant::now();
    run();
    start.elapsed().as_micros()
}

#[derive(Default)]
struct Tally {
    equal: u64,
    answered: u64,
    counts: BTreeMap<String, u64>,
    unknown: Vec<String>,
}

impl Tally {
    fn add(&mut self, name: &str, case: &Case<'_>, answer: &go::Answer, table: &Table) {
        if answer.edits.is_none() {
            let id = case.explain_failure(&answer.error);
            return self.count(name, id, &answer.error, table);
        }
        let differences = case.differences();
        self.answered += 1;
        let ids: Vec<_> = differences.iter().map(|it| case.explain(it)).collect();
        if ids
            .iter()
            .all(|id| id.is_some_and(|id| IN_EVERY_SPEC.contains(&id)))
        {
            self.equal += 1;
        }
        for (difference, id) in differences.iter().zip(ids) {
            self.count(name, id, &format!("{difference:?}"), table);
        }
    }

    fn count(&mut self, name: &str, id: Option<&str>, text: &str, table: &Table) {
        match id.filter(|id| table.has(id)) {
            Some(id) => *self.counts.entry(id.to_owned()).or_default() += 1,
            None => self.unknown.push(format!("{name}: {id:?}: {text}")),
        }
    }

    fn report(&self) -> String {
        let mut text = format!(
            "\nDriver files against NVIDIA's generator: {} roots answered, {} of them equal but for what differs in every spec\n",
            self.answered, self.equal
        );
        for (id, count) in &self.counts {
            writeln!(text, "  differs, {id}: {count}").unwrap();
        }
        writeln!(text, "  differs, unknown: {}", self.unknown.len()).unwrap();
        text
    }
}
