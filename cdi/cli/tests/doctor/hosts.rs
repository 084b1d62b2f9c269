//! The table of hosts: what doctor has to say first, and its exit code.
//!
//! A host that its maker ships, or that is prepared as a vendor asks for, is
//! healthy: nothing above an information may be found on it.

mod broken;
mod claims;
mod healthy;
mod specs;

use std::fmt::Write as _;

use serde_json::Value;

use super::channel_nodes::mknod;
use super::host::Host;

/// A host, and what is expected of doctor on it.
pub(crate) struct Row {
    /// In words.
    host: &'static str,
    /// Where it is written that hosts are so, or that this breaks them.
    source: &'static str,
    /// The id of the first finding; `None` on a healthy host, whatever
    /// informations there are.
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

/// What doctor says first, above informations on a healthy host.
fn said(host: &Host) -> (Option<String>, i32, String) {
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
        let (first, code, all) = said(&(row.build)());
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
fn nothing_is_wrong_with_a_host_as_its_maker_ships_or_a_vendor_prepares_it() {
    check(&healthy::ROWS);
    check(&specs::HEALTHY);
}

#[test]
fn of_what_is_wrong_with_a_host_the_cause_is_first() {
    check(&broken::ROWS);
    check(&claims::ROWS);
    check(&specs::BROKEN);
}
