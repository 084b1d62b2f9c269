//! A plan as an NRI adjustment, compared with the same plan in a container's config.
//!
//! `go/main.go` applies the adjustments with NRI's own code for runtimes, of the versions
//! that containerd 1.7, 2.1, 2.2.0 and 2.3 have. The result equals the config after the plan,
//! except for the reported losses. A case is a function of its number.
//!
//! Without Go the test passes with a message, unless `IMEX_REQUIRE_GO` is set.
#![cfg(feature = "nri")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed unwrap outside a test function fails the test too"
)]

mod cases;
mod expected;
mod losses;

#[path = "../support/go_tool.rs"]
mod go_tool;
#[path = "../oracle/random.rs"]
mod random;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;

use imex_cdi::NriRelease;
use nri_plugin::api::ContainerAdjustment;
use serde_json::{Value, json};

use crate::cases::Case;
use crate::go_tool::Go;

/// How many containers are generated for each version.
const CASES: u64 = 400;

/// NRI's versions, the modules of the program, their release, and how many kinds of losses there
/// are.
const VERSIONS: [(&str, &str, NriRelease, usize); 4] = [
    ("0.6.1", "nri-0.6.1.mod", NriRelease::Nri0_3, 7),
    ("0.8.0", "nri-0.8.0.mod", NriRelease::Nri0_3, 7),
    ("0.10.0", "nri-0.10.0.mod", NriRelease::Nri0_10, 6),
    ("0.12.0", "go.mod", NriRelease::Nri0_11, 4),
];

// req: NRI-10
#[test]
fn a_runtime_applies_an_adjustment_as_planned_except_for_the_losses() {
    let Some(go) = Go::find("no adjustment was shown to NRI in Go") else {
        return;
    };
    let scratch = tempfile::tempdir().unwrap();
    let mut report = "\nAdjustments beside NRI in Go:\n".to_owned();
    for (version, modules, release, kinds) in VERSIONS {
        let cases = (0..CASES).map(|number| Case::new(number, scratch.path(), release));
        let cases: Vec<Case> = cases.collect();
        let mut losses = BTreeMap::<_, u32>::new();
        let answers = ask(&go, modules, &cases);
        assert_eq!(answers.len(), cases.len());
        for (case, answer) in cases.iter().zip(answers) {
            let expected = expected::seen(&expected::with_losses(case));
            assert_eq!(
                expected::seen(&answer),
                expected,
                "case {} of NRI {version}\nedits {:#}\nconfig {:#}\nlosses {:#?}",
                case.number,
                case.spec,
                case.config,
                case.adjusted.losses,
            );
            assert_named_once(&case.adjusted.adjustment);
            for loss in &case.adjusted.losses {
                *losses.entry(loss.reason.code()).or_default() += 1;
            }
        }
        writeln!(
            report,
            "  NRI {version}: {CASES} containers agree; {losses:?}"
        )
        .unwrap();
        // A generator of only what NRI can express would never disagree.
        assert_eq!(losses.len(), kinds, "{losses:?}");
    }
    std::io::stderr().write_all(report.as_bytes()).unwrap();
}

/// NRI refuses the adjustment of a plugin that claims one thing twice.
fn assert_named_once(adjustment: &ContainerAdjustment) {
    let env = adjustment.env.iter().map(|item| &item.key);
    let mounts = adjustment.mounts.iter().map(|item| &item.destination);
    let linux = adjustment.linux.iter();
    let devices = linux.flat_map(|linux| linux.devices.iter().map(|item| &item.path));
    for names in [env.collect::<Vec<_>>(), mounts.collect(), devices.collect()] {
        let distinct: BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    }
}

fn ask(go: &Go, modules: &str, cases: &[Case]) -> Vec<Value> {
    let lines = cases.iter().map(|case| {
        let adjustment = prost::Message::encode_to_vec(&case.adjusted.adjustment);
        let adjustment = adjustment.iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").unwrap();
            text
        });
        json!({"adjustment": adjustment, "config": case.config}).to_string()
    });
    let lines: Vec<String> = lines.collect();
    let modules = format!("-modfile={modules}");
    go.ask("nri/go", &[&modules, "."], &lines.join("\n"))
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}
