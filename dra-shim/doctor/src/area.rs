//! The areas of a host that are examined, and how each of them is.

use serde::Serialize;

use crate::finding::{Finding, Severity};

/// One area of a host, such as its container runtimes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Area {
    /// A stable word: `driver`, `fabric`, `channels`, `imex`, `directories`,
    /// `runtimes`, `watching`, `specs`, `claims` or `isolation`.
    pub name: &'static str,
    /// How bad its worst finding is, if it has any.
    pub state: AreaState,
    /// What was found there, in one line for people.
    pub summary: String,
}

/// How an area is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AreaState {
    /// No findings. Also where there is nothing, if that is not wrong by itself,
    /// such as no container runtime: the summary says so.
    Ok,
    /// Not examined, since something that it needs is missing: the kernel module,
    /// NVML or kubelet.
    Skipped,
    /// Its worst finding is an [`Info`](Severity::Info).
    Info,
    /// Its worst finding is a [`Warning`](Severity::Warning).
    Warning,
    /// Its worst finding is an [`Error`](Severity::Error).
    Error,
}

/// What the check of one area returns.
#[derive(Debug)]
pub(crate) struct AreaReport {
    pub(crate) summary: String,
    /// Whether there was nothing to examine.
    pub(crate) skipped: bool,
    pub(crate) findings: Vec<Finding>,
}

// === impl AreaState ===

impl AreaState {
    /// As in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Skipped => "skipped",
            Self::Info => Severity::Info.as_str(),
            Self::Warning => Severity::Warning.as_str(),
            Self::Error => Severity::Error.as_str(),
        }
    }
}

impl From<Severity> for AreaState {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Info => Self::Info,
            Severity::Warning => Self::Warning,
            Severity::Error => Self::Error,
        }
    }
}

// === impl AreaReport ===

impl AreaReport {
    /// An area that was examined.
    pub(crate) fn new(summary: impl Into<String>, findings: Vec<Finding>) -> Self {
        Self {
            summary: summary.into(),
            skipped: false,
            findings,
        }
    }

    /// There was nothing to examine, which is neither good nor bad.
    pub(crate) fn skipped(summary: impl Into<String>) -> Self {
        Self {
            skipped: true,
            ..Self::new(summary, vec![])
        }
    }

    /// The worst of the findings; `None` if there are none.
    pub(crate) fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    pub(crate) fn state(&self) -> AreaState {
        match self.worst() {
            Some(severity) => severity.into(),
            None if self.skipped => AreaState::Skipped,
            None => AreaState::Ok,
        }
    }
}
