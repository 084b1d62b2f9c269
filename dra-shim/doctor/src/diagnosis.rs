//! The diagnosis of a host: the state of each area, and all findings.

use serde::Serialize;

use crate::causes;
use crate::finding::{Finding, Severity};

/// The areas of a host, and all findings.
///
/// In JSON, it is an object with `areas` and `findings`; members may be added.
///
/// # Example
///
/// Metrics, and the reason of a node condition:
///
/// ```rust
/// use host_doctor::{AreaState, Diagnosis};
///
/// /// Prometheus text format.
/// fn metrics(diagnosis: &Diagnosis) -> Vec<String> {
///     let findings = diagnosis.findings.iter();
///     let mut lines: Vec<String> = findings
///         .map(|it| {
///             let (id, severity) = (it.id, it.severity.as_str());
///             format!("host_finding{{id=\"{id}\",severity=\"{severity}\"}} 1")
///         })
///         .collect();
///     // Several spec files can have the same finding.
///     lines.sort();
///     lines.dedup();
///     lines
/// }
///
/// /// The reason of a node condition such as `ImexReady=False`.
/// fn broken_area(diagnosis: &Diagnosis) -> Option<&'static str> {
///     let mut areas = diagnosis.areas.iter();
///     areas.find(|it| it.state == AreaState::Error).map(|it| it.name)
/// }
/// # use host_doctor::{Facts, Host, Invocation, Options, diagnose};
/// # let root = tempfile::tempdir()?;
/// # let gpu = root.path().join("sys/bus/pci/devices/0008:01:00.0");
/// # std::fs::create_dir_all(&gpu)?;
/// # std::fs::write(gpu.join("vendor"), "0x10de\n")?;
/// # std::fs::write(gpu.join("class"), "0x030200\n")?;
/// # let facts = Facts::read(&Host::open(root.path())?, &Options::default());
/// # let diagnosis = diagnose(&facts, &Invocation::default());
/// # assert!(metrics(&diagnosis).iter().any(|it| it.contains("severity=\"error\"")));
/// # assert_eq!(broken_area(&diagnosis), Some("driver"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// In the order of dependencies: later areas depend on earlier ones.
    pub areas: Vec<Area>,
    /// The worst first; a cause precedes its consequences, whatever its severity.
    pub findings: Vec<Finding>,
}

/// One area of a host, such as its container runtimes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Area {
    /// A stable word: `driver`, `gpus`, `fabric`, `channels`, `imex`, `directories`,
    /// `runtimes`, `watching`, `specs`, `claims` or `isolation`.
    pub name: &'static str,
    /// The severity of its worst finding, if it has any.
    pub state: AreaState,
    /// The facts in one line, for people.
    pub summary: String,
}

/// The state of an area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AreaState {
    /// No findings. Also if there is nothing to examine and that is no problem, such as
    /// no container runtime: the summary says so.
    Ok,
    /// Not examined because a prerequisite is missing: the kernel module, NVML or kubelet.
    Skipped,
    /// Its worst finding is an [`Info`](Severity::Info).
    Info,
    /// Its worst finding is a [`Warning`](Severity::Warning).
    Warning,
    /// Its worst finding is an [`Error`](Severity::Error).
    Error,
}

/// The result of the check of one area.
#[derive(Debug)]
pub(crate) struct AreaReport {
    pub(crate) summary: String,
    /// Whether there was nothing to examine.
    pub(crate) skipped: bool,
    pub(crate) findings: Vec<Finding>,
}

// === impl Diagnosis ===

impl Diagnosis {
    /// Whether there is neither an error nor a warning.
    // req: DOCTOR-1
    pub fn is_healthy(&self) -> bool {
        let is_bad = |finding: &Finding| finding.severity > Severity::Info;
        !self.findings.iter().any(is_bad)
    }

    /// A copy without evidence that may quote a file: for a bug report.
    #[must_use]
    pub fn redacted(&self) -> Self {
        Self {
            areas: self.areas.clone(),
            findings: self.findings.iter().map(Finding::redacted).collect(),
        }
    }

    /// Joins the reports of areas, which must be in order: a finding of one area may cause
    /// findings of later ones.
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
        // Stable: of equally severe findings, those of earlier areas stay first.
        causes::sort(&mut findings);
        Self { areas, findings }
    }
}

// === impl AreaState ===

impl AreaState {
    /// The word in JSON.
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

    /// An area with nothing to examine, which is neither good nor bad.
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
            Some(Severity::Error) => AreaState::Error,
            Some(Severity::Warning) => AreaState::Warning,
            Some(Severity::Info) => AreaState::Info,
            None if self.skipped => AreaState::Skipped,
            None => AreaState::Ok,
        }
    }
}
