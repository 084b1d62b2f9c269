//! The registry and the plan, compared with the Go library on generated hosts and containers.
//!
//! `main.go` here answers each case with `tags.cncf.io/container-device-interface`
//! (version in `go.mod`), this test with the crate, and the answers must be the same, but for the
//! differences in `divergences.json`, each with its reason. A case is a function of its number, so
//! a failure names all that is needed to repeat it.
//!
//! Without Go the test passes with a message, unless `IMEX_REQUIRE_GO` is set.
#![cfg(feature = "inject")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed unwrap outside a test function fails the test too"
)]

mod answer;
mod cases;
mod divergences;
mod go;
#[path = "../support/go_tool.rs"]
mod go_tool;
mod random;
mod specs;
mod yaml;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;

use crate::answer::Answer;
use crate::cases::{Case, Nodes};
use crate::divergences::Table;
use crate::go_tool::Go;

/// How many hosts and containers are generated.
const CASES: u64 = 1_500;

/// Past libtest's capture: the counts are this test's result.
fn say(text: &str) {
    std::io::stderr().write_all(text.as_bytes()).unwrap();
}

// req: CDI-26
#[test]
fn the_crate_agrees_with_the_go_library_except_for_the_listed_differences() {
    let Some(go) = Go::find("nothing was compared with the Go library") else {
        return;
    };
    let scratch = tempfile::tempdir().unwrap();
    let nodes = Nodes::make(&scratch.path().join("nodes"));
    if !nodes.devices {
        say("\nNo right to make device nodes: comparing without nodes of the host\n");
    }
    let cases: Vec<Case> = (0..CASES)
        .map(|number| Case::new(number, scratch.path(), &nodes))
        .collect();
    let requests: Vec<_> = cases.iter().flat_map(Case::requests).collect();
    let mut answers = go::answers(&go, &requests).into_iter();
    let table = Table::read();
    let mut tally = Tally::default();
    for case in &cases {
        let go = answers.next().unwrap();
        let go_once = answers.next().unwrap();
        tally.add(case, &case.answer(), &go, &go_once, &table);
    }
    assert!(answers.next().is_none());
    say(&tally.report());
    assert!(tally.unknown.is_empty(), "{}", tally.unknown.join("\n\n"));
    table.check(&tally.divergences);
    // A generator of only refused cases would never disagree.
    assert!(
        tally.injected > CASES / 4,
        "{} were injected",
        tally.injected
    );
}

#[derive(Default)]
struct Tally {
    agreed: u64,
    injected: u64,
    unresolved: u64,
    refused: u64,
    bad_files: usize,
    divergences: BTreeMap<String, u64>,
    unknown: Vec<String>,
}

impl Tally {
    fn add(&mut self, case: &Case, ours: &Answer, go: &Answer, go_once: &Answer, table: &Table) {
        match &ours.outcome {
            answer::Outcome::Config(_) => self.injected += 1,
            answer::Outcome::Unresolved(_) => self.unresolved += 1,
            answer::Outcome::Refused | answer::Outcome::Panicked(_) => self.refused += 1,
        }
        self.bad_files += ours.bad_files.len();
        if ours == go {
            self.agreed += 1;
            return;
        }
        let (reconciled, ids) = table.reconcile(case, ours, go.clone(), go_once);
        if *ours != reconciled {
            self.unknown.push(format!(
                "case {} differs:\n{}\n  ours {ours:?}\n  Go   {go:?}",
                case.number,
                case.describe()
            ));
        }
        for id in ids {
            *self.divergences.entry(id).or_default() += 1;
        }
    }

    fn report(&self) -> String {
        let Self {
            agreed,
            injected,
            unresolved,
            refused,
            bad_files,
            ..
        } = self;
        let mut text = format!(
            "\nCDI against the Go library: {CASES} cases ({injected} injected, {unresolved} \
             unresolved, {refused} refused; {bad_files} files with errors), {agreed} agree\n"
        );
        for (id, count) in &self.divergences {
            writeln!(text, "  differs, {id}: {count}").unwrap();
        }
        writeln!(text, "  differs, unknown: {}", self.unknown.len()).unwrap();
        text
    }
}
