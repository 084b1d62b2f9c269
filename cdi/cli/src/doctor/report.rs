//! What `doctor` says, as data: the text and the JSON are two views of it.

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use super::finding::{Checked, Finding, Severity};
use crate::paint::Paint;
use crate::printable::printable;

/// Names the shape of the JSON. Members may be added to a version; one that
/// goes, or means something else, makes the next.
const SCHEMA: &str = "cdi-gen/doctor/v1";

#[derive(Debug, Clone, Serialize)]
pub(super) struct Report {
    schema: &'static str,
    root: String,
    /// Whether there is neither an error nor a warning.
    pub(super) healthy: bool,
    /// What was looked at, in order.
    areas: Vec<Area>,
    /// The worst first, of equally bad ones causes first.
    findings: Vec<Finding>,
}

#[derive(Debug, Clone, Serialize)]
struct Area {
    name: &'static str,
    state: &'static str,
    summary: String,
}

// === impl Report ===

impl Report {
    pub(super) fn of(root: &Path, checked: Vec<(&'static str, Checked)>) -> Self {
        let areas = checked.iter().map(|(name, checked)| Area {
            name,
            state: checked.state(),
            summary: checked.summary.clone(),
        });
        let areas = areas.collect();
        let findings = checked
            .into_iter()
            .flat_map(|(_, checked)| checked.findings);
        let mut findings: Vec<Finding> = findings.collect();
        // Stable: of equally bad ones those of earlier areas stay first.
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        let is_bad = |finding: &Finding| finding.severity > Severity::Info;
        Self {
            schema: SCHEMA,
            root: root.display().to_string(),
            healthy: !findings.iter().any(is_bad),
            areas,
            findings,
        }
    }

    /// For a bundle: no evidence that may quote a file.
    pub(super) fn without_quotes(&self) -> Self {
        Self {
            findings: self.findings.iter().map(Finding::without_quotes).collect(),
            ..self.clone()
        }
    }

    /// The findings, then a line for each area.
    pub(super) fn write(&self, paint: Paint, output: &mut impl Write) -> io::Result<()> {
        for finding in &self.findings {
            write_finding(finding, paint, output)?;
        }
        for Area {
            name,
            state,
            summary,
        } in &self.areas
        {
            let shown = format!("{state:<7}");
            let shown = match *state {
                "error" => paint.red(&shown),
                "warning" => paint.yellow(&shown),
                "ok" => paint.green(&shown),
                _ => shown,
            };
            writeln!(output, "{name:<11}  {shown}  {}", printable(summary))?;
        }
        writeln!(output)?;
        writeln!(output, "{}", self.verdict())
    }

    fn verdict(&self) -> String {
        let count = |severity| {
            let same = |finding: &&Finding| finding.severity == severity;
            self.findings.iter().filter(same).count()
        };
        match (count(Severity::Error), count(Severity::Warning)) {
            (0, 0) => "healthy".to_owned(),
            (errors, warnings) => format!(
                "not healthy: {}, {}",
                counted(errors, "error"),
                counted(warnings, "warning")
            ),
        }
    }
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

fn write_finding(finding: &Finding, paint: Paint, output: &mut impl Write) -> io::Result<()> {
    let Finding {
        id,
        severity,
        subject,
        evidence,
        fix,
        quotes: _,
    } = finding;
    let word = match severity {
        Severity::Error => paint.red(severity.word()),
        Severity::Warning => paint.yellow(severity.word()),
        Severity::Info => severity.word().to_owned(),
    };
    writeln!(output, "{word}: {} [{id}]", printable(subject))?;
    writeln!(output, "  {}", printable(evidence))?;
    writeln!(output, "  fix: {}", printable(fix))?;
    writeln!(output)
}
