//! The findings of `validate`, and its report.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, Write};

use host_doctor::RuntimeRelease;
use serde::Serialize;

use crate::args::Level;
use crate::escape::escape;
use crate::output::Report;
use crate::terminal::Style;

/// The most findings of one code that are reported per file. Every few bytes of a spec may have
/// one, and every device of a directory may be in conflict.
const LIMIT: usize = 100;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Finding {
    pub(super) level: Level,
    /// The file or directory.
    pub(super) file: String,
    /// Path of the field in JSON.
    pub(super) field: Option<String>,
    pub(super) line: Option<usize>,
    pub(super) column: Option<usize>,
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) fix: String,
}

/// The findings of a file beyond the limit.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OmittedFindings {
    level: Level,
    file: String,
    code: &'static str,
    count: usize,
}

/// Collects findings, and keeps those to report.
pub(super) struct Findings {
    /// The lowest level to report.
    level: Level,
    reported: Vec<Finding>,
    /// By file.
    counts: BTreeMap<String, BTreeMap<(Level, &'static str), usize>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ValidateReport {
    schema: &'static str,
    pub(super) targets: Vec<RuntimeRelease>,
    /// The files that were checked.
    pub(super) files: Vec<String>,
    pub(super) findings: Vec<Finding>,
    /// The findings beyond the limit.
    more: Vec<OmittedFindings>,
    /// The directories that were read, for people.
    #[serde(skip)]
    pub(super) dirs: Vec<String>,
}

// === impl Finding ===

impl Finding {
    /// An error about a file as a whole.
    pub(super) fn error(
        file: &str,
        code: &'static str,
        message: String,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            level: Level::Error,
            file: file.to_owned(),
            field: None,
            line: None,
            column: None,
            code,
            message,
            fix: fix.into(),
        }
    }

    /// Makes it a warning about one field.
    pub(super) fn warning_in(self, field: String) -> Self {
        Self {
            level: Level::Warn,
            field: Some(field),
            ..self
        }
    }
}

// === impl Findings ===

impl Findings {
    pub(super) fn new(level: Level) -> Self {
        Self {
            level,
            reported: vec![],
            counts: BTreeMap::new(),
        }
    }

    pub(super) fn push(&mut self, finding: Finding) {
        if self.count(finding.level, &finding.file, finding.code) {
            self.reported.push(finding);
        }
    }

    /// Like `push`, but builds the finding only if it is reported: there may be very many.
    pub(super) fn push_with(
        &mut self,
        level: Level,
        file: &str,
        code: &'static str,
        finding: impl FnOnce() -> Finding,
    ) {
        if self.count(level, file, code) {
            self.reported.push(finding());
        }
    }

    /// Returns the findings to report, and how many more there are.
    fn finish(self) -> (Vec<Finding>, Vec<OmittedFindings>) {
        let Self {
            reported, counts, ..
        } = self;
        let files = counts.into_iter();
        let more = files.flat_map(|(file, codes)| {
            let omitted = codes.into_iter().filter(|(_, count)| *count > LIMIT);
            omitted.map(move |((level, code), count)| OmittedFindings {
                level,
                file: file.clone(),
                code,
                count: count - LIMIT,
            })
        });
        (reported, more.collect())
    }

    /// Counts a finding; returns whether to report it.
    fn count(&mut self, level: Level, file: &str, code: &'static str) -> bool {
        if level < self.level {
            return false;
        }
        if !self.counts.contains_key(file) {
            self.counts.insert(file.to_owned(), BTreeMap::new());
        }
        let Some(codes) = self.counts.get_mut(file) else {
            return false;
        };
        let count = codes.entry((level, code)).or_default();
        *count += 1;
        *count <= LIMIT
    }
}

impl Extend<Finding> for Findings {
    fn extend<T: IntoIterator<Item = Finding>>(&mut self, findings: T) {
        for finding in findings {
            self.push(finding);
        }
    }
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
    // The place has the position, so the message need not repeat it.
    let (file, message) = (&finding.file, &finding.message);
    let (place, message) = match (finding.line, finding.column) {
        (Some(line), Some(column)) => {
            let position = format!(" (line {line}, column {column})");
            let place = format!("{file}:{line}:{column}");
            (place, message.replacen(&position, "", 1))
        }
        _ => (file.clone(), message.clone()),
    };
    let message = escape(&format!("{message}; {}", finding.fix));
    let (place, level) = (escape(&place), word(finding.level, style));
    format!("{place}: {level}: {message} [{}]\n", finding.code)
}

fn more_line(more: &OmittedFindings, style: Style) -> String {
    let (file, level) = (escape(&more.file), word(more.level, style));
    let (count, code) = (more.count, more.code);
    format!("{file}: {level}: {count} more not shown; the limit is {LIMIT} [{code}]\n")
}

fn word(level: Level, style: Style) -> String {
    match level {
        Level::Error => style.red("error"),
        Level::Warn => style.yellow("warn"),
    }
}
