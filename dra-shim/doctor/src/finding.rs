//! A problem of a host, or a fact worth knowing.

use serde::Serialize;

use crate::error_facts::ErrorFacts;

/// How bad a finding is, ascending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Worth knowing; nothing needs to be done for the host to work.
    Info,
    /// The host works now, or for some containers only.
    Warning,
    /// Containers do not get the devices that they request.
    Error,
}

/// One cause, with its evidence and its fix.
// req: DOCTOR-3
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// A stable kebab-case word: a cause has the same id in every version.
    pub id: &'static str,
    /// The [name](crate::Area::name) of its area. Not in the JSON, whose schema `cdi-gen`
    /// defines.
    #[serde(skip)]
    pub area: &'static str,
    /// How bad it is on this host.
    pub severity: Severity,
    /// The file, process or device that it is about, by the host's name.
    pub subject: String,
    /// What was observed, for people.
    pub evidence: String,
    /// A command or an action, for people.
    pub fix: String,
    /// Whether the evidence may quote a file, which may contain a password. Such
    /// evidence is for people on the host, not for a bug report.
    #[serde(skip)]
    pub quotes: bool,
}

// === impl Severity ===

impl Severity {
    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }

    /// The severity of a problem that affects only claims: a node without the kubelet plugin
    /// has none.
    pub(crate) fn for_claims(has_plugin: bool) -> Self {
        if has_plugin {
            Self::Warning
        } else {
            Self::Info
        }
    }
}

// === impl Finding ===

impl Finding {
    /// A copy without evidence that may quote a file.
    #[must_use]
    pub fn redacted(&self) -> Self {
        let mut finding = self.clone();
        if finding.quotes {
            "(omitted: the evidence may quote the file)".clone_into(&mut finding.evidence);
        }
        finding
    }

    /// A finding whose severity depends on the host.
    pub(crate) fn new(
        severity: Severity,
        id: &'static str,
        subject: impl Into<String>,
        evidence: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            id,
            // `Diagnosis::new` sets it.
            area: "",
            severity,
            subject: subject.into(),
            evidence: evidence.into(),
            fix: fix.into(),
            quotes: false,
        }
    }

    /// The finding for a library's error.
    pub(crate) fn of(severity: Severity, subject: &str, error: &ErrorFacts) -> Self {
        Self::new(severity, error.code, subject, &error.message, &error.hint)
    }

    /// An [`Error`](Severity::Error).
    pub(crate) fn error(
        id: &'static str,
        subject: impl Into<String>,
        evidence: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::new(Severity::Error, id, subject, evidence, fix)
    }

    /// A [`Warning`](Severity::Warning).
    pub(crate) fn warning(
        id: &'static str,
        subject: impl Into<String>,
        evidence: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::new(Severity::Warning, id, subject, evidence, fix)
    }

    /// An [`Info`](Severity::Info).
    pub(crate) fn info(
        id: &'static str,
        subject: impl Into<String>,
        evidence: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::new(Severity::Info, id, subject, evidence, fix)
    }

    /// Marks its evidence as a possible quote from a file.
    pub(crate) fn quoting(self) -> Self {
        Self {
            quotes: true,
            ..self
        }
    }
}
