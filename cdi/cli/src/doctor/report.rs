//! What `doctor` says, as data: the text and the JSON are two views of it.

mod alike;

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use self::alike::{Alike, alike};
use super::finding::{Checked, Finding, Severity};
use super::given::word;
use crate::escape::escape;
use crate::output;
use crate::style::Style;

/// Names the shape of the JSON. Members may be added to a version; one that
/// goes, or means something else, makes the next.
const SCHEMA: &str = "cdi-gen/doctor/v1";

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    schema: &'static str,
    root: String,
    /// How to run the fixes from here, if that is not on the host.
    run_fixes: Option<String>,
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
            run_fixes: run_fixes(root),
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
}

impl output::Report for Report {
    /// The findings, those that are alike together, then a line for each area.
    fn write_text(&self, style: Style, output: &mut impl Write) -> io::Result<()> {
        for alike in alike(&self.findings) {
            write_finding(&alike, style, output)?;
        }
        for Area {
            name,
            state,
            summary,
        } in &self.areas
        {
            let shown = format!("{state:<7}");
            let shown = match *state {
                "error" => style.red(&shown),
                "warning" => style.yellow(&shown),
                "ok" => style.green(&shown),
                _ => shown,
            };
            writeln!(output, "{name:<11}  {shown}  {}", escape(summary))?;
        }
        writeln!(output)?;
        writeln!(output, "{}", self.verdict())?;
        match &self.run_fixes {
            Some(how) if !self.healthy => writeln!(output, "{}", escape(how)),
            _ => Ok(()),
        }
    }
}

impl Report {
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

/// `1 error`, `2 errors`.
pub(super) fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// Fixes name the host's files, and its programs are not where another root is.
fn run_fixes(root: &Path) -> Option<String> {
    let root = root.to_string_lossy();
    (root != "/").then(|| {
        format!(
            "commands of the fixes are the host's: run them there, or from here with `chroot {}` \
             before them; those of cdi-gen and kubectl as they stand",
            word(&root)
        )
    })
}

fn write_finding(alike: &Alike<'_>, style: Style, output: &mut impl Write) -> io::Result<()> {
    let Finding {
        id,
        severity,
        subject,
        evidence,
        fix,
        quotes: _,
    } = alike.first;
    let word = match severity {
        Severity::Error => style.red(severity.word()),
        Severity::Warning => style.yellow(severity.word()),
        Severity::Info => severity.word().to_owned(),
    };
    writeln!(output, "{word}: {} [{id}]", escape(subject))?;
    writeln!(output, "  {}", escape(evidence))?;
    writeln!(output, "  fix: {}", escape(fix))?;
    if let Some(others) = alike.others() {
        writeln!(output, "  likewise: {}", escape(&others))?;
    }
    writeln!(output)
}
