//! Something that is wrong with a host, or worth knowing.

use std::path::Path;

use serde::Serialize;

use super::files::Files;

/// Ascending by how bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Severity {
    /// Worth knowing; nothing needs doing for the host to work.
    Info,
    /// Works now, or for some.
    Warning,
    /// Containers do not get what they ask for.
    Error,
}

/// One cause, with what it was concluded from and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// A stable kebab-case word.
    pub(crate) id: &'static str,
    pub(crate) severity: Severity,
    /// The file, process or device that it is about, as the host calls it.
    pub(crate) subject: String,
    pub(crate) evidence: String,
    /// A command or an action.
    pub(crate) fix: String,
    /// Whether the evidence may hold what is in a file, such as a password:
    /// for who asks on the host, not for a bundle.
    #[serde(skip)]
    pub(crate) quotes: bool,
}

/// What a look at one part of a host came to.
#[derive(Debug)]
pub(crate) struct Checked {
    /// What was found there, in a line.
    pub(crate) summary: String,
    /// Whether there was nothing to look at.
    pub(crate) skipped: bool,
    pub(crate) findings: Vec<Finding>,
}

// === impl Severity ===

impl Severity {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

// === impl Finding ===

impl Finding {
    pub(crate) fn new(
        severity: Severity,
        id: &'static str,
        subject: impl Into<String>,
        evidence: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            id,
            severity,
            subject: subject.into(),
            evidence: evidence.into(),
            fix: fix.into(),
            quotes: false,
        }
    }

    /// That its evidence may hold what is in a file.
    pub(crate) fn quoting(self) -> Self {
        Self {
            quotes: true,
            ..self
        }
    }

    /// The same, with the host's name for what the evidence calls `path` or
    /// names below its directory: libraries tell where they looked, which is
    /// another path where the host's root is mounted somewhere.
    pub(crate) fn naming(mut self, files: &Files, path: &Path) -> Self {
        if files.is_this_host() {
            return self;
        }
        let directory = path.parent().unwrap_or(path);
        for seen in [path, directory] {
            let (here, host) = (seen.display().to_string(), files.shown(seen));
            if !here.is_empty() {
                self.evidence = self.evidence.replace(&here, host.trim_end_matches('/'));
            }
        }
        self
    }

    /// For others to read.
    pub(crate) fn without_quotes(&self) -> Self {
        let mut finding = self.clone();
        if finding.quotes {
            "(left out: it may quote the file)".clone_into(&mut finding.evidence);
        }
        finding
    }

    pub(crate) fn error(
        id: &'static str,
        subject: impl Into<String>,
        evidence: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::new(Severity::Error, id, subject, evidence, fix)
    }

    pub(crate) fn warning(
        id: &'static str,
        subject: impl Into<String>,
        evidence: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::new(Severity::Warning, id, subject, evidence, fix)
    }

    pub(crate) fn info(
        id: &'static str,
        subject: impl Into<String>,
        evidence: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::new(Severity::Info, id, subject, evidence, fix)
    }
}

// === impl Checked ===

impl Checked {
    pub(crate) fn new(summary: impl Into<String>, findings: Vec<Finding>) -> Self {
        Self {
            summary: summary.into(),
            skipped: false,
            findings,
        }
    }

    pub(crate) fn skipped(summary: impl Into<String>) -> Self {
        Self {
            skipped: true,
            ..Self::new(summary, vec![])
        }
    }

    /// `ok`, `skipped`, or how bad the worst of the findings is.
    pub(crate) fn state(&self) -> &'static str {
        match self.worst() {
            Some(severity) => severity.word(),
            None if self.skipped => "skipped",
            None => "ok",
        }
    }

    /// The worst of the findings; `None` if there are none.
    pub(crate) fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}
