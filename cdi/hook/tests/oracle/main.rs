//! The hook, compared with NVIDIA's own (`go.mod` pins its version) on generated root file systems.
//!
//! Each case is laid out twice. NVIDIA's four hooks run in one, this program in the other: as `container` in even
//! cases, with NVIDIA's sub-commands in odd ones. The trees must be the same, but for the differences in
//! `divergences.json`, each with its reason. A case is a function of its number.
//!
//! Needs root. Without Go the test passes with a message, unless `IMEX_REQUIRE_GO` is set.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed unwrap outside a test function fails the test too"
)]

mod cases;
#[path = "../support/container.rs"]
#[expect(dead_code, reason = "the other tests use the rest")]
mod container;
mod divergences;
mod library;
#[path = "../support/nvidia.rs"]
mod nvidia;
mod tree;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use crate::cases::Case;
use crate::container::{Container, HOOK, is_root, stderr, stdout};
use crate::divergences::Table;
use crate::tree::Tree;

/// How many root file systems are generated.
const CASES: u64 = 100;
const COMPAT: &str = "/etc/ld.so.conf.d/00-compat-*.conf";

/// What a container's hooks did.
#[derive(Clone, PartialEq)]
pub(crate) struct Outcome {
    /// The reason if the container is not started.
    pub(crate) error: Option<String>,
    /// The parameters that the container sees.
    pub(crate) params: String,
    pub(crate) tree: Tree,
}

fn run(case: &Case, container: &Container, program: &Path, hooks: &[String]) -> Outcome {
    let hook = |arguments: &String| format!("{} {arguments} <state.json >&2", program.display());
    let hooks: Vec<String> = hooks.iter().map(hook).collect();
    let output = container.script(&format!(
        "{}\n{} || failed=1
         cat rootfs/proc/driver/nvidia/params 2>/dev/null || true
         exit ${{failed:-0}}",
        case.mounts(),
        hooks.join(" && ")
    ));
    let error = (!output.status.success()).then(|| stderr(&output));
    Outcome {
        error,
        params: stdout(&output),
        tree: Tree::read(container),
    }
}

fn outcomes(number: u64, nvidia: &Path) -> (Case, Outcome, Outcome) {
    let [theirs, ours] = [(); 2].map(|()| Container::new());
    let case = Case::lay_out(number, &theirs);
    Case::lay_out(number, &ours);
    let theirs = run(&case, &theirs, nvidia, &case.nvidia_hooks());
    let hooks = if number.is_multiple_of(2) {
        vec![case.container_hook()]
    } else {
        case.nvidia_hooks()
    };
    let root = ours;
    let ours = run(&case, &root, Path::new(HOOK), &hooks);
    assert_eq!(fs::read_dir(root.outside()).unwrap().count(), 0, "{case:?}");
    (case, ours, theirs)
}

#[test]
fn the_program_agrees_with_nvidias_except_for_the_listed_differences() {
    if !is_root() {
        return;
    }
    let Some(nvidia) = nvidia::build("nothing was compared with NVIDIA's hook") else {
        return;
    };
    let table = Table::read();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let (mut agreed, mut started, mut compat, mut unknown) = (0, 0, 0, Vec::new());
    for number in 0..CASES {
        let (case, ours, theirs) = outcomes(number, nvidia.path());
        started += u64::from(ours.error.is_none());
        agreed += u64::from(is_same(&ours, &theirs));
        compat += u64::from(ours.tree.0.contains_key(COMPAT));
        let (expected, ids) = table.reconcile(&case, &ours, theirs.clone());
        for id in ids {
            *counts.entry(id).or_default() += 1;
        }
        if !is_same(&ours, &expected) {
            unknown.push(report(&case, &ours, &expected));
        }
    }
    let mut text = format!(
        "\nHook against NVIDIA's: {CASES} roots ({started} started, {compat} with compatibility libraries), {agreed} agree\n"
    );
    for (id, count) in &counts {
        writeln!(text, "  differs, {id}: {count}").unwrap();
    }
    writeln!(text, "  differs, unknown: {}", unknown.len()).unwrap();
    std::io::stderr().write_all(text.as_bytes()).unwrap();
    assert!(unknown.is_empty(), "{}", unknown.join("\n\n"));
    table.check(&counts);
    // A generator of only refused cases would never disagree.
    assert!(started > CASES / 2 && compat > CASES / 10);
}

/// Containers that are not started may differ in the rest.
fn is_same(ours: &Outcome, theirs: &Outcome) -> bool {
    match (&ours.error, &theirs.error) {
        (Some(_), Some(_)) => true,
        (None, None) => ours.params == theirs.params && ours.tree == theirs.tree,
        _ => false,
    }
}

fn report(case: &Case, ours: &Outcome, theirs: &Outcome) -> String {
    let mut text = format!("case {} differs: {case:?}\n", case.number);
    for (name, outcome) in [("ours", ours), ("NVIDIA", theirs)] {
        writeln!(
            text,
            "  {name}: error {:?}, params {:?}",
            outcome.error, outcome.params
        )
        .unwrap();
    }
    text + &ours.tree.differences(&theirs.tree)
}
