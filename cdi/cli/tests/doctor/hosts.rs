//! The table of hosts: doctor's first finding, and its exit code.
//!
//! A host as shipped by its maker, or prepared as a vendor documents, is healthy: no finding may be
//! above info.

mod broken;
mod claims;
mod healthy;
mod specs;

use std::fmt::Write as _;

use serde_json::Value;

use super::channel_nodes::mknod;
use super::host::Host;

/// A host, and doctor's expected result.
pub(crate) struct Row {
    /// In words.
    host: &'static str,
    /// The document that describes such hosts, or this fault.
    source: &'static str,
    /// The id of the first finding; `None` on a healthy host, whatever info findings there are.
    first: Option<&'static str>,
    /// Whether it has device nodes, which only root may make.
    needs_node: bool,
    build: fn() -> Host,
}

// === impl Row ===

impl Row {
    const fn needs_node(mut self) -> Self {
        self.needs_node = true;
        self
    }
}

/// The first finding above info (`None` if healthy), the exit code, and all findings.
fn first_finding(host: &Host) -> (Option<String>, i32, String) {
    let output = host.run("doctor --json");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report.get("findings").and_then(Value::as_array).unwrap();
    let word = |finding: &Value, member: &str| {
        finding
            .get(member)
            .and_then(Value::as_str)
            .unwrap()
            .to_owned()
    };
    let bad = findings.iter().any(|it| word(it, "severity") != "info");
    let first = findings.first().filter(|_| bad).map(|it| word(it, "id"));
    let all = findings
        .iter()
        .map(|it| format!("{}:{}", word(it, "severity"), word(it, "id")));
    let all: Vec<String> = all.collect();
    (first, output.status.code().unwrap(), all.join(", "))
}

fn check(rows: &[Row]) {
    let mut wrong = String::new();
    let can_make_nodes = mknod(&Host::bare(), "c", 1, 3);
    for row in rows.iter().filter(|row| can_make_nodes || !row.needs_node) {
        let expected = (row.first.map(str::to_owned), i32::from(row.first.is_some()));
        let (first, code, all) = first_finding(&(row.build)());
        if (first.clone(), code) != expected {
            let _ = writeln!(
                wrong,
                "{} [{}]\n  expected {:?}, got {first:?} and code {code}: {all}",
                row.host, row.source, row.first
            );
        }
    }
    let count = wrong.lines().count() / 2;
    assert!(
        wrong.is_empty(),
        "{count} of {} hosts:\n{wrong}",
        rows.len()
    );
}

// req: DOCTOR-1
#[test]
fn hosts_as_shipped_or_as_a_vendor_documents_are_healthy() {
    check(&healthy::ROWS);
    check(&specs::HEALTHY);
}

#[test]
fn the_cause_is_the_first_finding() {
    check(&broken::ROWS);
    check(&claims::ROWS);
    check(&specs::BROKEN);
}
