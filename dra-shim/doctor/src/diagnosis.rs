//! What is wrong with a host as a whole.

use serde::Serialize;

use crate::area::{Area, AreaReport};
use crate::causes;
use crate::finding::{Finding, Severity};

/// Every area of a host, and everything that was found.
///
/// As JSON an object of `areas` and `findings`; members may be added to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// In the order in which one thing needs another.
    pub areas: Vec<Area>,
    /// The worst first; a cause before what it explains, whatever its severity.
    pub findings: Vec<Finding>,
}

// === impl Diagnosis ===

impl Diagnosis {
    /// Whether there is neither an error nor a warning.
    // req: DOCTOR-1
    pub fn is_healthy(&self) -> bool {
        let is_bad = |finding: &Finding| finding.severity > Severity::Info;
        !self.findings.iter().any(is_bad)
    }

    /// The same, without evidence that may quote a file: for a bug report.
    #[must_use]
    pub fn redacted(&self) -> Self {
        Self {
            areas: self.areas.clone(),
            findings: self.findings.iter().map(Finding::redacted).collect(),
        }
    }

    /// Of areas in the order in which a finding of one may cause a finding of the
    /// next.
    pub(crate) fn new(reports: Vec<(&'static str, AreaReport)>) -> Self {
        let areas = reports.iter().map(|(name, report)| Area {
            name,
            state: report.state(),
            summary: report.summary.clone(),
        });
        let areas = areas.collect();
        let findings = reports.into_iter().flat_map(|(area, report)| {
            let findings = report.findings.into_iter();
            findings.map(move |finding| Finding { area, ..finding })
        });
        let mut findings: Vec<Finding> = findings.collect();
        // Stable: among equally bad ones, those of earlier areas stay first.
        causes::sort(&mut findings);
        Self { areas, findings }
    }
}
