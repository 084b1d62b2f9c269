//! What `validate` prints.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Write};

use host_doctor::RuntimeRelease;
use imex_cdi::SpecDir;
use serde::Serialize;

use super::finding::{Finding, Findings, LIMIT, More};
use crate::args::Level;
use crate::escape::escape;
use crate::host_specs::describe_dir;
use crate::output::Report;
use crate::style::Style;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ValidateReport {
    schema: &'static str,
    pub(super) targets: Vec<RuntimeRelease>,
    /// The files that were checked.
    pub(super) files: Vec<String>,
    pub(super) findings: Vec<Finding>,
    /// The findings beyond those.
    more: Vec<More>,
    /// The directories that were read, for people.
    #[serde(skip)]
    dirs: Vec<String>,
}

// === impl ValidateReport ===

impl ValidateReport {
    pub(super) fn new(targets: Vec<RuntimeRelease>) -> Self {
        Self {
            schema: "cdi-gen/validate/v1",
            targets,
            files: vec![],
            findings: vec![],
            more: vec![],
            dirs: vec![],
        }
    }

    pub(super) fn add_findings(&mut self, findings: Findings) {
        (self.findings, self.more) = findings.finish();
    }

    pub(super) fn add_dirs(&mut self, dirs: &[SpecDir]) {
        self.dirs.extend(dirs.iter().map(describe_dir));
    }

    /// That there was nothing to check, which is not the same as nothing wrong.
    pub(super) fn no_specs(&self) -> String {
        let dirs = self.dirs.join(", ");
        format!("no CDI spec was checked: there is none in {dirs}")
    }
}

impl Report for ValidateReport {
    fn write_text(&self, style: Style, output: &mut impl Write) -> io::Result<()> {
        let mut text = String::new();
        for finding in &self.findings {
            text.push_str(&line(finding, style));
        }
        for more in &self.more {
            text.push_str(&more_line(more, style));
        }
        let bad: BTreeSet<&str> = self.findings.iter().map(|it| it.file.as_str()).collect();
        let good = self
            .files
            .iter()
            .filter(|file| !bad.contains(file.as_str()));
        for file in good {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}: {}", escape(file), style.green("OK"));
        }
        output.write_all(text.as_bytes())
    }
}

fn line(finding: &Finding, style: Style) -> String {
    let Finding {
        level,
        file,
        field: _,
        line,
        column,
        code,
        message,
        fix,
    } = finding;
    // The place has the position, so that the message need not.
    let (place, message) = match (line, column) {
        (Some(line), Some(column)) => {
            let position = format!(" (line {line}, column {column})");
            let place = format!("{file}:{line}:{column}");
            (place, message.replacen(&position, "", 1))
        }
        _ => (file.clone(), message.clone()),
    };
    let (place, message) = (escape(&place), escape(&format!("{message}; {fix}")));
    format!("{place}: {}: {message} [{code}]\n", word(*level, style))
}

fn more_line(more: &More, style: Style) -> String {
    let More {
        level,
        file,
        code,
        count,
    } = more;
    let (file, level) = (escape(file), word(*level, style));
    format!("{file}: {level}: {count} more, of which only the first {LIMIT} are told [{code}]\n")
}

fn word(level: Level, style: Style) -> String {
    match level {
        Level::Error => style.red("error"),
        Level::Warn => style.yellow("warn"),
    }
}
